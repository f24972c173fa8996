"""Tables as others write them, servers that answer something else, and names of any length in pictures."""

from __future__ import annotations

import csv
import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from served_models import CLASSIFIER, text_model
from small_specs import FOLNET

from peirce.errors import InputError, TaskError
from peirce.registry import Registry
from peirce_show.drawing import draw
from peirce_show.svg import truncate
from peirce_text.reading import read_rows
from peirce_text.tabular import predictor as predicting
from peirce_text.tabular.classify import Classify, ClassifyOptions
from peirce_text.tabular.columns import class_name
from peirce_text.tabular.measures import Confusion, marks_spans, span_counts, spans
from peirce_text.tabular.tag import Tag, TagOptions
from peirce_text.tabular.writer import table_writer
from peirce_text.text.shards import ShardError, find_shards

WORDS, TAGS = ["Emmy", "Noether", "met", "Ada"], ["B-who", "I-who", "O", "B-who"]


def tag(path: Path, content: str, **options: Any) -> Tag:
    path.write_text(content, encoding="utf-8")
    return Tag(TagOptions(data=str(path), vocabulary=60, **options))


def texts_of(task: Tag) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The words and tags of every text, whichever split it is in."""
    return sorted((each.words, each.tags) for examples in task.read().values() for each in examples)


def as_csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    class Lines(list[str]):
        write = list.append

    csv.writer(lines := Lines(), lineterminator="\n").writerows([header, *rows])
    return "".join(lines)


LISTS: Mapping[str, Callable[[list[str]], str]] = {
    "pandas": str,
    "JSON": json.dumps,
    "numpy": lambda items: str(np.array(items)),
    "numpy in lines": lambda items: "[" + "\n ".join(map(repr, items)) + "]",
    "numpy 2 in pandas": lambda items: "[" + ", ".join(f"np.str_({each!r})" for each in items) + "]",
    "a tuple": lambda items: str(tuple(items)),
}
NO_LISTS: Mapping[str, Callable[[list[str]], str]] = {
    "bare": lambda items: f"[{', '.join(items)}]",
    "cut by numpy": lambda items: f"[{items[0]!r} ... {items[-1]!r}]",
    "nested": lambda items: str([items]),
    "a set": lambda items: "{" + ", ".join(map(repr, items)) + "}",
    "commas": ", ".join,
    "an array": lambda items: f"array({items!r}, dtype=object)",
}


@pytest.mark.report(
    "https://github.com/huggingface/datasets/issues/4673",
    "lists that were saved as CSV come back as texts such as `['EU' 'rejects']`",
    "JSON, Python's and numpy's texts of lists are read as lists, and other forms are refused by name",
)
@pytest.mark.parametrize("form", [*LISTS, *NO_LISTS])
def test_the_text_of_a_list_is_a_list(tmp_path: Path, form: str) -> None:
    write = {**LISTS, **NO_LISTS}[form]
    task = tag(tmp_path / "my.csv", as_csv(["tokens", "tags"], [[write(WORDS), write(TAGS)]] * 12))
    if form in LISTS:
        assert texts_of(task) == [(tuple(WORDS), tuple(TAGS))] * 12
    else:
        with pytest.raises(TaskError, match=r"looks like (the text|a piece) of a list.*\.jsonl"):
            task.read()


@pytest.mark.report(
    "https://github.com/huggingface/datasets/issues/6778",
    "a list of numbers is written without commas, and is no list when it is read",
    "numbers of classes are read with commas, with spaces, and with numpy's alignment",
)
@pytest.mark.parametrize(
    "numbers", ["[3, 0, 7, 3]", "[3 0 7 3]", "[ 3  0  7  3]", "[3. 0. 7. 3.]", "3 0 7 3"]
)
def test_numbers_of_tags_are_read(tmp_path: Path, numbers: str) -> None:
    task = tag(tmp_path / "my.csv", as_csv(["tokens", "tags"], [["[UNK] met [UNK] .", numbers]] * 12))
    assert texts_of(task)[0] == (("[UNK]", "met", "[UNK]", "."), ("3", "0", "7", "3"))


SENTENCES = [("Ann", "B-who"), ("sat", "O")], [("Bob", "B-who"), ("ran", "O"), ("home", "O")]
BY_ROWS = [
    (i, place == 0, word, kind) for i in range(12) for place, (word, kind) in enumerate(SENTENCES[i % 2])
]
WORD_A_ROW = {
    "first.csv": as_csv(["Sentence #", "Word", "Tag"], [(f"S{i}" if new else "", *rest) for i, new, *rest in BY_ROWS]),
    "each.csv": as_csv(["sentence_id", "token", "tag"], [(i, *rest) for i, _, *rest in BY_ROWS]),
    "empty.csv": as_csv(["Word", "Tag"], [row for i in range(12) for row in (*SENTENCES[i % 2], ())]),
    "commas.csv": as_csv(["Word", "Tag"], [row for i in range(12) for row in (*SENTENCES[i % 2], ("", ""))]),
    "rows.jsonl": "".join(json.dumps({"sent_id": i, "form": w, "upos": k}) + "\n" for i, _, w, k in BY_ROWS),
}  # fmt: skip


@pytest.mark.report(
    "https://github.com/pytorch/text/issues/224",
    "a table with a word in each row becomes texts of one word",
    "its sentences are put together by a column or by empty lines, or it is refused",
)
@pytest.mark.parametrize("name", WORD_A_ROW)
def test_a_word_a_row_makes_sentences(tmp_path: Path, name: str) -> None:
    found = texts_of(tag(tmp_path / name, WORD_A_ROW[name]))
    assert found == sorted((*zip(*SENTENCES[i % 2], strict=True),) for i in range(12))
    for lost in (["Word", "Tag"], ["Word", "Tag", ""]):  # nothing, or an empty line after every word
        rows = [row for _, _, *row in BY_ROWS for row in ([row, []] if len(lost) > 2 else [row])]
        with pytest.raises(TaskError, match=r"one word in each row.*task\.sentence"):
            tag(tmp_path / "lost.csv", as_csv(lost[:2], rows)).read()


CONLL = {
    "eng.conll": "-DOCSTART- -X- -X- O\n\n" + "EU NNP B-NP B-org\n# # O O\n\nAnn NNP B-NP B-who\nsat VBD O O\n\n" * 6,
    "tabs.conll": "EU\tB-org\r\n#\tO\r\n\r\nAnn\tB-who\r\nsat\tO\r\n\r\n" * 6,
    "numbered.conll": "#\thttp://a.b [2009]\n1\tEU\tB-org\n2\t#\tO\n\n1\tAnn\tB-who\n2\tsat\tO\n\n" * 6,
    "domains.bio": "# id 52\tdomain=en\nEU _ _ B-org\n# _ _ O\n\n# id 53\tdomain=en\nAnn _ _ B-who\nsat _ _ O\n\n" * 6,
    "two.conllu": (
        "# sent_id = a\n1-2\tEU#" + "\t_" * 8 + "\n1\tEU\t_\tB-org" + "\t_" * 6 + "\n2\t#\t_\tO" + "\t_" * 6 + "\n\n"
        "# text = Ann sat\n1\tAnn\t_\tB-who" + "\t_" * 6 + "\n2\tsat\t_\tO" + "\t_" * 6 + "\n2.1\tx" + "\t_" * 8
        + "\n\n"
    ) * 6,
}  # fmt: skip


@pytest.mark.report(
    "https://github.com/FudanNLP/fastNLP/issues/405",
    "`-DOCSTART-` is read as the word of a sentence",
    "lines that are no words are left out of CoNLL's files: document marks, comments, ranges, empty nodes",
)
@pytest.mark.parametrize("name", CONLL)
def test_files_of_conll_are_read(tmp_path: Path, name: str) -> None:
    found = texts_of(tag(tmp_path / name, CONLL[name]))
    assert found == [(("Ann", "sat"), ("B-who", "O"))] * 6 + [(("EU", "#"), ("B-org", "O"))] * 6
    with pytest.raises(TaskError, match=r"line \d+ has 1 columns"):
        tag(tmp_path / name, CONLL[name] + "\nAnn\n").read()


@pytest.mark.report(
    "https://github.com/jiesutd/LatticeLSTM/issues/17",
    "the tag M- of Chinese data is unknown to the measure of spans",
    "BMES, BMEWO, BILOU, IO, tags without a kind and tags that end in the letter are read; others are refused",
)
def test_schemes_of_tags_are_read_or_refused(tmp_path: Path) -> None:
    whole = {(0, 3, "a"), (4, 5, "a")}
    for tags in (
        "B-a M-a E-a O S-a", "B-a I-a L-a O U-a", "B_a M_a E_a O W_a", "b-a i-a i-a o b-a", "a-B a-I a-I O a-B",
        "I-a I-a I-a O I-a",
    ):  # fmt: skip
        assert spans(tags.split()) == whole
        assert marks_spans(tags.split())
    assert spans(["B", "I", "I", "O", "B"]) == {(0, 3, ""), (4, 5, "")}
    assert span_counts(["B-a", "M-a", "E-a"], ["B-a", "O", "E-a"]).tolist() == [0, 1, 2]
    for odd in ("B-a I-a X O", "B-a Q-a I-a O", "START-a CONT-a START-a O", "B-a I-a I-a 0"):
        row = json.dumps({"tokens": WORDS, "tags": odd.split()}) + "\n"
        with pytest.raises(TaskError, match="which is of no scheme of spans"):
            tag(tmp_path / "my.jsonl", row * 12).read()
    assert not marks_spans(["NN", "S-PRO", "A-PRO", "V", "PRP$", "''"])


@pytest.mark.report(
    "https://github.com/calpaterson/csvbase/issues/11",
    "whole numbers become `1.0` once a cell of their column is empty, and are another value then",
    "`1.0` is the class 1; `1` and `01`, and names that look the same, are refused side by side",
)
def test_a_class_has_one_name(tmp_path: Path) -> None:
    assert [class_name(each, "here") for each in (1, 1.0, "1", " 1.0 ", "1.", "01", "0.5")] == ["1"] * 5 + [
        "01",
        "0.5",
    ]
    assert class_name("pos\u200b", "here") == class_name(" pos ", "here") == "pos"
    for names in (("1", "01"), ("1", "1e0"), ("0.5", ".5"), ("caf\u00e9", "cafe\u0301"), ("1", "\uff11")):
        rows = [("some text", names[i % 2]) for i in range(20)]
        (tmp_path / "my.csv").write_text(as_csv(["text", "label"], rows), encoding="utf-8")
        with pytest.raises(TaskError, match=r"(are one number|look the same); write each class in one way"):
            Classify(ClassifyOptions(data=str(tmp_path / "my.csv"), vocabulary=60)).read()


@pytest.mark.report(
    "https://github.com/python/cpython/issues/61739",
    "of two columns with one name the first is lost without a word",
    "they are refused, in each format, with spaces around the name too",
)
def test_columns_have_names_of_their_own(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "a.csv").write_text("text,label,label \na,b,c\n")
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": 1, "label": 2}\n')
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, ["label", " label"]), tmp_path / "a.parquet")
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        with pytest.raises(TaskError, match=rf"{name}.*are both called 'label'"):
            list(read_rows(tmp_path / name))
    (tmp_path / "b.csv").write_text("Text,text,label\na b,c,x\n")
    with pytest.raises(TaskError, match="'Text' and 'text' may both hold the text"):
        Classify.suits(str(tmp_path / "b.csv"))


@pytest.mark.report(
    "https://github.com/apache/arrow/pull/4999",
    "a Parquet file of 1 MB takes 500 MB, since one value that it keeps once is given to every row",
    "what a Parquet file unpacks to is bounded before it is unpacked, by its metadata and batch by batch",
)
@pytest.mark.parametrize("kind", ["plain", "dictionary", "lists", "nothing"])
def test_a_small_parquet_file_does_not_fill_the_memory(tmp_path: Path, kind: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "bomb.parquet"
    column = {
        "plain": pa.array(["a " * 500_000] * 70),
        "dictionary": pa.array(["a " * 500_000] * 200),
        "lists": pa.array([["a " * 50_000] * 100] * 20),
        "nothing": pa.array([[None] * 9_000_000], pa.list_(pa.int32())),
    }[kind]
    pq.write_table(pa.table({"text": column}), path, compression="zstd", use_dictionary=kind != "plain")
    assert path.stat().st_size < 10_000
    before = pa.total_allocated_bytes()
    with pytest.raises(TaskError, match=r"bomb\.parquet cannot be read: it unpacks to more than 200 times"):
        list(read_rows(path))
    assert pa.total_allocated_bytes() - before < 2**24
    (shard,) = find_shards([path])
    with pytest.raises(ShardError, match="unpacks to more than 200 times"):
        list(shard.texts())


@contextmanager
def answering(body: bytes, kind: str = "application/json", code: int = 200, **headers: str) -> Iterator[str]:
    """The address of a model at a server that knows it, and answers each question with these bytes."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._say(200, b"{}", {"Content-Length": "2"})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.close_connection = True
            self._say(code, body, headers or {"Content-Length": str(len(body))})

        def _say(self, code: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(code)
            for name, value in {"Content-Type": kind, **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(body)
                    if "Transfer_Encoding" not in headers:
                        return
            except OSError:
                return

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/weather"
        server.shutdown()


def outputs(**columns: object) -> bytes:
    return json.dumps({"outputs": [{"name": name, "data": data} for name, data in columns.items()]}).encode()


REPLIES: Mapping[str, tuple[bytes, Mapping[str, Any], str]] = {
    "no object": (b"[]", {}, "'classes' must hold some texts"),
    "no outputs": (b"{}", {}, "'classes' must hold some texts"),
    "no data": (b'{"outputs": [{"name": "classes"}, null]}', {}, "'classes' must hold some texts"),
    "numbers for classes": (outputs(classes=[1], scores=[1.0]), {}, "'classes' must hold some texts"),
    "half a character": (outputs(classes=["\ud800"], scores=[1.0]), {}, "'classes' must hold some texts"),
    "too few": (outputs(classes=["a", "b"], scores=[1.0]), {}, "'scores' must hold 2 numbers"),
    "none": (outputs(classes=[], scores=[]), {}, "'classes' must hold some texts"),
    "no number": (outputs(classes=["a"], scores=[float("nan")]), {}, "'scores' must hold 1 numbers"),
    "a huge one": (outputs(classes=["a"], scores=[10**400]), {}, "'scores' must hold 1 numbers"),
    "texts for scores": (outputs(classes=["a"], scores=["1"]), {}, "'scores' must hold 1 numbers"),
    "a page": (b"<html>hello</html>", {"kind": "text/html"}, "answers with text/html that is not JSON"),
    "cut": (b'{"outputs": [', {}, "not JSON"),
    "nested": (b"[" * 100_000, {}, "not JSON"),
    "a redirect": (b"", {"code": 302, "Location": "http://elsewhere/", "Content_Length": "0"}, "sends on to http://else"),
    "an error": (b"<p>no</p>", {"code": 502, "kind": "text/html"}, r"refuses \(502 Bad Gateway\): <p>no"),
    "no end": (b"800\r\n" + b" " * 2048 + b"\r\n", {"Transfer_Encoding": "chunked"}, "does not end"),
}  # fmt: skip


@pytest.mark.report(
    "https://github.com/triton-inference-server/client/issues/865",
    "what a gateway answers in a server's place is parsed as the server's JSON, and fails far from its cause",
    "an answer is read to a bound, checked in one place, and named with its address where it is none",
)
@pytest.mark.parametrize("what", REPLIES)
def test_what_a_server_answers_is_checked(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, how, message = REPLIES[what]
    monkeypatch.setattr(predicting, "LARGEST_REPLY", 100_000)
    with answering(body, **how) as url, predicting.predictor(url) as model:
        with pytest.raises(InputError, match=message) as found:
            model.predict([["the sea is calm"]], 1)
        assert f"{url.removesuffix('/weather')}/v2/models/weather_classify/infer" in str(found.value)


@pytest.mark.report(
    "https://github.com/pandas-dev/pandas/issues/10018",
    "a CSV that was written with a carriage return in a text has other rows when it is read",
    "all that is written is read again as it was: line ends, quotes, NUL, lists of words with spaces",
)
def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    texts = ["a\rb", "a\r\nb", "a\nb", 'a "b", c', "a\0b", "=1+1", " a ", "\u2028\x85", "\U0001f600"]
    with table_writer(tmp_path / "new", tmp_path / "a.csv") as write:
        write([{"text": each, "words": ["New York", "[is", "here]"]} for each in texts])
    (tmp_path / "new").rename(tmp_path / "a.csv")
    rows = list(read_rows(tmp_path / "a.csv"))
    assert [row.values["text"] for row in rows] == texts
    assert {row.values["words"] for row in rows} == {'["New York", "[is", "here]"]'}


@pytest.mark.report(
    "https://github.com/evidentlyai/evidently/issues/387",
    "JSON files have NaN and infinities, which no other reader of JSON takes",
    "null stands for them in JSON, and numbers that Parquet cannot hold are refused by name",
)
def test_numbers_that_a_format_lacks(tmp_path: Path) -> None:
    with table_writer(tmp_path / "new", tmp_path / "a.jsonl") as write:
        write([{"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": float("-inf")}}])
    assert json.loads((tmp_path / "new").read_text()) == {"a": None, "b": [None, 1.5], "c": {"d": None}}
    with (
        pytest.raises(TaskError, match=r"none of Parquet's.*\.jsonl"),
        table_writer(tmp_path / "big", tmp_path / "a.parquet") as write,
    ):
        write([{"a": 10**30}])


@pytest.mark.report(
    "https://github.com/openai/tiktoken/issues/82",
    "a text with half a character of UTF-16 ends in an error of the tokenizer",
    "the row that has it is named when it is read, and a text that speaks of one is not refused",
)
def test_half_a_character_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "\\ud83d\\ude00 and \\\\ud83d"}\n{"text": "cut: \\ud83d"}\n')
    rows = read_rows(tmp_path / "a.jsonl")
    assert next(rows).values["text"] == "\U0001f600 and \\ud83d"
    with pytest.raises(TaskError, match=r"row 2: it has .*ud83d.*half of a character"):
        next(rows)


@pytest.mark.report(
    "https://github.com/NASA-AMMOS/plandev-ui/pull/217",
    "a label is shortened letter by letter and measured anew each time",
    "a name of any length is cut at once, and so is a class's name in a picture",
)
def test_names_of_any_length_are_drawn(tmp_path: Path, registry: Registry) -> None:
    begun = time.process_time()
    assert truncate("a" * 1_000_000, 6, 40) == truncate("a" * 40, 6, 40)
    spec = attrs.evolve(FOLNET, name="f-" * 100_000)
    assert "f-f-f" in draw(spec, registry=registry)
    found = Confusion.of(["a" * 50_000, "$\\frac$", "c$d$"], np.array([0, 1, 2]), np.array([0, 1, 1]))
    found.draw(tmp_path / "a.svg")
    assert max(map(len, found.sentences())) < 200
    assert time.process_time() - begun < 60  # it took hours


@pytest.mark.report(
    "https://github.com/ThilinaRajapakse/simpletransformers/pull/724",
    "a tagger with 10,000 tags keeps all scores of all words, and runs out of memory",
    "the best tag of each word is kept, batch by batch; a table with hardly a row of each class is remarked on",
)
def test_many_classes_are_many_names_alone(
    tmp_path: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("the sea", f"c{i % 20_000}") for i in range(60_000)]
    (tmp_path / "my.csv").write_text(as_csv(["text", "label"], rows))
    task = Classify(ClassifyOptions(data=str(tmp_path / "my.csv"), vocabulary=60))
    task.read()
    assert "20,000 classes" in (said := capsys.readouterr().err)
    assert "about 3 examples of each" in said
    kept: list[tuple[int, ...]] = []
    with predicting.predictor(str(text_model(CLASSIFIER, tmp_path / "model", registry))) as model:
        scorer: Any = model._pipeline.scorer  # type: ignore[attr-defined]
        run = scorer.run
        scorer.run = lambda *given: [kept.append(each.shape) or each for each in run(*given)]
        assert len(model.predict([["the sea"] * 3], 2)) == 3
    assert kept == [(2,)] * 3


@pytest.mark.report(
    "https://docs.python.org/3/library/multiprocessing.html#the-spawn-and-forkserver-start-methods",
    "a spawned worker gets what it works on by pickle, and nothing else of its parent",
    "tasks, their data and their tokenizers go to spawned workers and come back",
)
def test_spawned_workers_get_the_data(tmp_path: Path) -> None:
    rows = json.dumps({"tokens": WORDS, "tags": TAGS}) + "\n"
    task = tag(tmp_path / "my.jsonl", rows * 20)
    here = task.prepare()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(methodcaller("prepare"), (task,))
        sent = pool.apply(attrgetter("tokenizer", "splits"), (here,))
    assert there.tokenizer.content == here.tokenizer.content == sent[0].content
    for split, part in here.splits.items():
        assert part.ids.tolist() == there.splits[split].ids.tolist() == sent[1][split].ids.tolist()

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from command_line import exit_code as run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_texts import blocks, documents
from tokenizers.processors import ByteLevel, RobertaProcessing

from peirce.errors import TaskError
from peirce_text.text.encoding import encode
from peirce_text.text.tokenizer import SPECIALS, Shorten, Tokenizer, fit_lengths

TEXTS = blocks(documents(40)).splitlines()
BERT = "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] the cat ##s sat . , na ##ive".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    return Tokenizer.train(TEXTS, 120)


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(BERT) + "\n")
    return path


def test_a_trained_tokenizer_has_the_special_tokens_first(trained: Tokenizer) -> None:
    ids = [trained.pad_id, trained.unknown_id, trained.cls_id, trained.sep_id, trained.mask_id]
    assert [trained.id_of(token) for token in SPECIALS] == ids == [0, 1, 2, 3, 4]
    assert trained.special_ids == {0, 2, 3, 4}
    assert trained.vocabulary == 120
    text = "The FARMER feeds the cows today."
    assert trained.decode(trained.pieces(text)) == text.lower()


def test_the_same_text_gives_the_same_tokenizer_in_another_process(trained: Tokenizer) -> None:
    code = (
        "import sys, hashlib; from peirce_text.text.tokenizer import Tokenizer; "
        "texts = sys.stdin.read().splitlines(); "
        "print(hashlib.sha256(Tokenizer.train(iter(texts), 120).content).hexdigest())"
    )

    for threads in ("1", "2"):
        environment = {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": "1", "PATH": ""}
        run = partial(subprocess.run, input="\n".join(TEXTS), capture_output=True, text=True, check=True)
        done = run([sys.executable, "-c", code], env=environment)
        assert done.stdout.strip() == hashlib.sha256(trained.content).hexdigest()


def test_a_rare_character_beyond_the_alphabet_is_unknown() -> None:
    many = [chr(0x3400 + i) * 2 for i in range(1100)]
    trained = Tokenizer.train([*many, *many[:1000]], 3000)
    assert trained.unknown_id not in trained.pieces(many[0])
    assert trained.pieces(many[1099])[0] == trained.unknown_id


def test_what_cannot_be_trained_is_refused() -> None:
    for texts, message in ((["  ", "\n"], "no text"), (["a b c"], "at least 8")):
        with pytest.raises(TaskError, match=message):
            Tokenizer.train(texts, 6)


def test_content_round_trips(trained: Tokenizer, tmp_path: Path) -> None:
    again = Tokenizer.from_content(trained.content)
    assert again.content == trained.content
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "tokenizer.json").write_bytes(trained.content)
    for place in (tmp_path, tmp_path / "assets", tmp_path / "assets" / "tokenizer.json"):
        assert Tokenizer.load(place).content == trained.content


def test_a_bert_vocabulary_is_read_in_the_order_of_its_lines(vocabulary: Path) -> None:
    bert = Tokenizer.load(vocabulary)
    assert bert.vocabulary == len(BERT)
    encoding = bert.encode("The cats sat.", "Naïve, the dog", length=16)
    assert [bert.token(id) for id in encoding.ids] == [
        "[CLS]", "the", "cat", "##s", "sat", ".", "[SEP]", "na", "##ive", ",", "the", "[UNK]", "[SEP]",
    ]  # fmt: skip
    assert encoding.types == (0,) * 7 + (1,) * 6
    assert encoding.sequence_ids == (None, 0, 0, 0, 0, 0, None, 1, 1, 1, 1, 1, None)
    assert Tokenizer.load(vocabulary.parent).content == bert.content


def test_a_vocabulary_says_whether_case_is_lowered(vocabulary: Path) -> None:
    said = vocabulary.with_name("tokenizer_config.json")
    said.write_text(json.dumps({"do_lower_case": False}))
    assert Tokenizer.load(vocabulary).pieces("The") == [BERT.index("[UNK]")]
    said.unlink()
    vocabulary.write_text("\n".join([*BERT, "The"]))
    assert Tokenizer.load(vocabulary).pieces("The") == [len(BERT)]


def test_windows_line_ends_and_a_byte_order_mark_are_no_part_of_entries(vocabulary: Path) -> None:
    vocabulary.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(BERT).encode())
    assert Tokenizer.load(vocabulary).pieces("cat") == [BERT.index("cat")]


def test_a_vocabulary_that_cannot_be_one_is_refused(vocabulary: Path) -> None:
    for tokens, message in (([*BERT, "cat"], r"'cat' twice \(lines 8, 15\)"), (BERT[6:], r"lacks \[PAD\]")):
        vocabulary.write_text("\n".join(tokens))
        with pytest.raises(TaskError, match=message):
            Tokenizer.load(vocabulary)


def test_what_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="holds no tokenizer"):
        Tokenizer.load(tmp_path)
    with pytest.raises(TaskError, match="cannot be read"):
        Tokenizer.load(tmp_path / "absent.json")
    with pytest.raises(TaskError, match="not a tokenizer of the package tokenizers"):
        Tokenizer.from_content(b"{}")
    table = json.loads(Tokenizer.train(TEXTS, 60).content)
    for token in ("[CLS]", "[MASK]"):
        del table["model"]["vocab"][token]
    table["added_tokens"] = [t for t in table["added_tokens"] if t["content"] not in ("[CLS]", "[MASK]")]
    with pytest.raises(TaskError, match=r"no special token \[CLS\] or <s> or <cls>, nor \[MASK\] or <mask>"):
        Tokenizer.from_content(json.dumps(table).encode())


SHORTEN: tuple[Shorten, ...] = ("longest", "first", "second")
words = st.lists(st.sampled_from(["the", "Farmer", "feeds", "queenly", "x1!", "é", "中文"])).map(" ".join)


@given(first=words, second=st.none() | words, length=st.integers(5, 40))
@settings(max_examples=60, deadline=None)
def test_encodings_fit_their_texts(trained: Tokenizer, first: str, second: str | None, length: int) -> None:
    encoding = trained.encode(first, second, length=length)
    texts = [first] if second is None else [first, second]
    whole = [trained.pieces(text) for text in texts]
    assert len(encoding) == min(length, sum(map(len, whole)) + len(texts) + 1)
    assert encoding.ids[0] == trained.cls_id
    assert encoding.ids.count(trained.sep_id) == len(texts)
    for index, text in enumerate(texts):
        own = [i for i, sequence in enumerate(encoding.sequence_ids) if sequence == index]
        assert [encoding.ids[i] for i in own] == whole[index][: len(own)]
        assert all(encoding.types[i] == index for i in own)
        for i in own:
            start, end = encoding.offsets[i]
            assert trained.pieces(text[start:end])[0] is not None
            assert 0 <= start < end <= len(text)


FRAMES = {
    "BERT": None,
    "RoBERTa": RobertaProcessing(("[SEP]", 3), ("[CLS]", 2)),
    "offsets alone": ByteLevel(),
}


@pytest.mark.parametrize("frame", FRAMES)
@given(first=words, second=st.none() | words, length=st.integers(6, 30), shorten=st.sampled_from(SHORTEN))
@settings(max_examples=40, deadline=None)
def test_the_package_tokenizers_frames_and_cuts_alike(
    trained: Tokenizer, frame: str, first: str, second: str | None, length: int, shorten: Shorten
) -> None:
    inner = tokenizers.Tokenizer.from_str(trained.content.decode())
    if frame != "BERT":
        inner.post_processor = FRAMES[frame]
    ours = Tokenizer.from_content(inner.to_str().encode())
    saved = ours.saved_content(length, shorten)
    again = Tokenizer.from_content(saved)
    assert (again.length, again.shorten, again.content) == (length, shorten, ours.content)
    texts = [first] if second is None else [first, second]
    if shorten != "longest":  # of pairs alone; where the other text leaves no room, both refuse
        assume(second is not None)
        assume(len(ours.pieces(str(second) if shorten == "first" else first)) < length - 5)
    theirs = tokenizers.Tokenizer.from_str(saved.decode()).encode(*texts)
    encoding = ours.encode(*texts, length=length, shorten=shorten)
    assert (encoding.ids, encoding.types) == (tuple(theirs.ids), tuple(theirs.type_ids))
    batch = encode(ours, [[text] for text in texts], length, shorten=shorten).arrays(np.arange(1))
    assert batch["input_ids"].tolist() == [theirs.ids]
    assert batch["token_type_ids"].tolist() == [theirs.type_ids]


def test_rows_of_a_batch_are_padded_by_the_package_alike(trained: Tokenizer) -> None:
    texts = ["the farmer", "the cows feed the farmer"]
    theirs = tokenizers.Tokenizer.from_str(trained.saved_content(32).decode()).encode_batch(texts)
    ours = encode(trained, [texts], 32).arrays(np.arange(2))
    assert ours["input_ids"].tolist() == [each.ids for each in theirs]
    assert ours["attention_mask"].tolist() == [
        [bool(real) for real in each.attention_mask] for each in theirs
    ]


def test_a_prompt_has_nothing_after_it(trained: Tokenizer) -> None:
    content = trained.prompt_content()
    found = tokenizers.Tokenizer.from_str(content.decode()).encode("the farmer").ids
    assert found == [trained.cls_id, *trained.pieces("the farmer")]
    assert Tokenizer.from_content(content).content == trained.content


def test_only_the_named_text_is_cut() -> None:
    assert fit_lengths([10, 4], 8, "first") == [4, 4]
    assert fit_lengths([10, 4], 12, "second") == [10, 2]
    with pytest.raises(TaskError, match="first text has 10 tokens, which leaves the second no room within 8"):
        fit_lengths([10, 4], 8, "second")
    with pytest.raises(TaskError, match="no room for 2 texts"):
        fit_lengths([1, 1], 1)


def test_the_middle_of_the_first_text_is_cut(trained: Tokenizer) -> None:
    text, other = "the cat sat on the mat", "the cat"
    whole, pair = trained.encode(text, length=99), trained.encode(text, other, length=99)
    cut = trained.encode(text, other, length=len(pair) - len(whole) + 2 + 5, shorten="middle")
    assert cut.ids[1:6] == (*whole.ids[1:4], *whole.ids[-3:-1])
    assert cut.offsets[1:6] == (*whole.offsets[1:4], *whole.offsets[-3:-1])
    assert cut.ids[6:] == pair.ids[len(whole) - 1 :]
    with pytest.raises(TaskError, match="leaves the first no room"):
        fit_lengths([4, 10], 8, "middle")


def test_rows_are_padded_at_the_end(trained: Tokenizer) -> None:
    texts = [("the farmer", "the"), ("the", "cows the cows the cows")]
    rows = [trained.encode(*pair, length=11) for pair in texts]
    encoded = encode(trained, list(zip(*texts, strict=True)), 11)
    assert encoded.cut == 1
    batch = encoded.batch(np.arange(2))
    assert batch["input_ids"].shape == (2, 11)
    for i, row in enumerate(rows):
        assert batch["input_ids"][i].tolist()[: len(row)] == list(row.ids)
        assert batch["token_type_ids"][i].tolist()[: len(row)] == list(row.types)
    assert batch["attention_mask"].sum(1).tolist() == [len(row) for row in rows]
    assert (batch["input_ids"][~batch["attention_mask"]] == trained.pad_id).all()


def test_halves_of_a_character_are_no_obstacle(trained: Tokenizer) -> None:
    text = "the \ud800cat"
    encoding = trained.encode(text, length=9)
    assert text[slice(*encoding.offsets[-2])] == "\ud800cat"[-1]
    assert trained.pieces(text) == trained.pieces_of([text])[0] == trained.pieces("the cat")


def test_special_tokens_in_a_text_may_be_text(trained: Tokenizer) -> None:
    assert trained.pieces("the [MASK]")[-1] == trained.mask_id
    (plain,) = trained.pieces_of(["the [MASK]"], specials=False)
    assert not trained.special_ids.intersection(plain)
    assert trained.pieces("[MASK]") == [trained.mask_id]


def test_a_tokenizer_is_trained_from_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = documents(40)
    (tmp_path / "a.txt").write_text(blocks(made[:20]))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(blocks(made[20:]).encode()))
    out = tmp_path / "new" / "tokenizer.json"
    files = (tmp_path / "a.txt", tmp_path / "b.txt.gz")
    assert run("tokenizer", "train", *files, "-o", out, "--vocabulary", 100, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed.items() >= {"schema": "peirce.tokenizer/1", "vocabulary": 100, "shards": 2}.items()
    assert Tokenizer.load(out).content == Tokenizer.train(blocks(made).splitlines(), 100).content
    assert run("tokenizer", "train", tmp_path, "-o", out, "--cased") == 0
    assert "not 32,768: the text holds no more" in capsys.readouterr().out
    cased = Tokenizer.load(out)
    assert cased.decode(cased.pieces("The farmer")) == "The farmer"


def test_a_damaged_file_leaves_the_old_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tokenizer.json"
    out.write_text("before")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(blocks(documents(40)).encode())[:-20])
    assert run("tokenizer", "train", tmp_path / "a.txt.gz", "-o", out) == 2
    assert "a.txt.gz is damaged" in capsys.readouterr().err
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path != out] == ["a.txt.gz"]

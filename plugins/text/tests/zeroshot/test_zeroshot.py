from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import exit_code
from small_specs import FOLNET, TRANSFORMER

from peirce.compose import build
from peirce.errors import TaskError
from peirce.model import Model
from peirce.registry import Registry
from peirce_text.reading import Row
from peirce_text.tasks import TextClassData
from peirce_text.text.tokenizer import Tokenizer
from peirce_text.zeroshot.task import ZeroShot, presets
from peirce_text.zeroshot.templates import PromptTemplate, label_ids
from peirce_training import make_task

WORDS = "good bad film dull fine great terrible it was yes no maybe is this all in".split()  # noqa: SIM905
REVIEWS = (("a good film", "1"), ("dull", "0"), ("a bad , bad film", "0"), ("fine", "1"))
TEMPLATES = ("{sentence} It was [MASK] .", "[MASK] ! {sentence}")


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "vocab.txt"
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path.write_text("\n".join([*specials, *WORDS, "a", "##ly", ",", ".", "!", "?"]) + "\n")
    return path


@pytest.fixture(scope="module")
def tokenizer(vocabulary: Path) -> Tokenizer:
    return Tokenizer.load(vocabulary)


@pytest.fixture(scope="module")
def model(registry: Registry) -> Model:
    return build(FOLNET.replace({"model.regularisation.init_std": 0.3}), registry=registry).eval()


def _file(path: Path, rows: tuple[tuple[str, str], ...] = REVIEWS) -> Path:
    path.write_text("\n".join("\t".join(row) for row in (("sentence", "label"), *rows)) + "\n")
    return path


def _task(vocabulary: Path, data: Path, **settings: Any) -> ZeroShot:
    given = {"templates": TEMPLATES, "label": "label", "words": {"1": "great", "0": "terrible"}}
    task = make_task("zeroshot", {"tokenizer": str(vocabulary), "data": str(data), **given, **settings})
    assert isinstance(task, ZeroShot)
    return task


def test_a_template_as_ids(tokenizer: Tokenizer) -> None:
    row = Row(Path("x.tsv"), 1, {"one": "A good film", "two": "dull"})

    def encode(text: str, length: int = 64) -> tuple[str, int, int]:
        prompt = PromptTemplate.parse(text).encode(tokenizer, row, length)
        return " ".join(str(tokenizer.token(i)) for i in prompt.ids), prompt.first, prompt.mask

    text = "[CLS] a good film ? [MASK] , dull [SEP]"
    assert encode("{one} ? [MASK] , {two}") == (text, 9, 5)
    text = "[CLS] a good film ? [SEP] [MASK] , dull [SEP]"
    assert encode("{one} ? [SEP] [MASK] , {two}") == (text, 6, 6)
    # what is cut is the longest column, never the template
    assert encode("{one} ? [MASK] , {two}", 8)[0] == "[CLS] a good ? [MASK] , dull [SEP]"
    assert encode("{one} ? [MASK] , {two}", 6)[0] == "[CLS] ? [MASK] , dull [SEP]"
    with pytest.raises(TaskError, match="alone has more than 4 tokens"):
        encode("{one} ? [MASK] , {two}", 4)
    with pytest.raises(TaskError, match=r"x\.tsv, row 1: unknown column 'three'"):
        encode("{three} [MASK]")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{sentence} It was", "0 masks"),
        ("{sentence} [MASK] [MASK]", "2 masks"),
        ("It was [MASK] .", "names no column"),
        ("{a} [SEP] {b} [SEP] [MASK]", "2 separators"),
        ("{a:opne} [MASK]", "unknown form .opne."),
    ],
)
def test_templates_that_cannot_be(text: str, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        PromptTemplate.parse(text)


def test_forms_of_a_column() -> None:
    cased = Tokenizer.train(["A good film. a fine one"] * 4, vocabulary=100, lowercase=False)
    row = Row(Path("x.tsv"), 1, {"one": "A good film.", "two": "fine"})
    texts = {
        "one": "A good film.",
        "one:open": "A good film",
        "one:small": "a good film.",
        "two:open": "fine",
    }
    for column, text in texts.items():
        prompt = PromptTemplate.parse(f"{{{column}}} [MASK]").encode(cased, row, 64)
        assert prompt.ids == (cased.cls_id, *cased.pieces(text), cased.mask_id, cased.sep_id)


def test_label_words_are_single_tokens(tokenizer: Tokenizer) -> None:
    assert [tokenizer.token(id) for id in label_ids(tokenizer, ["yes", "maybe"])] == ["yes", "maybe"]
    for given, message in (
        (["greatly", "no"], r"'greatly' is not one token of this tokenizer, but great, ##ly"),
        (["excellent", "no"], r"'excellent' is not one token of this tokenizer, but \[UNK\]"),
        (["Yes", "yes"], "are one token"),
        (["yes"], "at least two labels different words"),
    ):
        with pytest.raises(TaskError, match=message):
            label_ids(tokenizer, given)


def test_scores_of_the_label_words(
    vocabulary: Path, tokenizer: Tokenizer, model: Model, tmp_path: Path
) -> None:
    task = _task(vocabulary, _file(tmp_path / "dev.tsv"), batch_size=3)
    data = task.prepare()
    great, terrible = tokenizer.id_of("great"), tokenizer.id_of("terrible")
    expected = []
    for text in ("{} it was [MASK] .", "[MASK] ! {}"):
        own = []
        for sentence, _ in REVIEWS:
            ids = [2, *(tokenizer.id_of(w) for w in text.format(sentence).split()), 3]
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids]))["mlm_logits"][0, ids.index(tokenizer.mask_id)]
            one, other = math.exp(logits[great]), math.exp(logits[terrible])
            own.append([one / (one + other), other / (one + other)])
        expected.append(own)
    found = task.probabilities(model, data, "test")
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    wanted = np.array([0, 1, 1, 0])
    mean = np.mean(expected, axis=0)
    names, arrays = ("accuracy", "template_1/accuracy", "template_2/accuracy"), (mean, *np.array(expected))
    right = [np.mean(each.argmax(1) == wanted) for each in arrays]
    assert task.metrics(model, data, "test") == pytest.approx(dict(zip(names, right, strict=True)))
    losses = [-math.log(expected[t][i][wanted[i]]) for t in range(2) for i in range(4)]
    batches = list(task.batches(data, "test", 0, 0))
    with torch.no_grad():
        total = sum(float(task.loss(model, b)) * len(b["labels"]) for b in batches)
    assert total == pytest.approx(sum(losses), rel=1e-4)


class _Fixed(ZeroShot):
    """The probabilities that a test gives, in place of a model's."""

    given: np.ndarray[Any, Any]

    def probabilities(self, model: Model, data: TextClassData, split: str) -> Any:
        return self.given


def test_metrics_by_hand(vocabulary: Path, model: Model, tmp_path: Path) -> None:
    def metrics(labels: str, ones: tuple[float, ...], **settings: Any) -> Mapping[str, float]:
        data = _file(tmp_path / "dev.tsv", tuple(("fine", label) for label in labels))
        task = _Fixed(_task(vocabulary, data, templates=TEMPLATES[:1], **settings).options)
        task.given = np.array([[[p, 1 - p] for p in ones]])
        return task.metrics(model, task.prepare(), "test")

    # "1" is right in two of its three predictions and found two times of three
    found = metrics("11100", (0.9, 0.8, 0.3, 0.6, 0.1), metrics=["accuracy", "f1", "matthews"])
    wanted = {"accuracy": 0.6, "f1": 2 / 3, "matthews": (2 * 1 - 1 * 1) / math.sqrt(3 * 3 * 2 * 2)}
    assert found == pytest.approx(wanted)
    words = {"5": "great", "0": "terrible"}
    found = metrics("5031", (0.9, 0.1, 0.7, 0.3), words=words, metrics=["pearson", "spearman"])
    pearson = np.corrcoef([5, 0, 3, 1], [4.5, 0.5, 3.5, 1.5])[0, 1]
    assert found == pytest.approx({"pearson": pearson, "spearman": 1.0})


def test_every_preset_reads_the_published_columns(tmp_path: Path, vocabulary: Path) -> None:
    for name, preset in presets().items():
        template = PromptTemplate.parse(preset["templates"][0])
        columns = preset.get("header") or [*template.columns, preset["label"]]
        values = dict.fromkeys(columns, "fine") | {preset["label"]: next(iter(preset["words"]))}
        lines = [values] if preset.get("header") else [dict(zip(columns, columns, strict=True)), values]
        path = tmp_path / f"{name}.tsv"
        path.write_text("\n".join("\t".join(line[c] for c in columns) for line in lines) + "\n")
        given = {"tokenizer": str(vocabulary), "data": str(path), "preset": name}
        words = {} if name != "cola" else {"words": {"1": "good", "0": "bad"}}
        task = make_task("zeroshot", {**given, **words})
        assert isinstance(task, ZeroShot)
        data = task.prepare()
        assert data.splits["test"].notes == [values[preset["label"]]]
        assert task.metric_names == tuple(preset["metrics"])


def test_the_command(
    vocabulary: Path, tokenizer: Tokenizer, model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "model", {"tokenizer.json": tokenizer.content})
    file = _file(tmp_path / "dev.tsv")
    given = ("--task", "zeroshot", "--json", "--set", f"data={file}", "--set", "preset=sst2")
    assert exit_code("evaluate", tmp_path / "model", *given) == 0
    task = _task(vocabulary, file, templates=TEMPLATES[:1])
    wanted = task.metrics(model, task.prepare(), "test")
    assert json.loads(capsys.readouterr().out)["metrics"] == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tokenizer": ""}, "task.tokenizer is not set"),
        ({"words": {}}, "task.words is not set"),
        ({"label": "labels"}, "row 1: unknown column 'labels'"),
        ({"words": {"1": "great", "2": "terrible"}}, "row 2: unknown label '0'"),
        ({"preset": "sst"}, "unknown preset 'sst'. Did you mean 'sst2'"),
        ({"metrics": ["pearson", "accuracy"]}, "mixes those of numbers"),
        ({"metrics": ["pearson"], "words": {"1": "yes", "0": "no", "2": "maybe"}}, "two labels"),
        ({"metrics": ["pearson"], "words": {"one": "yes", "0": "no"}}, "labels that are numbers"),
    ],
)
def test_what_cannot_be(settings: dict[str, Any], words: str, vocabulary: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=words):
        _task(vocabulary, _file(tmp_path / "dev.tsv"), **settings).prepare()


def test_models_without_masks(vocabulary: Path, model: Model, tmp_path: Path, registry: Registry) -> None:
    task = _task(vocabulary, _file(tmp_path / "dev.tsv"))
    data = task.prepare()
    with pytest.raises(TaskError, match=r"no 'train' split here, .*set task\.train_data"):
        next(iter(task.batches(data, "train", 0, 0)))
    headless = build(TRANSFORMER.replace({"model.heads": []}), registry=registry)
    with pytest.raises(TaskError, match="no head 'mlm'"):
        task.metrics(headless, data, "test")
    small = build(FOLNET.replace({"model.input.vocabulary": 9}), registry=registry)
    with pytest.raises(TaskError, match="the tokenizer has 27 ids and the model 9"):
        task.metrics(small, data, "test")

"""Columns of a table as further inputs of a model: in training, evaluation and prediction, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import frozen
from small_specs import FOLNET
from torch import Tensor

from peirce import hookimpl
from peirce.commands.main import main
from peirce.compose import build, load
from peirce.errors import TaskError
from peirce.model import Model
from peirce.parts import Dims, Position, TensorSpec, Tokens, UnaryPosition
from peirce.registry import Registry
from peirce_export import export
from peirce_text.reading import read_rows
from peirce_text.tabular.checks import Labelled
from peirce_text.tabular.classify import Classify, ClassifyOptions
from peirce_text.tabular.predictor import LocalPredictor, TorchRunner
from peirce_text.tabular.report import attention
from peirce_text.tabular.tables import TableTask
from peirce_text.tabular.tag import Tag, TagOptions
from peirce_training import TrainingOptions, train
from peirce_training.evaluation import evaluate
from peirce_training.settings import make_task, read_settings, settings_by_part


@frozen(kw_only=True)
class GivenOptions:
    """Options.

    Args:
        dtype: of the input.
        dims: of the input.
        high: the bound of its values.
        default: what it is where it is absent; it is required if None.
    """

    dtype: str = "float"
    dims: tuple[str, ...] = ("batch", "length")
    high: int | None = None
    default: float | None = None


class Given(UnaryPosition):
    """u[d](x) += v w[d] for a given number v of each token, or of the text."""

    name = "given"
    Options = GivenOptions

    def __init__(self, options: GivenOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.direction = torch.nn.Parameter(torch.randn(dims.unary))

    def inputs(self) -> tuple[TensorSpec, ...]:
        o: Any = self.options
        required = o.default is None
        return (
            TensorSpec(
                name="given", dtype=o.dtype, dims=o.dims, high=o.high, required=required, default=o.default
            ),
        )

    def unary(self, tokens: Tokens) -> Tensor:
        numbers = tokens.inputs["given"].to(self.direction.dtype)
        numbers = tokens.rows(numbers) if numbers.dim() == 2 else numbers.unsqueeze(1)
        return numbers.unsqueeze(2) * self.direction


class Parts:
    """The plug-in."""

    @staticmethod
    @hookimpl
    def register_positions() -> list[type[Position]]:
        return [Given]


@pytest.fixture(scope="module")
def parts() -> Registry:
    return Registry.of("peirce_basics.plugin", "peirce_folnet.plugin", "peirce_text.plugin", Parts)


WORDS = [
    {"tokens": ["the", "unbelievable", "dog"][: 1 + i % 3], "tags": ["O", "B-x", "O"][: 1 + i % 3], "kind": i,
     "sure": [10 * i + j + 0.5 for j in range(1 + i % 3)]} for i in range(12)
]  # fmt: skip


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def tag(folder: Path, rows: Sequence[Mapping[str, Any]] = WORDS, column: str = "sure", **options: Any) -> Tag:
    file, given = write(folder / "my.jsonl", rows), {"given": column}
    return Tag(TagOptions(data=file, inputs=given, vocabulary=40, valid_share=0, test_share=0, **options))


def classify(folder: Path, values: Sequence[Any], **options: Any) -> Classify:
    rows = [
        {"text": f"a {'cat' if i % 2 else 'dog'} sat", "label": i % 2, "sure": v}
        for i, v in enumerate(values)
    ]
    file, named = write(folder / "my.jsonl", rows), {"inputs": {"given": "sure"}, **options}
    return Classify(ClassifyOptions(data=file, vocabulary=60, **named))


def model_of(task: TableTask[Any, Any, Any], data: Any, registry: Registry, **options: Any) -> Model:
    positions = {"model.positions": [{"use": "given", **options}]}
    return build(FOLNET.replace({**positions, **task.overrides(data)}), registry=registry, seed=0).eval()


def inputs_of(
    task: TableTask[Any, Any, Any], data: Any, model: Model
) -> list[tuple[Mapping[str, Tensor], Tensor]]:
    """The batches, and what the model is given in each."""
    seen: list[Tensor] = []
    hook = model.register_forward_pre_hook(lambda _, __, given: seen.append(given["given"]), with_kwargs=True)
    batches = list(task.batches(data, "train", 0, 0))
    for batch in batches:
        assert torch.isfinite(task.loss(model, batch))
    hook.remove()
    return list(zip(batches, seen, strict=True))


def test_every_piece_of_a_word_has_its_number_and_special_tokens_the_default(
    tmp_path: Path, parts: Registry
) -> None:
    task = tag(tmp_path, length=12)
    data = task.prepare()
    model = model_of(task, data, parts, default=7.0)
    task.check(model, data)
    sizes = [len(data.tokenizer.pieces_of([word])[0]) for word in ("the", " unbelievable", " dog")]
    assert sizes[1] > 1
    found = set()
    for batch, given in inputs_of(task, data, model):
        assert given.shape == batch["input_ids"].shape
        for numbers, real in zip(given.tolist(), batch["attention_mask"], strict=True):
            end = int(real.sum()) - 1
            assert {numbers[0], *numbers[end:]} == {7.0}  # [CLS], [SEP] and padding
            found.add(tuple(numbers[1:end]))
    told = [
        tuple(each for number, size in zip(row["sure"], sizes, strict=False) for each in [number] * size)
        for row in WORDS
    ]
    assert found == set(told)


def test_a_text_that_is_read_in_parts_has_one_number_in_all_of_them(tmp_path: Path, parts: Registry) -> None:
    task = tag(tmp_path, column="kind", length=5)
    data = task.prepare()
    assert len(data.splits["train"]) > len(WORDS)
    model = model_of(task, data, parts, dims=("batch",), dtype="int64", high=12)
    task.check(model, data)
    for batch, given in inputs_of(task, data, model):
        assert given.dtype == torch.int64
        assert len(given) == len(batch["labels"])
    rows = data.splits["train"].columns["given"].tolist()
    assert rows == sorted(rows)
    assert set(rows) == set(range(12))


@pytest.mark.parametrize(
    ("values", "given", "told"),
    [
        ([1, 0] * 6, {"dtype": "bool"}, [True, False]),
        (["true", "False"] * 6, {"dtype": "bool"}, [True, False]),
        ([3, 2**40] * 6, {"dtype": "int64"}, [3, 2**40]),
        (["0.25", " 1e1 "] * 6, {}, [0.25, 10.0]),
    ],
)
def test_a_row_has_one_number_of_the_inputs_dtype(
    tmp_path: Path, parts: Registry, values: Sequence[Any], given: Mapping[str, Any], told: Sequence[float]
) -> None:
    task = classify(tmp_path, values)
    data = task.prepare()
    model = model_of(task, data, parts, dims=("batch",), **given)
    task.check(model, data)
    for batch, found in inputs_of(task, data, model):
        assert found.tolist() == [told[int(label)] for label in batch["labels"]]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, "high"] * 6, r"row 2: column 'sure' holds 'high', and must hold a number$"),
        ([1, None] * 6, "row 2: column 'sure' holds None"),
        ([1, [2]] * 6, r"row 2: column 'sure' holds \[2\], and must hold a number$"),
        ([1, "1e999"] * 6, "row 2: column 'sure' holds '1e999'"),
    ],
)
def test_a_column_of_other_things_is_refused_by_its_row(
    tmp_path: Path, values: Sequence[Any], words: str
) -> None:
    with pytest.raises(TaskError, match=words):
        classify(tmp_path, values).prepare()


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"given": "shure"}, "row 1: unknown column 'shure'. Did you mean 'sure'"),
        ({"given": "label"}, "task.inputs.given: column 'label' is what is predicted"),
        ({"input_ids": "sure"}, "task.inputs.input_ids: the task gives it"),
    ],
)
def test_columns_and_inputs_that_cannot_be_are_refused(
    tmp_path: Path, inputs: Mapping[str, str], words: str
) -> None:
    with pytest.raises(TaskError, match=words):
        classify(tmp_path, [1, 2] * 6, inputs=inputs).prepare()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"dtype": "int64"},
            r"my.jsonl: column 'sure' holds 1.5, and the input 'given' takes whole numbers; mend",
        ),
        ({"dtype": "bool"}, "takes whole numbers from 0 to 1;"),
        ({"dtype": "int64", "high": 2}, "takes whole numbers from 0 to 1;"),
        ({"dims": ("batch", "length")}, r"for each text, but the input 'given' is \[batch, length\]"),
    ],
)
def test_numbers_that_the_input_does_not_take_are_refused_before_training(
    tmp_path: Path, parts: Registry, given: Mapping[str, Any], words: str
) -> None:
    task = classify(tmp_path, [1, 1.5] * 6)
    data = task.prepare()
    with pytest.raises(TaskError, match=words):
        task.check(model_of(task, data, parts, **{"dims": ("batch",), **given}), data)


def test_an_input_that_the_model_has_not_is_refused_by_its_name(tmp_path: Path, parts: Registry) -> None:
    task = classify(tmp_path, [1, 2] * 6, inputs={"gaven": "sure"})
    data = task.prepare()
    with pytest.raises(
        TaskError, match=r"task\.inputs\.gaven: unknown further input 'gaven'. Did you mean 'given'"
    ):
        task.check(model_of(task, data, parts, dims=("batch",)), data)


def test_lists_are_as_long_as_their_words_in_every_text(tmp_path: Path) -> None:
    with pytest.raises(
        TaskError, match=r"row 3: column 'sure' has 2 numbers for 3 words; give every word one"
    ):
        tag(tmp_path, [*WORDS[:2], {**WORDS[2], "sure": [1, 2]}]).prepare()
    with pytest.raises(
        TaskError, match=r"'sure' holds one number for some texts and one for each word of others"
    ):
        tag(tmp_path, [*WORDS[:5], {**WORDS[5], "sure": 4}]).prepare()


@pytest.mark.parametrize("name", ["classify", "tag"])
def test_trained_models_are_evaluated_and_predict_with_the_same_columns(
    name: str, tmp_path: Path, parts: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = classify(tmp_path, [i % 2 for i in range(40)]) if name == "classify" else tag(tmp_path, WORDS * 2)
    file, part = maker.options.data, type(maker)
    texts = [f"data={file}", "inputs.given=sure", "vocabulary=60", "length=16", f"test_data={file}"]
    _, options, _ = settings_by_part(read_settings(texts, part))
    dims = ["batch"] if name == "classify" else ["batch", "length"]
    spec = FOLNET.replace({"model.dims.layers": 1, "model.positions": [{"use": "given", "dims": dims}]})
    task, folder = make_task(name, options, parts), tmp_path / "model"
    training = TrainingOptions(steps=4, lr=1e-2, save_every=0, device="cpu")
    result = train(spec, task, training, folder, registry=parts)
    models = [folder]
    if name == "tag":
        models.append(folder / "model.onnx")
        export(result.model, path=models[1])
    monkeypatch.setattr("peirce.compose.loading.default_registry", lambda: parts)
    for model in models:
        with pytest.raises(SystemExit):
            main(["predict", str(model), file, "-o", str(tmp_path / "o.jsonl")])
        rows = [row.values for row in read_rows(tmp_path / "o.jsonl")]
        pairs = [(row["prediction"], row["tags"] if name == "tag" else [str(row["label"])]) for row in rows]
        right = [one == two for guess, true in pairs for one, two in zip(guess, true, strict=True)]
        assert sum(right) / len(right) == pytest.approx(result.metrics["accuracy"])
    again = make_task(name, options, parts)
    assert evaluate(result.model, again, again.prepare(), "test") == result.metrics

    lacking = [{k: v for k, v in row.values.items() if k != "sure"} for row in read_rows(Path(file))]
    with pytest.raises(SystemExit):
        main(
            [
                "predict",
                str(folder),
                write(tmp_path / "lacking.jsonl", lacking),
                "-o",
                str(tmp_path / "p.csv"),
            ]
        )
    assert not (tmp_path / "p.csv").exists()


def test_columns_may_be_called_by_numbers() -> None:
    given = read_settings(["tags=2", "inputs.given=3"], Tag)
    options = make_task("tag", settings_by_part(given)[1]).options
    assert (options.tags, options.inputs) == ("2", {"given": "3"})


def test_a_table_that_names_no_column_is_told_how(tmp_path: Path, parts: Registry) -> None:
    task = classify(tmp_path, [1, 2] * 20, inputs={})
    spec = FOLNET.replace({"model.positions": [{"use": "given", "dims": ["batch"]}]})
    with pytest.raises(TaskError, match=r"position 'given' needs .*--set task\.inputs\.given=COLUMN"):
        train(spec, task, TrainingOptions(steps=1), tmp_path / "model", registry=parts)


def test_what_a_model_with_further_inputs_attends_to_is_shown(tmp_path: Path, parts: Registry) -> None:
    task = classify(tmp_path, [i % 2 for i in range(40)])
    spec = FOLNET.replace({"model.positions": [{"use": "given", "dims": ["batch"]}]})
    train(spec, task, TrainingOptions(steps=1, device="cpu"), tmp_path / "model", registry=parts)
    found = LocalPredictor(tmp_path / "model", TorchRunner(load(tmp_path / "model", registry=parts)))
    (weights,) = attention(found, Labelled(texts=("a dog sat",), labels=("dog",), inputs=((1.0,),)))
    assert len(weights) > 0

"""A training that starts from a saved model: what is taken, what is new, and what cannot be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
from command_line import exit_code as run
from toy_tasks import (
    FOLNET,
    TRANSFORMER,
    Marked,
    MarkedOptions,
    StoppedError,
    WithTokenizer,
    WithTokenizerOptions,
)

import peirce
from peirce.commands.main import main
from peirce.compose import load
from peirce.errors import ModelFileError, TaskError
from peirce.registry import Registry
from peirce_training import TrainingOptions, TrainResult, plain_options, train, with_tokenizer
from peirce_training.evaluation import check_data

OPTIONS = TrainingOptions(steps=2, lr=1e-2, device="cpu", save_every=1, threads=1)
BEFORE = FOLNET.replace(
    {"model.heads": [{"use": "mlm"}, {"use": "pair", "as": "nsp"}, {"use": "classification"}]}
)
ABSOLUTE = TRANSFORMER.replace({"model.positions": [{"use": "absolute"}], "model.input.max_length": 8})


@pytest.fixture(scope="module")
def saved(parts: Registry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "model"
    train(BEFORE, Marked(MarkedOptions()), OPTIONS, directory, registry=parts)
    return directory


def go(parts: Registry, directory: Path, start: Path, spec: Any = None, **more: Any) -> TrainResult:
    task = more.pop("task", None) or Marked(MarkedOptions(), more.pop("fail_at", 0))
    options = more.pop("options", attrs.evolve(OPTIONS, lr=1e-9))  # so small that nothing moves in float32
    return train(spec, task, options, directory, registry=parts, start=start, seed=9, **more)


def test_the_body_and_the_heads_that_fit_are_taken(parts: Registry, saved: Path, tmp_path: Path) -> None:
    heads = [
        {"use": "classification", "classes": 5},
        {"use": "classification", "as": "nsp"},  # of another kind than the saved one of this name
        {"use": "pair", "as": "sop"},
        {"use": "mlm"},
    ]
    result = go(parts, tmp_path, saved, BEFORE.replace({"model.heads": heads}))
    before, after = peirce.load(saved, registry=parts).state_dict(), result.model.state_dict()
    body = [name for name in before if not name.startswith("heads.")]
    assert len(body) > 20
    for name in (*body, *(name for name in before if name.startswith("heads.mlm."))):
        torch.testing.assert_close(after[name], before[name], rtol=0, atol=1e-6)
    start = result.start
    assert start is not None
    assert start.heads_taken == ("mlm",)
    assert start.heads_new == ("classification", "nsp", "sop")
    assert start.heads_left == ("nsp", "classification")
    assert start.tensors == len(body) + sum(name.startswith("heads.mlm.") for name in before)
    assert start.changed == ()
    fresh = peirce.build(result.model.spec, seed=9, registry=parts).state_dict()
    new = [name for name in fresh if name.startswith(("heads.classification.", "heads.nsp.", "heads.sop."))]
    assert start.parameters_new == sum(fresh[name].numel() for name in new)
    for name in new:
        torch.testing.assert_close(after[name], fresh[name], rtol=0, atol=1e-6)
    assert json.loads((tmp_path / "training.json").read_text())["start"] == plain_options(start)


def test_without_a_spec_the_saved_one_is_taken(parts: Registry, saved: Path, tmp_path: Path) -> None:
    result = go(parts, tmp_path, saved)
    assert result.model.spec == peirce.load(saved, registry=parts).spec
    assert result.start is not None
    assert result.start.heads_new == result.start.heads_left == ()
    with pytest.raises(TaskError, match="needs a spec, or a saved model to start from"):
        train(None, Marked(MarkedOptions()), OPTIONS, tmp_path / "other", registry=parts)


def test_what_differs_in_the_spec_is_told(
    parts: Registry, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    spec = BEFORE.replace(
        {
            "model.options.wiring": "parallel",
            "model.regularisation.dropout": 0.0,
            "model.input.max_length": 1024,  # relative positions may be longer
        }
    )
    result = go(parts, tmp_path, saved, spec, console=Console(width=400))
    assert result.start is not None
    assert result.start.changed == ("model.input.max_length", "model.options.wiring")
    assert f"taken from {saved}: the body and heads mlm, nsp, classification" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"model.dims.unary": 24}, ("unary is 24 and was 16", "embedding.weight is [10, 16] and must be [10, 24]")),
        ({"model.dims.layers": 2}, ("layers is 2 and was 1", "the saved model lacks: network.layers.1.")),
        ({"model.dims.heads": 4, "model.dims.head_size": 2}, ("heads is 4 and was 2", "head_size is 2 and was 4")),
        ({"model.operators.layer": "jm.at"}, ("the spec has no place for: network.layers.0.operators.2.cjoin",)),
        ({"model.options.pooler": False, "model.heads": [{"use": "mlm"}]}, ("network.pooler.",)),
    ],
)  # fmt: skip
def test_a_body_that_does_not_fit_is_one_error(
    change: Mapping[str, Any], messages: tuple[str, ...], parts: Registry, saved: Path, tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match=r"cannot start from .*Only heads may differ") as raised:
        go(parts, tmp_path / "new", saved, BEFORE.replace(change))
    for message in messages:
        assert message in str(raised.value)
    assert not (tmp_path / "new").exists()


def test_more_learned_positions_than_the_saved_model_has_are_named(parts: Registry, tmp_path: Path) -> None:
    train(ABSOLUTE, Marked(MarkedOptions()), OPTIONS, tmp_path / "short", registry=parts)
    long = ABSOLUTE.replace({"model.input.max_length": 12})
    with pytest.raises(
        TaskError,
        match=r"model\.input\.max_length is 12 and was 8.*network\.\S+ is \[8, 16\] and must be \[12, 16\]",
    ):
        go(parts, tmp_path / "new", tmp_path / "short", long)


def test_another_vocabulary_is_refused(parts: Registry, saved: Path, tmp_path: Path) -> None:
    class Renamed(Marked):
        def assets(self, data: Any) -> Mapping[str, bytes]:
            return {"tokens.txt": b"other tokens", "labels.json": b"{}"}

    class Foreign(Marked):
        def assets(self, data: Any) -> Mapping[str, bytes]:
            return {"vocabulary.json": b"[]"}

    with pytest.raises(TaskError, match=r"the task's tokens\.txt is not the one in"):
        go(parts, tmp_path / "a", saved, task=Renamed(MarkedOptions()))
    with pytest.raises(TaskError, match=r"has the vocabulary tokens\.txt and the task has vocabulary\.json"):
        go(parts, tmp_path / "b", saved, task=Foreign(MarkedOptions()))
    load(saved, registry=parts).save(tmp_path / "bare")
    with pytest.raises(TaskError, match="vocabulary is 11 and was 10"):
        go(parts, tmp_path / "c", tmp_path / "bare", task=Marked(MarkedOptions(tokens=9)))


def test_a_model_without_a_tokenizer_needs_its_own(parts: Registry, saved: Path, tmp_path: Path) -> None:
    class Own(WithTokenizer):
        def assets(self, data: Any) -> Mapping[str, bytes]:
            path = self.options.tokenizer
            return {"tokenizer.json": Path(path).read_bytes() if path else b"made of the task's texts"}

    load(saved, registry=parts).save(tmp_path / "bare")
    with pytest.raises(
        TaskError, match=r"keeps no tokenizer.*give the model's own with --set tokenizer=PATH"
    ):
        go(parts, tmp_path / "new", tmp_path / "bare", task=Own(WithTokenizerOptions()))
    assert not (tmp_path / "new").exists()
    (tmp_path / "own.json").write_bytes(b"its own")
    task = Own(WithTokenizerOptions(tokenizer=str(tmp_path / "own.json")))
    assert go(parts, tmp_path / "new", tmp_path / "bare", task=task).start is not None


def test_a_saved_model_may_have_more_vectors_than_tokens(parts: Registry, tmp_path: Path) -> None:
    class Padded(Marked):
        def overrides(self, data: Any) -> Mapping[str, Any]:
            return {"model.input.vocabulary": 16}

    task = Padded(MarkedOptions())
    first = train(FOLNET, task, OPTIONS, tmp_path / "saved", registry=parts)
    result = go(parts, tmp_path / "new", tmp_path / "saved", FOLNET)
    assert result.model.spec.input.vocabulary == 16
    check_data(result.model, tmp_path / "new", Marked(MarkedOptions()), None)
    with pytest.raises(TaskError, match=r"model\.input\.vocabulary"):
        check_data(first.model, tmp_path / "saved", Marked(MarkedOptions(tokens=15)), None)


def test_an_empty_tokenizer_is_that_of_the_saved_model(parts: Registry, tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text('{"words": ["a", "b"]}')
    first = WithTokenizer(WithTokenizerOptions(tokenizer=str(own)))
    train(FOLNET, first, OPTIONS, tmp_path / "saved", registry=parts)
    assert with_tokenizer(first, tmp_path / "saved") is first  # one that was given stays
    result = go(parts, tmp_path / "new", tmp_path / "saved", task=WithTokenizer(WithTokenizerOptions()))
    assert result.start is not None
    assert (tmp_path / "new" / "assets" / "tokenizer.json").read_text() == own.read_text()
    record = json.loads((tmp_path / "new" / "training.json").read_text())
    assert record["task"]["options"]["tokenizer"] == ""  # the model keeps it, wherever it is moved
    own.write_text('{"words":["a","b"]}')  # the same, laid out otherwise
    go(parts, tmp_path / "again", tmp_path / "saved", task=first)
    own.write_text('{"words":["b","a"]}')
    with pytest.raises(
        TaskError, match=r"tokenizer\.json is not the one in.*leave its option `tokenizer` empty"
    ):
        go(parts, tmp_path / "other", tmp_path / "saved", task=first)


def test_a_resumed_training_must_start_from_the_same_model(
    parts: Registry, saved: Path, tmp_path: Path
) -> None:
    whole = go(parts, tmp_path / "whole", saved, options=OPTIONS)
    with pytest.raises(StoppedError):
        go(parts, tmp_path / "new", saved, options=OPTIONS, fail_at=2)
    for spec, other in ((None, tmp_path / "whole"), (BEFORE, None)):
        with pytest.raises(TaskError, match=r"weights to start from (changed|is absent and was there)"):
            go(parts, tmp_path / "new", other, spec, options=OPTIONS, resume=True)
    moved = shutil.copytree(saved, tmp_path / "moved")
    again = go(parts, tmp_path / "new", Path(moved), options=OPTIONS, resume=True)
    assert again.losses == whole.losses


def test_what_is_no_saved_model_is_named(parts: Registry, saved: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no saved model at .* it has no spec\.toml"):
        go(parts, tmp_path / "new", tmp_path)
    with pytest.raises(ModelFileError, match="is not a complete saved model"):
        go(parts, tmp_path / "new", tmp_path, BEFORE)
    with pytest.raises(TaskError, match="has the model to start from"):
        go(parts, saved, saved, resume=True)


def test_the_command_starts_from_a_saved_model(
    toy_registry: Registry, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ("--set=train.steps=1", "--set=train.device=cpu")
    command = ("train", "--task", "marked", "-o", tmp_path / "new", *sets, "--json")
    assert run(*command) == 2
    assert "give a spec, or a saved model to start from with --from" in capsys.readouterr().err
    assert run(*command, "--from", tmp_path) == 2
    assert "no saved model at" in capsys.readouterr().err
    heads = '[{use="classification"},{use="pair",as="sop"}]'
    assert run(*command, "--set", f"model.heads={heads}", "--from", saved) == 0
    printed = capsys.readouterr()
    start = json.loads(printed.out)["start"]
    assert start["heads_taken"] == ["classification"]
    assert start["heads_new"] == ["sop"]
    assert start["heads_left"] == ["mlm", "nsp"]
    assert "new: head sop (" in printed.err


def test_a_trained_model_is_evaluated_with_the_tokenizer_that_it_keeps(
    toy_registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.json"
    own.write_text("{}")
    task = WithTokenizer(WithTokenizerOptions(tokenizer=str(own)))
    trained = train(FOLNET, task, OPTIONS, tmp_path / "model", registry=toy_registry)
    own.unlink()
    moved = shutil.move(tmp_path / "model", tmp_path / "moved")
    with pytest.raises(SystemExit) as exited:
        main(["evaluate", str(moved), "--json"])
    assert not exited.value.code
    assert json.loads(capsys.readouterr().out)["metrics"] == trained.metrics

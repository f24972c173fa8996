"""Training what is new alone: what moves, at which rates, what is saved, and what a resumption needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from toy_tasks import FOLNET, TRANSFORMER, Marked, MarkedOptions, StoppedError

import peirce
from peirce.errors import ModelFileError, TaskError
from peirce.registry import Registry
from peirce_training import TrainingOptions, TrainResult, train
from peirce_training.optimizer import make_optimizer
from peirce_training.trainable import add_low_rank, freeze_others

OPTIONS = TrainingOptions(steps=4, lr=1e-2, device="cpu", save_every=1, threads=1, schedule="constant")
MORE = TRANSFORMER.replace(
    {
        "model.architecture": "two_branch",
        "model.dims.binary": 4,
        "model.operators.layer": [{"use": name} for name in ("assoc", "join", "cjoin", "mu", "assoc")],
        "model.positions": [{"use": "absolute"}, {"use": "distance"}],
        "model.input.max_length": 8,
    }
)
BEFORE = TRANSFORMER.replace({"model.positions": [{"use": "absolute"}], "model.input.max_length": 8})


@pytest.fixture(scope="module")
def base(parts: Registry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "base"
    heads = BEFORE.replace({"model.heads": [{"use": "classification", "classes": 5}]})
    peirce.build(heads.replace({"model.input.vocabulary": 10}), seed=3, registry=parts).save(directory)
    return directory


def go(parts: Registry, directory: Path, base: Path | None, fail_at: int = 0, **more: Any) -> TrainResult:
    resume = more.pop("resume", False)
    spec = attrs.evolve(MORE, from_=None if base is None else str(base))
    options, task = attrs.evolve(OPTIONS, **more), Marked(MarkedOptions(), fail_at)
    return train(spec, task, options, directory, registry=parts, resume=resume, seed=5)


def body(base: Path) -> dict[str, torch.Tensor]:
    """The tensors of the base's body by their names in a model that contains it."""
    weights = load_file(base / "weights.safetensors").items()
    return {f"network.transformer.{name[8:]}": each for name, each in weights if name.startswith("network.")}


def changes(result: TrainResult, base: Path) -> dict[str, torch.Tensor]:
    """By how much the tensors of the base's body have moved, where they have."""
    state = result.model.state_dict()
    return {
        name: state[name] - each for name, each in body(base).items() if not torch.equal(state[name], each)
    }


def test_a_spec_starts_from_the_model_that_it_contains(parts: Registry, base: Path, tmp_path: Path) -> None:
    result = go(parts, tmp_path, base, lr=1e-9)
    assert result.start is not None
    assert max((float(each.abs().max()) for each in changes(result, base).values()), default=0.0) < 1e-6
    fresh = {name for name in result.model.state_dict() if not name.startswith("heads.")} - body(base).keys()
    assert fresh
    assert result.start.heads_new == ("classification",)
    assert result.start.parameters_gained == sum(result.model.state_dict()[name].numel() for name in fresh)
    assert f"new in the body: {result.start.parameters_gained:,} parameters" in str(result.start)
    assert result.model.gained == fresh | {n for n in result.model.state_dict() if n.startswith("heads.")}
    assert peirce.load(tmp_path, registry=parts).gained == result.model.gained


def test_a_spec_with_something_that_acts_at_once_is_refused(
    parts: Registry, base: Path, tmp_path: Path
) -> None:
    positions = [*MORE.positions, {"use": "t5"}]
    spec = attrs.evolve(MORE, from_=str(base), positions=positions)
    with pytest.raises(TaskError, match=r"position 't5' acts at once"):
        train(spec, Marked(MarkedOptions()), OPTIONS, tmp_path / "new", registry=parts)
    assert not (tmp_path / "new").exists()


def test_what_is_new_alone_moves_and_is_saved(parts: Registry, base: Path, tmp_path: Path) -> None:
    result = go(parts, tmp_path / "new", base, trainable="new", save="trained")
    assert not changes(result, base)
    assert all(parameter.requires_grad for parameter in result.model.parameters())
    assert {*load_file(tmp_path / "new/weights.safetensors")} == result.model.gained
    checkpoint = next((tmp_path / "new/checkpoints").glob("step-*4"))
    assert {*load_file(checkpoint / "model.safetensors")} == result.model.gained
    moments = load_file(checkpoint / "optimizer.safetensors")
    assert {name.rpartition("/")[0] for name in moments} <= result.model.gained
    loaded = peirce.load(tmp_path / "new", registry=parts).state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in result.model.state_dict().items())
    again = train(
        None, Marked(MarkedOptions()), attrs.evolve(OPTIONS, trainable="new", save="trained"), tmp_path / "again",
        registry=parts, start=tmp_path / "new",
    )  # fmt: skip
    assert again.model.gained == result.model.gained
    assert again.model.base is not None
    assert again.model.base.folder == base


def test_an_interrupted_training_of_what_is_new_goes_on(parts: Registry, base: Path, tmp_path: Path) -> None:
    whole = go(parts, tmp_path / "whole", base, trainable="new", evaluate_every=2, patience=3)
    with pytest.raises(StoppedError):
        go(parts, tmp_path / "cut", base, fail_at=8, trainable="new", evaluate_every=2, patience=3)
    resumed = go(parts, tmp_path / "cut", base, resume=True, trainable="new", evaluate_every=2, patience=3)
    assert resumed.losses == whole.losses
    state = resumed.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in whole.model.state_dict().items())


def test_rates_and_warmups_of_their_own(parts: Registry, base: Path) -> None:
    model = peirce.build(MORE.replace({"model.input.vocabulary": 10}), registry=parts)
    model.gained = frozenset(n for n in model.state_dict() if "relations" in n)
    options = attrs.evolve(
        OPTIONS, trainable=("new", "heads.*"), rates={"new": 1e-1, "*.bias": 1e-3}, warmups={"heads.*": 7}
    )
    frozen = freeze_others(model, options)
    parameters = dict(model.named_parameters())
    optimizer = make_optimizer(parameters, options, model.gained)
    names = {id(parameter): name for name, parameter in parameters.items()}
    found = {names[id(p)]: (g["scale"], g["warmup"]) for g in optimizer.param_groups for p in g["params"]}
    assert found.keys() == {*parameters} - frozen
    for name, (scale, warmup) in found.items():
        head = name.startswith("heads.")
        assert scale == pytest.approx(10 if not head else 0.1 if name.endswith(".bias") else 1)
        assert warmup == (7 if head else None)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trainable": "hed.*"}, r"train\.trainable has 'hed\.\*', which stands for no parameter"),
        ({"rates": {"heads": 1.0}}, r"train\.rates has 'heads', which stands for no parameter"),
        ({"trainable": "new", "base": None}, "no parameter is new: start from a saved model"),
        (
            {"save": "trained", "base": None},
            "saves what differs from the model to start from, and there is none",
        ),
    ],
)
def test_settings_that_stand_for_nothing_are_refused(
    settings: Any, said: str, parts: Registry, base: Path, tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match=said):
        go(parts, tmp_path / "new", **{"base": base, **settings})
    assert not (tmp_path / "new/weights.safetensors").exists()


def test_impossible_rates_are_refused() -> None:
    with pytest.raises(TaskError, match="learning rates are above 0"):
        attrs.evolve(OPTIONS, rates={"new": 0.0})
    with pytest.raises(TaskError, match="no steps are below 0"):
        attrs.evolve(OPTIONS, warmups={"new": -1})


def test_a_base_that_is_gone_is_named(parts: Registry, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=rf"no saved model at {tmp_path}/none"):
        go(parts, tmp_path / "new", tmp_path / "none")
    assert not (tmp_path / "new").exists()


def test_low_rank_updates_are_merged_and_kept_in_their_own_format(
    parts: Registry, base: Path, tmp_path: Path
) -> None:
    result = go(parts, tmp_path / "new", base, trainable="new", rank=1)
    after, changed = result.model.state_dict(), changes(result, base)
    places = {name.partition("layers.0.operators.")[2] for name in changed}
    assert {f"{each}.weight" for each in ("0.assoc.kernel", "1.join.premise", "1.join.output")} <= places
    assert all(torch.linalg.matrix_rank(each, rtol=1e-3) == 1 for each in changed.values())
    assert all(parameter.requires_grad for parameter in result.model.parameters())
    loaded = peirce.load(tmp_path / "new", registry=parts).state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in after.items())

    with pytest.raises(StoppedError):
        go(parts, tmp_path / "cut", base, fail_at=3, trainable="new", rank=1)
    resumed = go(parts, tmp_path / "cut", base, resume=True, trainable="new", rank=1)
    assert resumed.losses == result.losses
    state = resumed.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in after.items())

    options = attrs.evolve(OPTIONS, trainable="heads.*", rank=2)
    further = train(
        None, Marked(MarkedOptions()), options, tmp_path / "further", registry=parts, start=tmp_path / "new"
    )
    adapted = PeftModel.from_pretrained(
        peirce.load(tmp_path / "new", registry=parts), tmp_path / "further/adapter"
    )
    merged = adapted.merge_and_unload().state_dict()
    for name, value in further.model.state_dict().items():
        assert name.startswith("heads.") or torch.equal(merged[name], value), name


@pytest.mark.parametrize("spec", [TRANSFORMER, FOLNET, MORE], ids=lambda spec: spec.architecture)
def test_every_map_that_is_adapted_is_used(spec: peirce.Spec, parts: Registry) -> None:
    """A map whose weights are read past its module would take no part in what is trained, in silence."""
    model = peirce.build(spec.replace({"model.input.vocabulary": 10}), registry=parts)
    frozen = frozenset(name for name in model.state_dict() if not name.startswith("heads."))
    add_low_rank(model, 2, frozen, None)
    outputs = model(**model.example_inputs())
    sum(value.square().sum() for value in outputs.values()).backward()
    unused = [name for name, each in model.named_parameters() if "lora_B" in name and each.grad is None]
    assert not unused


def test_low_rank_updates_need_maps_that_are_not_trained(parts: Registry, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"train\.rank is for linear maps that are not trained, and all are"):
        go(parts, tmp_path, None, rank=2)

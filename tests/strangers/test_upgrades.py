"""What others reported of parts that begin at zero, and of what was trained of a model and saved without the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_specs import TRANSFORMER

import peirce
from peirce.errors import InputError, ModelFileError
from peirce.registry import default_registry
from peirce_basics.upgrades import Upgrade

IDS = torch.randint(0, 40, (2, 5), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def upgraded(tmp_path: Path) -> peirce.Model:
    """A model that has gained operators and an augmenter, of a saved one."""
    peirce.build(TRANSFORMER.replace({"model.dims.layers": 2}), seed=1).save(tmp_path / "base")
    old = peirce.load(tmp_path / "base")
    gained = Upgrade(operators="jm.at", positions=["distance"], augmenters=["tpr"])
    return peirce.upgraded(old, gained.spec(old.plan, default_registry()))


@pytest.mark.report(
    "https://github.com/lucidrains/performer-pytorch/issues/28",
    "a gate that begins at zero kills the gradient, and the model can't learn",
    "one factor of each path is zero: gates and writers have a gradient at the first step, all else at the second",
)
def test_what_begins_at_zero_learns(upgraded: peirce.Model) -> None:
    optimizer = torch.optim.SGD(upgraded.parameters(), 1.0)
    expected = upgraded(input_ids=IDS)["unary"].detach()
    for step in range(2):
        optimizer.zero_grad()
        upgraded(input_ids=IDS)["mlm_logits"].square().sum().backward()
        without = [
            name
            for name, each in upgraded.named_parameters()
            if name in upgraded.gained and (each.grad is None or not each.grad.any())
        ]
        gate = upgraded.get_parameter("network.transformer.input.augmenters.0.gate")
        assert gate.grad is not None
        assert gate.grad != 0
        optimizer.step()
        assert bool(without) == (step == 0)
    assert not torch.equal(upgraded(input_ids=IDS)["unary"], expected)


@pytest.mark.report(
    "https://github.com/huggingface/peft/issues/1567",
    "what was trained names its base without the revision, and another revision is loaded",
    "the base is known by the digest of its weights; another is refused, and so is a base that would be replaced",
)
def test_what_was_trained_is_refused_on_another_base(tmp_path: Path, upgraded: peirce.Model) -> None:
    upgraded.save(tmp_path / "new", only="trained")
    other = peirce.load(tmp_path / "base")
    with torch.no_grad():
        next(other.parameters()).add_(1e-3)
    other.save(tmp_path / "base")
    with pytest.raises(ModelFileError, match="another model, or another version of it; give the folder"):
        peirce.load(tmp_path / "new")
    with pytest.raises(ModelFileError, match="has the model that this one began with"):
        upgraded.save(tmp_path / "base", only="trained")
    with pytest.raises(InputError, match="this one began afresh"):
        peirce.build(TRANSFORMER).save(tmp_path / "fresh", only="trained")
    assert not (tmp_path / "fresh").exists()


@pytest.mark.report(
    "https://github.com/huggingface/peft/pull/2118",
    "tensors that are missing in what was trained are left out without a word",
    "a missing tensor is an error that names it, though the base has all of its own",
)
def test_what_was_trained_must_be_whole(tmp_path: Path, upgraded: peirce.Model) -> None:
    upgraded.save(tmp_path / "new", only="trained")
    path = tmp_path / "new/weights.safetensors"
    weights = load_file(path)
    lost = next(name for name in weights if "relations" in name)
    save_file({name: value.clone() for name, value in weights.items() if name != lost}, path)
    with pytest.raises(ModelFileError, match=r"weights\.safetensors is not what was saved"):
        peirce.load(tmp_path / "new")
    with pytest.raises(ModelFileError, match=f"missing: {lost}"):
        peirce.load(tmp_path / "new", digests=False)


@pytest.mark.report(
    "https://github.com/huggingface/peft/issues/577",
    "the head of a classification isn't saved with what was trained, and is random when it is loaded",
    "the heads are always among what was trained, also one that did not change",
)
def test_heads_are_saved_with_what_was_trained(tmp_path: Path, upgraded: peirce.Model) -> None:
    upgraded.save(tmp_path / "new", only="trained")
    heads = {name for name in upgraded.state_dict() if name.startswith("heads.")}
    assert heads
    assert heads <= {*load_file(tmp_path / "new/weights.safetensors")}

"""The guide's examples of other parts: they run, do what the guide says, and pass the conformance suite."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import peirce
import pytest
import small_specs
import torch
from code_blocks import blocks
from peirce.compose import build, load
from peirce.errors import TaskError
from peirce.kernels import pair_scores as scores
from peirce.registry import Registry
from peirce.testing import Conformance
from peirce.testing.check import NotApplicableError, NotRunError
from shared_folder import ROOT

GUIDE = ROOT / "docs" / "writing-a-plugin.md"


@pytest.fixture(scope="module")
def guide() -> ModuleType:
    """The blocks that belong to no file of the example, as one module that is a plug-in."""
    module = ModuleType("parts_of_the_guide")
    sys.modules[module.__name__] = module  # attrs looks up the annotations there
    own = [block for block in blocks(GUIDE) if block.language == "python" and block.file is None]
    assert len(own) == 4
    for block in own:
        exec(compile(block.code, f"{GUIDE.name}:{block.line}", "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def plugin(guide: ModuleType) -> Any:
    return SimpleNamespace(
        register_operators=peirce.hookimpl(lambda: [guide.Leaky]),
        register_positions=peirce.hookimpl(lambda: [guide.Sides]),
        register_augmenters=peirce.hookimpl(lambda: [guide.Given]),
    )


def test_they_pass_the_conformance_suite(plugin: Any) -> None:
    ran = set()
    for check, case in Conformance(registry=Registry.of(plugin)).cases():
        try:
            check.run(case)
        except (NotApplicableError, NotRunError):
            continue
        ran.add((check.name, case.entry.name))
    assert {("shapes", "sides"), ("padding", "sides"), ("shapes", "given"), ("batch", "given")} <= ran
    assert {("reference", "leaky"), ("padding", "leaky"), ("no_look_ahead", "leaky")} <= ran


def test_a_recurrence_is_a_layer_that_generates(plugin: Any) -> None:
    registry = Registry.of("peirce_basics.plugin", plugin)
    model = build(small_specs.RECURRENT.replace({"model.operators.layer": "leaky"}), registry=registry)
    assert model.generate({"input_ids": torch.tensor([[3, 4]])}, max_new=3)[0].tokens


def test_a_side_asks_for_keys_of_its_own(guide: ModuleType) -> None:
    dims = peirce.parts.Dims(layers=3, unary=8, heads=2, head_size=4, feedforward_unary=8, vocabulary=9)
    position = guide.Sides(peirce.parts.NoOptions(), dims)
    tokens = peirce.parts.Tokens({}, None, torch.arange(5).unsqueeze(0), 5)
    biases = position.pairs(tokens)
    assert len(biases) == 3
    queries, keys = torch.randn(1, 5, 2, 4), torch.randn(1, 5, 2, 4)
    found = scores(queries, biases[0], keys)
    for x in range(5):
        for y in range(5):
            wanted = (position.queries[0, int(y > x)] * keys[0, y]).sum(1)
            torch.testing.assert_close(found[0, x, y], wanted)


def test_what_a_new_model_starts_with_is_saved_with_it(
    guide: ModuleType, plugin: Any, tmp_path: Path
) -> None:
    registry = Registry.of("peirce_folnet.plugin", "peirce_basics.plugin", "peirce_basics.plugin", plugin)
    file = tmp_path / "vectors.npy"
    given = np.random.default_rng(0).normal(size=(40, 24)).astype(np.float32)
    np.save(file, given)
    parts = {
        "model.positions": [{"use": "sides"}],
        "model.augmenters": [{"use": "given", "file": str(file)}],
    }
    model = build(small_specs.TRANSFORMER.replace(parts), registry=registry)
    (augmenter,) = (part for part in model.modules() if isinstance(part, guide.Given))
    np.testing.assert_array_equal(augmenter.vectors, given)
    # What heads tie to is what the model reads.
    torch.testing.assert_close(augmenter.words(torch.ones(40, 24)), torch.from_numpy(given) + 1)
    model.save(tmp_path / "model")
    file.unlink()
    again = load(tmp_path / "model", registry=registry)
    ids = torch.randint(0, 40, (2, 6))
    with torch.no_grad():
        before, after = (each.eval()(input_ids=ids)["mlm_logits"] for each in (model, again))
        torch.testing.assert_close(after, before)


def test_a_model_that_does_not_suit_is_refused(guide: ModuleType, registry: Registry) -> None:
    model = build(small_specs.TRANSFORMER, registry=registry)
    guide.Stories.check(None, model, SimpleNamespace(longest=32))
    with pytest.raises(
        TaskError, match=r"has 33 tokens and 'small-transformer' reads 32; set .*max_length=33"
    ):
        guide.Stories.check(None, model, SimpleNamespace(longest=33))

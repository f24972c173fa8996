"""The guide's parts that are one module each: they do what the guide says, and pass the conformance suite."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import small_specs
import torch
from code_blocks import blocks
from shared_folder import ROOT

import peirce
from peirce.compose import build, load
from peirce.errors import InputError, TaskError
from peirce.kernels import pair_scores as scores
from peirce.registry import Registry
from peirce_testing import Conformance
from peirce_testing.compare import NotApplicableError, NotRunError

GUIDE = ROOT / "docs" / "guide" / "write-a-plugin"


PAGES = {
    "choice": "typings",
    "pooling": "typings",
    "leaky": "recurrent",
    "confidence": "positions",
    "sides": "positions",
    "fading": "positions",
    "helix": "positions",
    "given": "augmenters",
    "ordinal": "heads",
    "returns": "tasks",
    "retention": "operators",
    "highway": "operators",
    **dict.fromkeys(("selective", "linear_attention", "triangles", "window", "focal"), "recipes"),
}
"""The plug-ins that the guide writes as one module each, and the page that each stands on."""
PASSING = ("choice", "pooling", "leaky", "sides", "helix", "given")
"""Those that the conformance suite is run over."""


@pytest.fixture(scope="module")
def guide() -> SimpleNamespace:
    """Each of them as a module."""
    modules = {}
    for name, page in PAGES.items():
        path = GUIDE / f"{page}.md"
        (block,) = (block for block in blocks(path) if block.file == f"{name}.py")
        module = sys.modules[name] = modules[name] = ModuleType(name)  # attrs looks up the annotations there
        exec(compile(block.code, f"{path.name}:{block.line}", "exec"), module.__dict__)
    return SimpleNamespace(**modules)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page in ("operators", "recipes")])
def test_each_recipe_passes_the_conformance_suite(guide: SimpleNamespace, name: str) -> None:
    ran = 0
    for check, case in Conformance(registry=Registry.of(getattr(guide, name))).cases():
        try:
            check.run(case)
        except (NotApplicableError, NotRunError):
            continue
        ran += 1
    assert ran > 15


STATING = [name for name, page in PAGES.items() if page not in ("typings", "recipes", "tasks")]
"""Those whose pages are about a kind of part that may state its equations."""


@pytest.mark.parametrize("name", STATING)
def test_each_is_what_its_reference_says(guide: SimpleNamespace, name: str) -> None:
    run = Conformance(registry=Registry.of(getattr(guide, name)), quick=True).run
    (outcome,) = run(only=lambda check: check.startswith("reference["))
    assert outcome.outcome == "passed", outcome.message


def test_they_pass_the_conformance_suite(guide: SimpleNamespace) -> None:
    ran = set()
    for check, case in Conformance(registry=Registry.of(*(getattr(guide, name) for name in PASSING))).cases():
        try:
            check.run(case)
        except (NotApplicableError, NotRunError):
            continue
        ran.add((check.name, case.entry.name))
    assert {("shapes", "helix"), ("padding", "helix"), ("gradients", "helix")} <= ran
    assert {("shapes", "sides"), ("padding", "sides"), ("shapes", "given"), ("batch", "given")} <= ran
    assert {("reference", "choice"), ("gradients", "choice"), ("padding", "pooling")} <= ran
    assert {("reference", "leaky"), ("padding", "leaky"), ("no_look_ahead", "leaky")} <= ran


def test_a_recurrence_is_a_layer_that_generates(guide: SimpleNamespace) -> None:
    registry = Registry.of("peirce_basics.plugin", guide.leaky)
    model = build(small_specs.RECURRENT.replace({"model.operators.layer": "leaky"}), registry=registry)
    assert model.generate({"input_ids": torch.tensor([[3, 4]])}, max_new=3)[0].tokens


def test_a_side_asks_for_keys_of_its_own(guide: SimpleNamespace) -> None:
    dims = peirce.parts.Dims(layers=3, unary=8, heads=2, head_size=4, feedforward_unary=8, vocabulary=9)
    position = guide.sides.Sides(peirce.parts.NoOptions(), dims)
    tokens = peirce.parts.Tokens({}, None, torch.arange(5).unsqueeze(0), 5)
    biases = position.pairs(tokens)
    assert len(biases) == 3
    queries, keys = torch.randn(1, 5, 2, 4), torch.randn(1, 5, 2, 4)
    found = scores(queries, biases[0], keys)
    for x in range(5):
        for y in range(5):
            wanted = (position.queries[0, int(y > x)] * keys[0, y]).sum(1)
            torch.testing.assert_close(found[0, x, y], wanted)


def test_what_a_new_model_starts_with_is_saved_with_it(guide: SimpleNamespace, tmp_path: Path) -> None:
    registry = Registry.of("peirce_folnet.plugin", "peirce_basics.plugin", guide.sides, guide.given)
    file = tmp_path / "vectors.npy"
    given = np.random.default_rng(0).normal(size=(40, 24)).astype(np.float32)
    np.save(file, given)
    parts = {"model.positions": [{"use": "sides"}], "model.augmenters": [{"use": "given", "file": str(file)}]}
    model = build(small_specs.TRANSFORMER.replace(parts), registry=registry)
    (augmenter,) = (part for part in model.modules() if isinstance(part, guide.given.Given))
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


def test_grades_in_order(guide: SimpleNamespace) -> None:
    dims = peirce.parts.Dims(layers=1, unary=4, heads=1, head_size=4, feedforward_unary=4, vocabulary=9)
    head = guide.ordinal.Ordinal(guide.ordinal.OrdinalOptions(grades=4), dims)
    logits = torch.tensor([[30.0, 30.0, -30.0]])
    losses = [float(head.loss({"logits": logits}, torch.tensor([grade]))) for grade in range(4)]
    assert losses == pytest.approx([20.0, 10.0, 0.0, 10.0])
    with pytest.raises(InputError, match="0 to 3"):
        head.loss({"logits": logits}, torch.tensor([4]))


def test_a_model_that_does_not_suit_is_refused(guide: SimpleNamespace, registry: Registry) -> None:
    task, options = guide.returns.Returns, guide.returns.ReturnsOptions
    model = build(small_specs.TRANSFORMER, registry=registry)
    task(options(length=32)).check(model, None)
    with pytest.raises(
        TaskError, match=r"has 33 tokens and 'small-transformer' reads 32; set .*max_length=33"
    ):
        task(options(length=33)).check(model, None)

"""What examples promise to the checks that use them, and the stub parts to plug-ins that lack a network."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

import peirce
from peirce.registry import Registry
from peirce_testing import Conformance, examples
from peirce_testing.check import NETWORK, on_examples
from peirce_testing.compare import NotRunError
from peirce_testing.examples import SCOPE_KINDS, View
from peirce_testing.harness.sized import OperatorHarness
from peirce_testing.options import example_options
from peirce_testing.stub_parts import Sum, with_stub_parts
from peirce_testing.tiny_models import around

DRAWN = [example.view for example, _ in examples.drawn(SCOPE_KINDS, 60)]


@pytest.mark.parametrize("view", DRAWN, ids=str)
def test_every_real_token_sees_itself_and_none_sees_padding(view: View) -> None:
    allowed = view.allowed()
    real = torch.ones(view.batch, view.length, dtype=torch.bool) if view.real is None else view.real
    assert torch.equal(allowed.diagonal(dim1=1, dim2=2), real)
    assert not allowed[~real].any()
    assert not allowed.transpose(1, 2)[~real].any()
    assert real.any(1).all()


@pytest.mark.parametrize("view", [view for view in DRAWN if view.kind in ("causal", "prefix")], ids=str)
def test_a_view_cut_down_to_one_example_sees_what_it_saw(view: View) -> None:
    for i in range(view.batch):
        where = view.unpadded(i)
        alone = view.example(i, where)
        assert torch.equal(alone.allowed()[0], view.allowed()[i][where][:, where])


@pytest.mark.parametrize("padded", [None, True, False])
def test_each_kind_of_scope_is_always_tried_padded_and_not(padded: bool | None) -> None:
    found = examples.certain(SCOPE_KINDS, padded)
    sides = {None: {True, False}, True: {True}, False: {False}}[padded]
    tried = {(example.view.kind, example.view.real is not None) for example, _ in found}
    assert tried == {(kind, side) for kind in SCOPE_KINDS for side in sides}
    for example, sizes in found:
        assert example.view.allowed().any(2).all() or example.view.real is not None
        assert sizes.unary == sizes.heads * sizes.head_size


def test_every_run_tries_the_same() -> None:
    """With CI set or not: what is drawn follows from the check alone."""
    harness = OperatorHarness(Sum, Sum.Options(), "its example options")

    def drawn() -> list[str]:
        found: list[str] = []
        on_examples(harness, lambda sized, example: found.append(f"{sized.sizes} {example}"))
        return found

    assert drawn() == drawn()


def test_a_registry_keeps_its_own_parts_and_letters(registry: Registry) -> None:
    whole = with_stub_parts(registry)
    for kind in NETWORK:
        added = {"architectures": ["stub"], "positions": ["stub"]}.get(kind, [])
        assert sorted(whole.names(kind)) == sorted([*registry.names(kind), *added])
    assert whole.letters == registry.letters


@pytest.mark.parametrize(
    "plugin",
    [
        "peirce-tpru:tpru",
        "peirce-logic:logic",
        "peirce-basics:basics",
        "peirce-folnet:folnet",
        "peirce-kg:kg",
    ],
)
def test_alone_every_part_of_a_plugin_finds_a_host(plugin: str) -> None:
    alone = with_stub_parts(Registry.of(plugin))
    for entry in (entry for kind in NETWORK for entry in alone.entries(kind)):
        if entry.name not in ("transformer", "tpru"):  # composed with other packages' operators and networks
            assert isinstance(around(entry, example_options(entry.part), alone), peirce.Spec)


def test_what_no_host_can_hold_is_not_run(registry: Registry) -> None:
    never = classmethod(lambda cls, options, dims, scope: "never")
    body = {"name": "nowhere", "__doc__": "Refuses all.", "check": never}
    part: Any = type("Nowhere", (registry.get("positions", "distance"),), body)
    plugin = ModuleType("lab")
    vars(plugin)["register_positions"] = peirce.hookimpl(lambda: [part])
    whole = with_stub_parts(Registry.of(plugin))
    with pytest.raises(NotRunError, match=r"stub: .*never"):
        around(whole.entry("positions", "nowhere"), example_options(part), whole)


def test_the_suite_brings_stub_parts_to_what_is_installed_and_not_to_a_registry_that_is_given(
    registry: Registry,
) -> None:
    for suite, brought in ((Conformance(), True), (Conformance(registry=registry), False)):
        found = [case for _, case in suite.cases()]
        assert all(("stub" in case.registry.names("architectures")) is brought for case in found)
        assert not any(case.entry.name == "stub" for case in found)

"""Stub parts complete plug-ins that lack a network, so that every part can stand in a whole model."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import peirce
from peirce.registry import Registry
from peirce_testing import Conformance
from peirce_testing.check import NETWORK
from peirce_testing.compare import NotRunError
from peirce_testing.options import example_options
from peirce_testing.stub_parts import with_stub_parts
from peirce_testing.tiny_models import spec_around


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
        # These are composed with operators and networks of other packages.
        if entry.name not in ("transformer", "two_branch", "tpru"):
            assert isinstance(spec_around(entry, example_options(entry.part), alone), peirce.Spec)


def test_what_no_host_can_hold_is_not_run(registry: Registry) -> None:
    never = classmethod(lambda cls, options, dims, scope: "never")
    body = {"name": "nowhere", "__doc__": "Refuses all.", "check": never}
    part: Any = type("Nowhere", (registry.get("positions", "distance"),), body)
    plugin = ModuleType("lab")
    vars(plugin)["register_positions"] = peirce.hookimpl(lambda: [part])
    whole = with_stub_parts(Registry.of(plugin))
    with pytest.raises(NotRunError, match=r"stub: .*never"):
        spec_around(whole.entry("positions", "nowhere"), example_options(part), whole)


def test_the_suite_brings_stub_parts_to_what_is_installed_and_not_to_a_registry_that_is_given(
    registry: Registry,
) -> None:
    for suite, brought in ((Conformance(), True), (Conformance(registry=registry), False)):
        found = [case for _, case in suite.cases()]
        assert all(("stub" in case.registry.names("architectures")) is brought for case in found)
        assert not any(case.entry.name == "stub" for case in found)

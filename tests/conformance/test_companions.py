"""The suite's own parts: they pass it, serve where a registry lacks some, and change nothing where it does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import peirce
import pytest
from peirce.registry import KINDS, Registry, RegistryFile
from peirce.testing import Conformance
from peirce.testing.check import NotRunError
from peirce.testing.companions import companied
from peirce.testing.composed import around
from peirce.testing.options import example_options

NETWORK = ("operators", "positions", "augmenters", "heads", "architectures")

conformance = Conformance(
    "peirce.testing.companions", registry=Registry.of("peirce.testing.companions", "peirce:onnx")
)


def all_of(registry: Registry) -> set[tuple[str, str, str]]:
    return {(kind, entry.name, entry.plugin) for kind in KINDS for entry in registry.entries(kind)}


def test_a_registry_keeps_its_own_parts_and_letters(registry: Registry) -> None:
    whole = companied(registry)
    plugin = "module:peirce.testing.companions"
    assert all_of(whole) - all_of(registry) == {
        ("architectures", "companion", plugin),
        ("architectures", "companion_recurrent", plugin),
        ("operators", "companion", plugin),
        ("positions", "companion", plugin),
    }
    assert all_of(registry) < all_of(whole)
    assert whole.letters == registry.letters
    assert not {name for _, name, owner in all_of(registry) if owner == plugin}


def test_companions_hold_nothing_that_a_registered_part_can_hold(registry: Registry) -> None:
    whole = companied(registry)
    for kind in NETWORK:
        for entry in registry.entries(kind):
            options = example_options(entry.part)
            assert around(entry, options, whole) == around(entry, options, registry)


@pytest.mark.parametrize(
    "plugin", ["peirce:tpru", "peirce:logic", "peirce:basics", "peirce:folnet", "peirce:kg"]
)
def test_alone_every_part_of_a_plugin_finds_a_host(plugin: str) -> None:
    alone = companied(Registry.of(plugin))
    for kind in NETWORK:
        for entry in alone.entries(kind):
            spec = around(entry, example_options(entry.part), alone)
            assert isinstance(spec, peirce.Spec)


def test_a_letter_that_is_taken_stays_with_its_owner(registry: Registry) -> None:
    part: Any = type("Other", (registry.get("operators", "assoc"),), {"name": "other", "__doc__": "Another."})
    plugin = SimpleNamespace(register_operators=peirce.hookimpl(lambda: [part]))
    whole = companied(Registry.of(plugin))
    assert whole.letters == {"a": "other", "j": "join"}
    assert "assoc" not in whole.names("operators")


def test_a_name_that_an_alias_has_stays_the_alias(registry: Registry) -> None:
    file = RegistryFile(aliases={"operators.bool": "mine"})
    whole = companied(Registry.of(file=file))
    assert "bool" not in whole.names("operators")
    assert whole.aliases("operators") == {"bool": "mine"}


def test_what_no_host_can_hold_is_not_run(registry: Registry) -> None:
    lone: Any = registry.get("positions", "distance")
    places = {
        "name": "nowhere",
        "__doc__": "Refuses all.",
        "check": classmethod(lambda cls, options, dims, scope: "never"),
    }
    part = type("Nowhere", (lone,), places)
    plugin = SimpleNamespace(register_positions=peirce.hookimpl(lambda: [part]))
    whole = companied(Registry.of(plugin))
    entry = whole.entry("positions", "nowhere")
    with pytest.raises(NotRunError, match=r"companion: .*never"):
        around(entry, example_options(part), whole)


def test_the_suite_brings_them_to_what_is_installed_and_not_to_a_registry_that_is_given(
    registry: Registry,
) -> None:
    for suite, brought in ((Conformance(), True), (Conformance(registry=registry), False)):
        found = [case for _, case in suite.cases()]
        assert all(("companion" in case.registry.names("architectures")) is brought for case in found)
        assert not any(case.entry.name == "companion" for case in found)

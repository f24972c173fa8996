"""The suite over everything that ships with Peirce: one test for each check and part."""

from __future__ import annotations

from peirce.registry import KINDS, Registry, RegistryFile, installed_plugins
from peirce.testing import Conformance
from peirce.testing.checks import CHECKS


def built_in() -> Registry:
    shipped = {plugin.name: "on" for plugin in installed_plugins() if plugin.distribution == "peirce"}
    return Registry.discover(RegistryFile(default="off", plugins=shipped))


conformance = Conformance(registry=built_in())


def test_every_part_has_checks_and_every_check_has_parts() -> None:
    found = conformance.cases()
    registry = built_in()
    parts = {(kind, name) for kind in KINDS for name in registry.names(kind)}
    assert {(case.entry.kind, case.entry.name) for _, case in found} == parts
    assert {check.name for check, _ in found} == {check.name for check in CHECKS}


def test_searches_alone_state_that_they_fail() -> None:
    """CQD searches the answers of a trained predictor; there is no network to export."""
    stated = {case.entry.name: set(case.part.expected_failures) for _, case in conformance.cases()}
    assert {name: checks for name, checks in stated.items() if checks} == {
        "cqd_beam": {"onnx"},
        "cqd_continuous": {"onnx"},
    }

"""The suite over everything that ships with Peirce: one test for each check and part."""

from __future__ import annotations

from peirce.registry import KINDS, Registry, RegistryFile, installed_plugins
from peirce_testing import Conformance
from peirce_testing.checks import CHECKS


def built_in() -> Registry:
    shipped = {plugin.name: "on" for plugin in installed_plugins() if plugin.distribution == "peirce"}
    return Registry.discover(RegistryFile(default="off", plugins=shipped))


conformance = Conformance(registry=built_in())


def test_every_part_has_checks_and_every_check_has_parts() -> None:
    found = conformance.cases()
    registry = built_in()
    parts = {(kind, name) for kind in KINDS for name in registry.names(kind)}
    checked = {(case.entry.kind, case.entry.name) for _, case in found}
    assert {each for each in checked if each[0] in KINDS} == parts
    assert {check.name for check, _ in found} == {check.name for check in CHECKS if not check.on_request}


def test_what_states_that_it_fails() -> None:
    """CQD searches the answers of a trained predictor: no network to export or to train."""
    stated = {  # a spec may be called as its architecture
        case.entry.name: set(checks)
        for _, case in conformance.cases()
        if (checks := getattr(case.part, "expected_failures", ()))
    }
    assert stated == {
        "cqd": {"dims"},
        "cqd_beam": {"onnx", "gradients", "modes"},
        "cqd_continuous": {"onnx", "gradients", "modes", "precision"},
        "fit": {"dims"},
        "fit_graph": {"onnx", "gradients", "modes", "options"},
        "fuzzqe": {"dims"},
        "q2p": {"places"},
        "qto": {"dims"},
        "qto_tree": {"onnx", "gradients", "modes"},
        "folnet_encoder_decoder": {"places"},
        "tpr": {"words"},
        "ultra": {"tensorrt"},
    }

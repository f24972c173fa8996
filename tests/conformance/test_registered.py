"""What the suite covers of everything that ships with Peirce; the tests of each distribution run it."""

from __future__ import annotations

import pytest
from shared_folder import ROOT
from thorough import TAKE_LONG, checked_often
from workspace import distributions

from peirce.parts import Head, PureOperator, RecurrentOperator
from peirce.registry import KINDS, Registry, installed_plugins
from peirce_testing import Conformance
from peirce_testing.causes import CAUSES
from peirce_testing.check import NETWORK
from peirce_testing.checks import CHECKS
from peirce_testing.checks.references import states


@pytest.fixture(scope="module")
def suite(registry: Registry) -> Conformance:
    return Conformance(registry=registry)


def test_every_built_in_plugin_loads(registry: Registry) -> None:
    assert registry.quarantined == ()
    assert registry.conflicts == ()
    assert {plugin.name for plugin in registry.plugins} == {
        plugin.name for plugin in installed_plugins() if str(plugin.distribution).startswith("peirce-")
    }
    for kind in KINDS:
        assert registry.names(kind), f"nothing of kind {kind} ships"


def test_every_part_has_checks_and_every_check_has_parts(suite: Conformance, registry: Registry) -> None:
    found = suite.cases()
    parts = {(kind, name) for kind in KINDS for name in registry.names(kind)}
    checked = {(case.entry.kind, case.entry.name) for _, case in found}
    assert {each for each in checked if each[0] in KINDS} == parts
    assert {check.name for check, _ in found} == {check.name for check in CHECKS if not check.on_request}


def test_every_run_tries_each_check_on_each_of_its_kinds(
    suite: Conformance,
) -> None:
    names = [case.name_of(check).rstrip("]").split("[") for check, case in suite.cases()]
    often = [(check, part) for check, part in names if checked_often(check, part)]
    assert {(check, part) for check, parts in TAKE_LONG.items() for part in parts} <= {*often}
    kinds = {(check, part.partition(".")[0]) for check, part in names}
    assert {(check, part.partition(".")[0]) for check, part in often} == kinds
    assert len(often) > 1750  # of 2,900; it must not shrink in silence


def test_every_distribution_with_a_plugin_runs_the_suite_on_it() -> None:
    """As an author's package does: a test module of one line."""
    for each in distributions().values():
        for module in each.file["project"].get("entry-points", {}).get("peirce.plugins", {}).values():
            if each.name != "peirce-testing":
                text = (each.folder / "tests" / "test_conformance.py").read_text(encoding="utf-8")
                assert f'Conformance("{module}")' in text, f"{each.folder.relative_to(ROOT)}"


def test_what_states_that_it_fails(suite: Conformance) -> None:
    """CQD searches the answers of a trained predictor: no network to export or to train."""
    stated = {  # a spec may be called as its architecture
        case.entry.name: set(checks)
        for _, case in suite.cases()
        if (checks := getattr(case.part, "expected_failures", ()))
    }
    assert stated == {
        "cqd": {"dims"},
        "cqd_beam": {"onnx", "gradients", "modes"},
        "cqd_continuous": {"onnx", "gradients", "modes", "precision"},
        "fit": {"dims"},
        "fit_graph": {"onnx", "gradients", "modes", "options"},
        "fuzzqe": {"dims"},
        "qto": {"dims"},
        "qto_tree": {"onnx", "gradients", "modes"},
        "folnet_encoder_decoder": {"places"},
        "tpr": {"words"},
        "ultra": {"tensorrt"},
    }


def test_every_part_states_its_equations_and_losses(registry: Registry) -> None:
    """But for CQD's optimisation: it gives where Adam has arrived after some steps, which is no equation."""
    kinds = ("operators", "positions", "augmenters", "heads")
    parts = {f"{kind}.{entry.name}": entry.part for kind in kinds for entry in registry.entries(kind)}
    must = (PureOperator, RecurrentOperator)  # of these `reference` is abstract
    assert {n for n, part in parts.items() if not (issubclass(part, must) or states(part))} == {
        "heads.cqd_continuous"
    }
    methods = {"heads": "reference_loss", "operators": "reference_of_atoms"}
    unstated = {
        name
        for name, part in parts.items()
        if issubclass(part, (Head, PureOperator)) and not states(part, methods[name.split(".")[0]])
    }
    assert not unstated


def test_each_check_of_parts_has_usual_causes_on_the_page_and_in_its_failures() -> None:
    page = (ROOT / "docs" / "guide" / "write-a-plugin" / "checks.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in page.split("\n## Check: ")[1:]}
    explained = {
        check.name for check in CHECKS if not {*NETWORK, "tasks", "exporters"}.isdisjoint(check.kinds)
    }
    assert explained - {"declaration", "record"} == {*CAUSES}  # of these two a failure says all that there is
    for name in CAUSES:
        assert "Usual cause" in " ".join(sections[name.replace("_", " ")].split()), name

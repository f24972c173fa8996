"""Experiments come from plug-ins as parts do: by name, with one owner, and without importing any part."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest
from attrs import frozen
from peirce import hookimpl
from peirce.errors import RegistryError
from peirce.model import Experiment, ExperimentReport, ExperimentRequest
from peirce.registry import EXPERIMENTS, Registry, RegistryFile
from rich.console import Console


@frozen(kw_only=True, eq=False)
class Counted(Experiment):
    """An experiment that trains nothing."""

    def run(self, request: ExperimentRequest, console: Console) -> ExperimentReport:
        return ExperimentReport(figures=[], facts=[request.scale], files=[], shown=self.title)


def counted(name: str) -> Counted:
    return Counted(name=name, title="One", rows=("a",), columns=("b",), scales={"small": "little"})


def lab(module: str, found: object) -> ModuleType:
    made = ModuleType(module)

    def register_experiments() -> object:
        return found

    made.__dict__["register_experiments"] = hookimpl(register_experiments)
    return made


def test_experiments_are_found_by_name_in_their_order() -> None:
    first, second = counted("lab/two"), counted("lab/one")
    registry = Registry.of(lab("lab", [first, second]))
    assert list(registry.experiments.items()) == [("lab/two", first), ("lab/one", second)]


def test_a_name_with_two_owners_is_an_error_that_names_both_until_one_is_preferred() -> None:
    mine, theirs = counted("table"), counted("table")
    labs = lab("mine", [mine]), lab("theirs", [theirs])
    with pytest.raises(RegistryError, match=r"experiment 'table' has 2 owners: module:mine, module:theirs"):
        Registry.of(*labs)
    file = RegistryFile(prefer={"experiments.table": "module:theirs"})
    assert Registry.of(*labs, file=file).experiments["table"] is theirs


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([Counted], "which is no Experiment; it returns instances, not classes"),
        ([counted("Table 7")], "an experiment has the name 'Table 7'; names match"),
        ([counted("one"), counted("one")], "it registers experiments.one twice"),
        (None, "register_experiments must return a list of experiments, not None"),
    ],
)
def test_what_is_no_experiment_quarantines_its_plugin(found: object, words: str) -> None:
    registry = Registry.of(lab("good", [counted("good")]), lab("bad", found))
    assert list(registry.experiments) == ["good"]
    (broken,) = registry.quarantined
    assert broken.plugin == "module:bad"
    assert words in broken.cause


def test_experiments_alone_call_no_other_hook() -> None:
    module = lab("lab", [counted("one")])

    def register_tasks() -> object:
        raise AssertionError("parts were asked for")

    module.__dict__["register_tasks"] = hookimpl(register_tasks)
    assert Registry.of(module).quarantined
    registry = Registry.discover(RegistryFile(default="off"), extra_plugins=[module], kinds=(EXPERIMENTS,))
    assert list(registry.experiments) == ["one"]
    assert not registry.quarantined


def test_the_experiments_that_come_with_peirce_are_listed_without_torch() -> None:
    code = (
        "import sys; from peirce.registry import Registry; "
        "print(*Registry.discover(kinds=('experiments',)).experiments); assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {"tega/table7", "clutrr", "folio"} <= set(done.stdout.split())

"""The suite as authors meet it: ids, counts, expected failures, runs of nothing, what is not run."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress

import pytest

from peirce.parts import Operator
from peirce.registry import KINDS, Registry
from peirce_testing import Conformance, Outcome, unchecked
from peirce_testing.checks import CHECKS
from peirce_testing.compare import NotApplicableError
from peirce_testing.conformance import CHECKED

pytest_plugins = ["pytester"]

STATELESS = [check for check in CHECKS if check.applies("operators", Operator) and not check.on_request]
"""The checks that an operator without state has."""
TOTAL = len(STATELESS)
LOADED = ("-p", "no:cacheprovider", "-p", "peirce_testing.plugin")
"""Options of pytest with which it loads the suite's plug-in."""

LAB = '''
import peirce
from peirce.parts import Operator, Reader, Writer

class Twice(Operator):
    """u(x) = K(x) v(x) + K(x) v(x)."""

    name = "twice"
    typing = "U <- U x U"
    scope_rule = "none"
    BODY

    def kernel(self):
        return Reader(branch="U", shape={"h": self.dims.heads})

    def premise(self):
        return Reader(branch="U", shape={"h": self.dims.heads})

    def output(self):
        return Writer(branch="U", shape={"h": self.dims.heads})

    def infer(self, kernel, premise, scope):
        return 2 * kernel * premise

    def reference(self, kernel, premise, scope):
        return [[2 * k * v for k, v in zip(*rows)] for rows in zip(kernel, premise)]

@peirce.hookimpl
def register_operators():
    return [Twice]
'''


@pytest.fixture(scope="module", autouse=True)
def loaded(registry: Registry) -> None:
    """Load in this process whatever the checks load: pytester forgets what a run inside it imports, and torch's
    extensions cannot be imported twice."""
    for check, case in Conformance(registry=registry).cases():
        if case.entry.name == "join" and check.name != "onnx":
            with suppress(NotApplicableError):
                check.run(case)


@pytest.fixture
def lab(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(lab=LAB.replace("BODY", ""))
    pytester.syspathinsert()
    return pytester


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*LOADED, "--pyargs", "peirce_testing.suite", *arguments)


def test_one_id_for_each_check_and_part_and_a_count(lab: pytest.Pytester) -> None:
    result = run(lab, "--peirce-plugin", "lab", "-v", "-k", "not onnx")
    # It has no options that could be varied, no kernel of its own, and no record.
    wanted = [check.name for check in STATELESS if check.name not in ("kernel", "onnx", "options", "record")]
    result.assert_outcomes(passed=len(wanted), skipped=3, deselected=1)
    ids = re.findall(r"::(\w+)\[operators\.twice\] PASSED", result.stdout.str())
    assert ids == wanted
    result.stdout.fnmatch_lines([f"{len(wanted)} checks ran on 1 parts"])
    assert result.ret == 0


def test_one_line_in_a_test_module_is_enough(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        test_lab="from peirce_testing import Conformance\n\ntest_conformance = Conformance('lab')\n"
    )
    result = lab.runpytest_inprocess(*LOADED, "-v", "-k", "shapes or reference")
    result.assert_outcomes(passed=2, deselected=TOTAL - 2)
    result.stdout.fnmatch_lines(["*test_lab.py::shapes?operators.twice? PASSED*"])


ONE_LINE = "from peirce_testing import Conformance\n\ntest_conformance = Conformance('lab', quick=True)\n"


@pytest.mark.parametrize(("twice", "outcome"), [("2 *", {"passed": 1}), ("3 *", {"failed": 1})])
def test_without_the_plugin_all_checks_are_one_test(
    lab: pytest.Pytester, twice: str, outcome: dict[str, int]
) -> None:
    lab.makepyfile(test_lab=ONE_LINE, lab=LAB.replace("BODY", "").replace("2 * kernel", f"{twice} kernel"))
    result = lab.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(**outcome)


def test_a_test_module_may_load_the_plugin_itself(lab: pytest.Pytester) -> None:
    lab.makepyfile(test_lab=f"pytest_plugins = ['peirce_testing.plugin']\n{ONE_LINE}")
    lab.runpytest_inprocess("-p", "no:cacheprovider", "-k", "shapes or dtypes").assert_outcomes(
        passed=2, deselected=len([check for check in STATELESS if not check.slow]) - 2
    )


TRIPLED = ("[2 * k * v", "[3 * k * v")
MISPRINT = ("BODY", "expected_failures = {'reference': 'the paper has a misprint'}")
BROKEN = "operator 'twice' (plug-in module:lab) breaks the contract"


@pytest.mark.parametrize(
    ("changes", "options", "outcomes", "lines"),
    [
        (
            [TRIPLED], ["-k", "reference"], {"failed": 1},
            [
                BROKEN,
                "*with: *its example options*",
                "*contract: A part computes what its `reference` does*",
                "*found: *infer in example 0*: * at [[]*[]] where * is expected*",
                "*cause: *lab.py:*: return 2 [*] kernel [*] premise*",
                '*read on:  the guide*, "Check: reference"',
            ],
        ),
        (
            [MISPRINT, TRIPLED], ["-k", "reference or shapes"], {"passed": 1, "xfailed": 1},
            ["expected failure: reference[[]operators.twice[]]: the paper has a misprint"],
        ),
        (
            [MISPRINT], ["-k", "reference"], {"failed": 1},
            ["*passes 'reference', an expected failure (the paper has a misprint)*"],
        ),
        (
            [("BODY", "expected_failures = {'refrence': 'a slip', 'reference': ''}")], ["-k", "declaration"],
            {"failed": 1}, [BROKEN, "*names 'refrence', which is not a check*", "*no reason for 'reference'*"],
        ),
        (
            [TRIPLED], ["-k", "reference", "--peirce-expect=reference[operators.twice]=it is not mine"],
            {"xfailed": 1}, ["expected failure: reference[[]operators.twice[]]: it is not mine"],
        ),
        (
            [], ["-k", "nothing_is_called_so"], {},
            ["0 checks ran on 0 parts", "FAILED: a run of no checks shows nothing"],
        ),
    ],
    ids=["fails", "expected", "expected in vain", "badly expected", "expected by the caller", "nothing"],
)  # fmt: skip
def test_how_checks_end_and_what_is_said_of_them(
    changes: list[tuple[str, str]], options: list[str], outcomes: dict[str, int], lines: list[str],
    lab: pytest.Pytester,
) -> None:  # fmt: skip
    source = LAB
    for old, new in (*changes, ("BODY", "")):
        source = source.replace(old, new)
    lab.makepyfile(lab=source)
    result = run(lab, "--peirce-plugin", "lab", *options)
    result.assert_outcomes(**outcomes, deselected=TOTAL - sum(outcomes.values()))
    result.stdout.fnmatch_lines(lines)
    assert (result.ret == 0) is (bool(outcomes) and "failed" not in outcomes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--peirce-expect=refrence[operators.twice]=a slip"], "*unknown check 'refrence*reference*"),
        (
            ["--peirce-expect=reference[operators.twice]"],
            "*expected_failures gives no reason for 'reference*",
        ),
    ],
)
def test_what_cannot_be_checked_is_refused(lab: pytest.Pytester, options: list[str], message: str) -> None:
    lab.makepyfile(nothing="", listed=LAB.replace("BODY", "expected_failures = ['reference']"))
    result = run(lab, "--peirce-plugin=lab", *options)
    assert result.ret != 0
    result.stdout.fnmatch_lines([message])


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("nothing", "*found: *registers nothing*"),
        ("nowhere_at_all", "*found: *there is no module 'nowhere_at_all'*"),
        ("listed", "*found: *operator 'twice'*expected_failures*"),
    ],
)
def test_a_plugin_that_cannot_be_used_takes_no_other_with_it(
    lab: pytest.Pytester, plugin: str, message: str
) -> None:
    lab.makepyfile(nothing="", listed=LAB.replace("BODY", "expected_failures = ['reference']"))
    result = run(lab, "--peirce-plugin=lab", f"--peirce-plugin={plugin}", "-k", "shapes or load")
    result.assert_outcomes(passed=1, failed=1, deselected=TOTAL - 1)
    result.stdout.fnmatch_lines([message])


def test_failures_of_one_cause_are_told_once_with_the_command_that_repeats_them(
    lab: pytest.Pytester,
) -> None:
    lab.makepyfile(lab=LAB.replace("BODY", "").replace("return 2 * kernel", "return kernel @ kernel.sum(0)"))
    result = run(lab, "--peirce-plugin", "lab", "-k", "shapes or dtypes or purity")
    result.assert_outcomes(failed=3, deselected=TOTAL - 3)
    result.stdout.fnmatch_lines(
        [
            "*again: *peirce plugins check module:lab -k 'shapes[[]operators.twice[]]'",
            "dtypes[[]operators.twice[]]: same cause as shapes[[]operators.twice[]], above",
            "purity[[]operators.twice[]]: same cause as shapes[[]operators.twice[]], above",
        ]
    )


def test_a_quick_run_leaves_out_what_takes_seconds(lab: pytest.Pytester) -> None:
    quick = [check for check in STATELESS if not check.slow]
    result = run(lab, "--peirce-plugin", "lab", "--peirce-quick", "--collect-only", "-q")
    assert len(re.findall(r"::\w+\[operators\.twice\]", result.stdout.str())) == len(quick) < TOTAL


def test_a_part_of_which_nothing_was_checked_is_no_success() -> None:
    ended = [("declaration", "tasks.a", "passed"), ("task_data", "tasks.a", "not run")]
    assert unchecked(ended) == {"tasks.a": "task_data"}
    assert unchecked([*ended, ("task_terms", "tasks.a", "passed")]) == {}
    assert unchecked([("parser", "parsers.b", "does not apply")]) == {}


def test_without_pytest_a_callback_is_told_how_each_check_ended(registry: Registry) -> None:
    outcomes: list[Outcome] = []
    suite = Conformance(registry=registry, expected_failures={"shapes[operators.join]": "not so"})
    wanted = ("shapes[operators.join]", "options[operators.join]", "dtypes[operators.join]")
    found = suite.run(only=lambda name: name in wanted, callback=outcomes.append)
    assert tuple(outcomes) == found
    assert {one.name: one.outcome for one in found} == {
        "shapes[operators.join]": "failed",
        "dtypes[operators.join]": "passed",
        "options[operators.join]": "does not apply",
    }
    assert "remove it from expected_failures" in found[0].message


def test_without_an_exporter_the_checks_of_exports_are_not_run_and_strict_fails(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        test_lab="from peirce.registry import Registry\nfrom peirce_testing import Conformance\n\n"
        "test_conformance = Conformance(registry=Registry.of('lab'))\n"
    )
    arguments = (*LOADED, "-rs", "--peirce-tensorrt", "-k", "onnx or tensorrt or dtypes")
    result = lab.runpytest_inprocess(*arguments)
    result.assert_outcomes(passed=1, skipped=2, deselected=TOTAL - 2)
    result.stdout.fnmatch_lines(
        ["2 not run: onnx[[]operators.twice[]], tensorrt[[]operators.twice[]]", "*not run: no exporter*"]
    )
    strict = lab.runpytest_inprocess(*arguments, "--peirce-strict")
    strict.assert_outcomes(passed=1, failed=2, deselected=TOTAL - 2)


def test_the_list_says_which_kinds_each_check_covers(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*LOADED, "--peirce-list")
    assert result.ret == 0
    for kind in KINDS:
        count = sum(kind in check.kinds for check in CHECKS)
        result.stdout.fnmatch_lines([f"{kind}: {count} check*"])


def test_every_check_has_a_name_a_promise_and_kinds() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert check.contract
        assert set(check.kinds) <= set(CHECKED)
        assert check.function.__doc__


def test_the_pytest_plugin_imports_nothing_but_pytest() -> None:
    heavy = ("torch", "numpy", "hypothesis", "cattrs", "peirce_basics", "peirce.registry", "peirce.parts")
    code = f"import sys, pytest, peirce_testing.plugin; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

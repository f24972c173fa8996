"""The pytest plug-in: `--peirce-plugin`, the items of a `Conformance`, the count of the checks that ran, a report.

pytest imports this module in every run, so it imports nothing but pytest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The suite's options."""
    group = parser.getgroup("peirce", "Peirce's conformance suite")
    group.addoption(
        "--peirce-plugin",
        action="append",
        default=[],
        metavar="MODULE|DIST:ENTRY",
        help="plug-in to check with `--pyargs peirce.testing.suite`; repeatable; without it, everything registered",
    )
    group.addoption(
        "--peirce-expect",
        action="append",
        default=[],
        metavar="CHECK[KIND.NAME]=REASON",
        help="a check that is known to fail, with the reason; repeatable",
    )
    group.addoption("--peirce-thorough", action="store_true", help="try more examples, and larger exports")
    group.addoption("--peirce-tensorrt", action="store_true", help="let TensorRT build every part, too")
    group.addoption("--peirce-strict", action="store_true", help="a check that could not run is a failure")
    group.addoption(
        "--peirce-report", metavar="FILE", help="write how each check ends to FILE, one JSON object a line"
    )
    group.addoption(
        "--peirce-list",
        action="store_true",
        help="print the checks and the kinds of parts they cover, and exit",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Count the checks that run, so that a run of none can fail."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Tally(config), "peirce-tally")
        if config.getoption("peirce_report"):
            config.pluginmanager.register(_Report(config.getoption("peirce_report")), "peirce-report")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """`--peirce-list`: print and exit."""
    if not config.getoption("peirce_list"):
        return None
    from peirce.testing.beside import CHECKED
    from peirce.testing.checks import CHECKS

    for kind in CHECKED:
        covering = [check for check in CHECKS if kind in check.kinds]
        print(f"{kind}: {len(covering)} check{'s' if len(covering) != 1 else ''}")
        for check in covering:
            print(f"  {check.name:18} {check.contract}")
    return 0


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> list[pytest.Item] | None:
    """A `Conformance` in a test module becomes one item for each check and part."""
    kind = type(obj)
    if (kind.__module__, kind.__qualname__) != ("peirce.testing.conformance", "Conformance"):
        return None
    from peirce.errors import PeirceError

    conformance: Any = obj
    try:
        config = collector.config
        expected = dict(each.partition("=")[::2] for each in config.getoption("peirce_expect"))
        named = conformance.named(
            config.getoption("peirce_plugin"),
            expected,
            thorough=config.getoption("peirce_thorough"),
            tensorrt=config.getoption("peirce_tensorrt"),
        )
        return list(named.items(collector))
    except PeirceError as error:
        raise collector.CollectError(f"conformance suite: {error}") from error


class _Tally:
    """Counts what ran, from the reports, which workers of pytest-xdist hand over too."""

    def __init__(self, config: pytest.Config) -> None:
        self.asked = bool(config.getoption("peirce_plugin")) or any(
            "peirce.testing.suite" in str(argument) for argument in config.invocation_params.args
        )
        self.outcomes: list[tuple[str, str, str]] = []
        self.expected: list[str] = []

    @property
    def ran(self) -> int:
        return sum(outcome == "ran" for outcome, _, _ in self.outcomes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        for key, value in report.user_properties:
            if key == "peirce_outcome":
                self.outcomes.append(tuple(value))  # type: ignore[arg-type]
            elif key == "peirce_expected":
                self.expected.append(str(value))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        failed = session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        listing = session.config.option.collectonly
        if self.asked and not self.ran and not failed and not listing:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.outcomes and not self.asked:
            return
        terminalreporter.section("Peirce conformance")
        ran = {part for outcome, _, part in self.outcomes if outcome == "ran"}
        parts = {part for part in ran if not part.startswith("plugins.")}  # a plug-in is none of its own
        terminalreporter.line(f"{self.ran} checks ran on {len(parts)} parts")
        for outcome in ("not run", "does not apply"):
            names = [f"{check}[{part}]" for given, check, part in self.outcomes if given == outcome]
            if names:
                terminalreporter.line(f"{len(names)} {outcome}: {', '.join(names)}")
        for line in self.expected:
            terminalreporter.line(f"expected failure: {line}")
        if self.asked and not self.ran:
            terminalreporter.line("FAILED: a run of no checks shows nothing", red=True)


class _Report:
    """Writes how each check ends while the run goes on, for whoever started it."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write(event="collected", checks=len(session.items))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(event="error", message=report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and not report.failed:
            return
        properties = dict(report.user_properties)
        outcome: str = report.outcome
        message = report.longreprtext
        if hasattr(report, "wasxfail"):
            outcome, message = "expected failure", str(properties.get("peirce_expected", ""))
        elif report.skipped:
            given: Any = properties.get("peirce_outcome", ("skipped",))
            outcome = given[0]
            # pytest keeps why an item is skipped as file, line and reason.
            message = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else message
        check, _, part = report.nodeid.rpartition("::")[2].removesuffix("]").partition("[")
        self._write(event="check", check=check, part=part, outcome=outcome, message=message)

    def _write(self, **event: object) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

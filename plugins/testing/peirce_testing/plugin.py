"""The pytest plug-in: `--peirce-plugin`, the items of a `Conformance`, and the count of the checks that ran.

Load it by `pytest -p peirce_testing.plugin`, or by `addopts` in pytest's settings. It imports nothing but pytest.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The suite's options."""
    group = parser.getgroup("peirce", "Peirce's conformance suite")
    of_suite = "plug-in to check with `--pyargs peirce_testing.suite`; repeatable; else everything registered"
    expected = "a check that is known to fail, with the reason; repeatable"
    for name, metavar, text in (
        ("--peirce-plugin", "MODULE|DIST:ENTRY", of_suite),
        ("--peirce-expect", "CHECK[KIND.NAME]=REASON", expected),
    ):
        group.addoption(name, action="append", default=[], metavar=metavar, help=text)
    for name, text in (
        ("--peirce-thorough", "try more examples, and larger exports"),
        ("--peirce-tensorrt", "let TensorRT build every part, too"),
        ("--peirce-quick", "try fewer examples, and leave out exports and what else takes seconds"),
        ("--peirce-strict", "a check that could not run is a failure"),
        ("--peirce-list", "print the checks and the kinds of parts they cover, and exit"),
    ):
        group.addoption(name, action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Count the checks that run, so that a run of none can fail."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Tally(config), "peirce-tally")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """`--peirce-list`: print and exit."""
    if not config.getoption("peirce_list"):
        return None
    from peirce_testing.checks import CHECKS
    from peirce_testing.conformance import CHECKED

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
    if (kind.__module__, kind.__qualname__) != ("peirce_testing.conformance", "Conformance"):
        return None
    from attrs import evolve

    from peirce.errors import PeirceError

    suite: Any = obj

    def option(name: str) -> Any:
        return collector.config.getoption(
            name, default=()
        )  # which a test module that loads this late does not set

    expected = dict(each.partition("=")[::2] for each in option("peirce_expect"))
    try:
        suite = evolve(
            suite,
            plugins=suite.plugins if suite.registry else suite.plugins or option("peirce_plugin"),
            expected_failures={**expected, **suite.expected_failures},
            **{
                name: getattr(suite, name) or bool(option(f"peirce_{name}"))
                for name in ("thorough", "tensorrt", "quick", "strict")
            },
        )
        return [
            CheckItem.from_parent(collector, name=case.name_of(check), suite=suite, check=check, case=case)
            for check, case in suite.cases()
        ]
    except PeirceError as error:
        raise collector.CollectError(f"conformance suite: {error}") from error


_OUTCOME = "peirce_outcome"
"""The property of a report that says how a check ended."""
_CAUSES = pytest.StashKey[dict[str, str]]()
"""The first check that failed of each cause."""


class _FailedError(Exception):
    """A failure in the words of its check."""


class CheckItem(pytest.Item):
    """One check on one part."""

    def __init__(self, *, suite: Any, check: Any, case: Any, **more: Any) -> None:
        super().__init__(**more)
        self.suite, self.check, self.case = suite, check, case

    def runtest(self) -> None:
        """Run the check, and tell pytest how it ended."""
        outcome = self.suite.outcome(self.check, self.case)
        row = outcome.outcome, outcome.name, outcome.part, outcome.message.partition("\n")[0]
        self.user_properties.append((_OUTCOME, row))
        if outcome.outcome == "expected failure":
            pytest.xfail(f"expected: {outcome.message}")
        if outcome.outcome == "does not apply":
            pytest.skip(f"does not apply: {outcome.message}")
        if outcome.outcome == "not run":
            pytest.skip(outcome.message)
        if outcome.outcome == "failed":
            causes = self.config.stash.setdefault(_CAUSES, {})
            first = causes.setdefault(outcome.cause or outcome.name, outcome.name)
            again = f"{outcome.name}: same cause as {first}, above"
            raise _FailedError(outcome.message if first == outcome.name else again)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A broken contract in words, which say where the part raised if it did."""
        error = excinfo.value
        return str(error) if isinstance(error, _FailedError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where pytest says that the item lies."""
        return self.path, None, self.name


class _Tally:
    """Counts what ran, from the reports, which workers of pytest-xdist hand over too."""

    def __init__(self, config: pytest.Config) -> None:
        self.required = bool(config.getoption("peirce_plugin", default=())) or any(
            "peirce_testing.suite" in str(argument) for argument in config.invocation_params.args
        )
        self.outcomes: list[tuple[str, str, str, str]] = []
        self.deselected = False

    @property
    def ran(self) -> list[str]:
        """The part of each check that ran."""
        return [part for ended, _, part, _ in self.outcomes if ended not in ("not run", "does not apply")]

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected = True

    @property
    def idle(self) -> dict[str, str]:
        """The parts that nothing was run on, where no test was deselected, each with a check that was not run."""
        if self.deselected or not self.outcomes:
            return {}
        from peirce_testing import unchecked

        return unchecked((name.partition("[")[0], part, outcome) for outcome, name, part, _ in self.outcomes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.outcomes += [tuple(row) for key, row in report.user_properties if key == _OUTCOME]  # type: ignore[arg-type, misc]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        failed = session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        empty = (self.required and not self.ran) or self.idle
        if empty and not failed and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.outcomes and not self.required:
            return
        terminalreporter.section("Peirce conformance")
        terminalreporter.line(f"{len(self.ran)} checks ran on {len(set(self.ran))} parts")
        for outcome in ("not run", "does not apply"):
            if names := [name for given, name, *_ in self.outcomes if given == outcome]:
                terminalreporter.line(f"{len(names)} {outcome}: {', '.join(names)}")
        for outcome, name, _, reason in self.outcomes:
            if outcome == "expected failure":
                terminalreporter.line(f"expected failure: {name}: {reason}")
        for part, check in self.idle.items():
            terminalreporter.line(f"FAILED: nothing of {part} was checked: {check} was not run", red=True)
        if self.required and not self.ran:
            terminalreporter.line("FAILED: a run of no checks shows nothing", red=True)

"""The pytest plug-in: `--peirce-plugin`, the items of a `Conformance`, and the count of the checks that ran.

pytest imports this module in every run, so it imports nothing but pytest.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The suite's options."""
    group = parser.getgroup("peirce", "Peirce's conformance suite")
    for name, metavar, said in (
        (
            "--peirce-plugin", "MODULE|DIST:ENTRY",
            "plug-in to check with `--pyargs peirce.testing.suite`; repeatable; without it, everything registered",
        ),
        (
            "--peirce-expect", "CHECK[KIND.NAME]=REASON",
            "a check that is known to fail, with the reason; repeatable",
        ),
    ):  # fmt: skip
        group.addoption(name, action="append", default=[], metavar=metavar, help=said)
    for name, said in (
        ("--peirce-thorough", "try more examples, and larger exports"),
        ("--peirce-tensorrt", "let TensorRT build every part, too"),
        ("--peirce-strict", "a check that could not run is a failure"),
        ("--peirce-list", "print the checks and the kinds of parts they cover, and exit"),
    ):
        group.addoption(name, action="store_true", help=said)


def pytest_configure(config: pytest.Config) -> None:
    """Count the checks that run, so that a run of none can fail."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Tally(config), "peirce-tally")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """`--peirce-list`: print and exit."""
    if not config.getoption("peirce_list"):
        return None
    from peirce.testing.checks import CHECKS
    from peirce.testing.conformance import CHECKED

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

    suite: Any = obj
    option = collector.config.getoption
    try:
        suite = suite.named(
            option("peirce_plugin"),
            dict(each.partition("=")[::2] for each in option("peirce_expect")),
            thorough=option("peirce_thorough"),
            tensorrt=option("peirce_tensorrt"),
        )
        return [
            CheckItem.from_parent(
                collector,
                name=f"{check.name}[{case.entry.kind}.{case.entry.name}]",
                suite=suite,
                check=check,
                case=case,
            )
            for check, case in suite.cases()
        ]
    except PeirceError as error:
        raise collector.CollectError(f"conformance suite: {error}") from error


class _FailedError(Exception):
    """A failure in the words of its check."""


class CheckItem(pytest.Item):
    """One check on one part."""

    def __init__(self, *, suite: Any, check: Any, case: Any, **more: Any) -> None:
        super().__init__(**more)
        self.suite, self.check, self.case = suite, check, case

    def runtest(self) -> None:
        """Run the check, and tell pytest how it ended."""
        ended = self.suite.outcome(self.check, self.case)
        ran = ended.outcome not in ("does not apply", "not run")
        self.user_properties.append(
            ("peirce_outcome", ("ran" if ran else ended.outcome, ended.name, ended.part))
        )
        if ended.outcome == "does not apply":
            pytest.skip(f"does not apply: {ended.message}")
        elif ended.outcome == "not run":
            if self.config.getoption("peirce_strict"):
                raise _FailedError(f"{ended.message} (--peirce-strict makes this a failure)")
            pytest.skip(ended.message)
        elif ended.outcome == "expected failure":
            reason = ended.message.partition("\n")[0]
            self.user_properties.append(("peirce_expected", f"{ended.name}: {reason}"))
            pytest.xfail(f"expected: {ended.message}")
        elif ended.outcome == "failed":
            raise _FailedError(ended.message)

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
        self.asked = bool(config.getoption("peirce_plugin")) or any(
            "peirce.testing.suite" in str(argument) for argument in config.invocation_params.args
        )
        self.outcomes: list[tuple[str, str, str]] = []
        self.expected: list[str] = []

    @property
    def ran(self) -> int:
        return sum(outcome == "ran" for outcome, _, _ in self.outcomes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for key, value in report.user_properties:
                if key == "peirce_outcome":
                    self.outcomes.append(tuple(value))  # type: ignore[arg-type]
                elif key == "peirce_expected":
                    self.expected.append(str(value))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        failed = session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self.asked and not self.ran and not failed and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.outcomes and not self.asked:
            return
        terminalreporter.section("Peirce conformance")
        parts = {part for outcome, _, part in self.outcomes if outcome == "ran"}
        terminalreporter.line(f"{self.ran} checks ran on {len(parts)} parts")
        for outcome in ("not run", "does not apply"):
            names = [name for given, name, _ in self.outcomes if given == outcome]
            if names:
                terminalreporter.line(f"{len(names)} {outcome}: {', '.join(names)}")
        for line in self.expected:
            terminalreporter.line(f"expected failure: {line}")
        if self.asked and not self.ran:
            terminalreporter.line("FAILED: a run of no checks shows nothing", red=True)

"""The conformance suite over one plug-in, run in a process of its own and told in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from attrs import define, field, frozen

from peirce.commands.show import as_table
from peirce.progress import progress_bars

_OUTCOMES = ("passed", "failed", "expected failure", "not run", "does not apply")
_TAIL = 20_000


@frozen(kw_only=True)
class Ended:
    """How one check ended: `outcome` is `passed`, `failed`, `expected failure`, `not run` or `does not apply`."""

    check: str
    part: str
    outcome: str
    message: str

    @property
    def name(self) -> str:
        """`CHECK[KIND.NAME]`."""
        return f"{self.check}[{self.part}]"


@define
class CheckedPlugin:
    """What a run of the suite found.

    Attributes:
        passed: whether checks ran and none failed.
        checks: how each check ended, in order.
        error: why the run could not begin or came to no end; empty otherwise.
    """

    passed: bool = False
    checks: list[Ended] = field(factory=list)
    error: str = ""

    def of(self, outcome: str) -> list[Ended]:
        """The checks that ended so."""
        return [ended for ended in self.checks if ended.outcome == outcome]

    def counts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "tests": len(self.checks),
            "failures": len(self.of("failed")),
            "errors": int(bool(self.error)),
            "skipped": len(self.of("not run")) + len(self.of("does not apply")),
            "failed": [ended.name for ended in self.of("failed")],
        }

    def explained(self) -> str:
        """The failures in full."""
        texts = [ended.message for ended in self.of("failed")]
        return "\n\n".join([*texts, *([self.error] if self.error else [])])


def run_suite(
    plugin: str,
    *,
    strict: bool,
    thorough: bool = False,
    tensorrt: bool = False,
    keyword: str = "",
    expected: Sequence[str] = (),
) -> CheckedPlugin:
    """Run the checks over the parts of a plug-in.

    Args:
        plugin: `distribution:entry-point`, or a module's name.
        strict: whether a check that could not run is a failure.
        thorough: whether more examples are tried.
        tensorrt: whether TensorRT builds every part, too.
        keyword: which checks and parts, as pytest's `-k` takes them; all if empty.
        expected: checks that are known to fail, `CHECK[KIND.NAME]=REASON` each.
    """
    result = CheckedPlugin()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report, log = folder / "report.jsonl", folder / "log"
        # An empty configuration and --noconftest ignore those of the working directory, and -P its modules.
        configuration = folder / "pytest.ini"
        configuration.write_text("[pytest]\n", encoding="utf-8")
        report.touch()
        command = [sys.executable, "-P", "-m", "pytest", "--pyargs", "peirce.testing.suite"]
        command += ["--peirce-plugin", plugin, f"--peirce-report={report}"]
        command += ["-c", str(configuration), "--noconftest", "-p", "no:cacheprovider"]
        command += ["-p", "peirce.testing.plugin", *(["--peirce-strict"] if strict else [])]
        command += [*(["--peirce-thorough"] if thorough else []), *(["-k", keyword] if keyword else [])]
        command += ["--peirce-tensorrt"] if tensorrt else []
        command += [f"--peirce-expect={each}" for each in expected]
        environment = {
            **os.environ,
            **dict.fromkeys(
                ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"), ""
            ),  # which would change how the suite runs
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "drawn"),
        }
        with log.open("wb") as output, report.open("rb") as events, _bar(plugin) as advance:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
            )
            try:
                begun = b""  # a line of which the rest is still being written
                while True:
                    over = process.poll() is not None
                    *lines, begun = (begun + events.read()).split(b"\n")
                    for line in lines:
                        _take(json.loads(line), result, advance)
                    if over:
                        break
                    time.sleep(0.1)
            finally:
                process.kill()
        result.passed = process.returncode == 0
        if not result.passed and not result.error and not result.of("failed"):
            said = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
            result.error = f"the run ended with exit code {process.returncode}:\n{said}"
    return result


def show(result: CheckedPlugin) -> None:
    """Print the counts by part, every failure in full, and one line that says how it went."""
    parts = dict.fromkeys(ended.part for ended in result.checks)
    if parts:
        found = Counter((ended.part, ended.outcome) for ended in result.checks)
        columns = [outcome for outcome in _OUTCOMES if result.of(outcome)]
        as_table(("part", *columns), ([part, *(found[part, one] for one in columns)] for part in parts))
    for ended in result.of("failed"):
        typer.secho(ended.name, fg="red", bold=True)
        typer.echo(f"{ended.message}\n")
    for outcome in ("expected failure", "not run"):
        for ended in result.of(outcome):
            typer.echo(f"{outcome}: {ended.message if outcome == 'expected failure' else ended.name}")
            if outcome == "not run":
                typer.echo(f"  {ended.message}")
    if result.error:
        typer.secho(result.error, fg="red")
        return
    failed, ran = len(result.of("failed")), len(result.checks) - len(result.of("does not apply"))
    said = f"{failed} of {ran} checks failed" if failed else f"{len(result.of('passed'))} checks passed"
    count = sum(not part.startswith("plugins.") for part in parts)  # a plug-in is no part of its own
    typer.secho(f"{said} on {count} part{'s' if count != 1 else ''}", fg="red" if failed else "green")


Advance = Callable[[int | None, str], None]
"""Sets how many checks there are, if a number is given, or counts one more; and what to show beside it."""


def _take(event: dict[str, Any], result: CheckedPlugin, advance: Advance) -> None:
    kind = event.pop("event")
    if kind == "collected":
        advance(event["checks"], "")
    elif kind == "error":
        result.error = event["message"]
    else:
        ended = Ended(**event)
        result.checks.append(ended)
        advance(None, ended.name)


@contextmanager
def _bar(title: str) -> Iterator[Advance]:
    """A progress bar on stderr, on a terminal that somebody watches."""
    from rich.console import Console

    console = Console(stderr=True)
    with progress_bars(console if console.is_terminal else None) as progress:
        task = progress.add_task(f"checking {title}", total=None, shown="loading")

        def advance(total: int | None, last: str) -> None:
            counted = {"advance": 1} if total is None else {"total": total}
            progress.update(task, **counted, shown=last)  # type: ignore[arg-type]

        yield advance

"""The conformance suite over one plug-in, told in words."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any

import typer
from attrs import define, evolve, field

from peirce.commands.show import as_table
from peirce.errors import PeirceError
from peirce.progress import progress_bars

if TYPE_CHECKING:
    from peirce.testing import Outcome

_OUTCOMES = ("passed", "failed", "expected failure", "not run", "does not apply")


@define
class CheckedPlugin:
    """What a run of the suite found.

    Attributes:
        checks: how each check ended, in order.
        error: why the run could not begin or came to no end; empty otherwise.
    """

    checks: list[Outcome] = field(factory=list)
    error: str = ""

    def of(self, *outcomes: str) -> list[Outcome]:
        """The checks that ended so."""
        return [ended for ended in self.checks if ended.outcome in outcomes]

    @property
    def passed(self) -> bool:
        """Whether checks ran and none failed."""
        ran = self.of("passed", "failed", "expected failure")
        return bool(ran) and not self.of("failed") and not self.error

    def to_dict(self) -> dict[str, Any]:
        """For JSON: counts, and the failures in full."""
        failed = self.of("failed")
        checks = {
            "tests": len(self.checks),
            "failures": len(failed),
            "errors": int(bool(self.error)),
            "skipped": len(self.of("not run", "does not apply")),
            "failed": [ended.name for ended in failed],
        }
        output = "\n\n".join(filter(None, [*(ended.message for ended in failed), self.error]))
        return {"passed": self.passed, "checks": checks, "output": output}

    def show(self) -> None:
        """Print the counts by part, every failure in full, and one line that says how it went."""
        parts = dict.fromkeys(ended.part for ended in self.checks)
        if parts:
            found = Counter((ended.part, ended.outcome) for ended in self.checks)
            columns = [outcome for outcome in _OUTCOMES if self.of(outcome)]
            as_table(("part", *columns), ([part, *(found[part, one] for one in columns)] for part in parts))
        for ended in self.of("failed"):
            typer.secho(ended.name, fg="red", bold=True)
            typer.echo(f"{ended.message}\n")
        for ended in self.of("expected failure"):
            typer.echo(f"expected failure: {ended.message}")
        for ended in self.of("not run"):
            typer.echo(f"not run: {ended.name}\n  {ended.message}")
        if self.error:
            typer.secho(self.error, fg="red")
            return
        failed, ran = len(self.of("failed")), len(self.checks) - len(self.of("does not apply"))
        said = f"{failed} of {ran} checks failed" if failed else f"{len(self.of('passed'))} checks passed"
        on = f"on {len(parts)} part{'s' if len(parts) != 1 else ''}"
        typer.secho(f"{said} {on}", fg="red" if failed else "green")


def run_suite(
    plugin: str, *, strict: bool, thorough: bool, tensorrt: bool, keyword: str, expected: Sequence[str]
) -> CheckedPlugin:
    """Run the checks over the parts of a plug-in, with the options of `peirce plugins check`."""
    from rich.console import Console

    from peirce.testing import Conformance

    result = CheckedPlugin()
    reasons = dict(each.partition("=")[::2] for each in expected)
    suite = Conformance(plugin, expected_failures=reasons, thorough=thorough, tensorrt=tensorrt)
    console = Console(file=sys.stderr)
    try:
        suits = _suiting(keyword)
        count = sum(map(suits, suite.names()))
        if not count:
            raise PeirceError(f"-k {keyword!r} leaves no check, and a run of none shows nothing")
        with progress_bars(console if console.is_terminal else None) as progress:
            task = progress.add_task(f"checking {plugin}", total=count, shown="")

            def take(ended: Outcome) -> None:
                if strict and ended.outcome == "not run":
                    said = f"{ended.message} (--strict makes this a failure)"
                    ended = evolve(ended, outcome="failed", message=said)
                result.checks.append(ended)
                progress.update(task, advance=1, shown=ended.name)

            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                suite.run(only=suits, callback=take)
    except PeirceError as error:
        result.error = f"conformance suite: {error}"
    except SystemExit as error:
        result.error = f"a part ended the process with {error.code!r}, after {len(result.checks)} checks"
    return result


def _suiting(keyword: str) -> Callable[[str], bool]:
    """Whether a name suits an expression of parts of names with `and`, `or`, `not` and parentheses."""

    def suits(name: str) -> bool:
        def word(found: re.Match[str]) -> str:
            operator = found[0] in ("and", "or", "not")
            return found[0] if operator else str(found[0].lower() in name.lower())

        # What is evaluated is made of True, False, operators and parentheses alone.
        return bool(eval(re.sub(r"[^\s()]+", word, keyword.strip() or "not nothing")))

    try:
        suits("")
    except (SyntaxError, TypeError):
        raise PeirceError(f"-k {keyword!r} is no expression of names, `and`, `or`, `not` and ()") from None
    return suits

"""The conformance suite over one plug-in, told in words."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any

import typer
from attrs import define, field

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

    @property
    def passed(self) -> bool:
        """Whether checks ran and none failed."""
        ran = len(self.checks) - len(self.of("does not apply")) - len(self.of("not run"))
        return ran > 0 and not self.of("failed") and not self.error

    def of(self, outcome: str) -> list[Outcome]:
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
        return "\n\n".join([*(ended.message for ended in self.of("failed")), *filter(None, [self.error])])


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
    from attrs import evolve

    from peirce.testing import Conformance

    result = CheckedPlugin()
    reasons = dict(each.partition("=")[::2] for each in expected)
    suite = Conformance(plugin, expected_failures=reasons, thorough=thorough, tensorrt=tensorrt)

    def take(ended: Outcome) -> None:
        if strict and ended.outcome == "not run":
            said = f"{ended.message} (--strict makes this a failure)"
            ended = evolve(ended, outcome="failed", message=said)
        result.checks.append(ended)
        advance(ended.name)

    try:
        suits = _suiting(keyword)
        count = sum(map(suits, suite.names()))
        if not count:
            raise PeirceError(f"-k {keyword!r} leaves no check, and a run of none shows nothing")
        with _bar(plugin, count) as advance, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            suite.run(only=suits, callback=take)
    except PeirceError as error:
        result.error = f"conformance suite: {error}"
    except SystemExit as error:
        result.error = f"a part ended the process with {error.code!r}, after {len(result.checks)} checks"
    return result


def _suiting(keyword: str) -> Callable[[str], bool]:
    """Whether a name suits an expression of parts of names with `and`, `or`, `not` and parentheses.

    Raises:
        PeirceError: it is none.
    """

    def suits(name: str) -> bool:
        def word(found: re.Match[str]) -> str:
            operator = found[0] in ("and", "or", "not")
            return found[0] if operator else str(found[0].lower() in name.lower())

        return bool(
            eval(re.sub(r"[^\s()]+", word, keyword))
        )  # of True, False, operators and parentheses alone

    if not keyword.strip():
        return lambda name: True
    try:
        suits("")
    except (SyntaxError, TypeError):
        raise PeirceError(f"-k {keyword!r} is no expression of names, `and`, `or`, `not` and ()") from None
    return suits


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
    for ended in result.of("expected failure"):
        typer.echo(f"expected failure: {ended.message}")
    for ended in result.of("not run"):
        typer.echo(f"not run: {ended.name}\n  {ended.message}")
    if result.error:
        typer.secho(result.error, fg="red")
        return
    failed, ran = len(result.of("failed")), len(result.checks) - len(result.of("does not apply"))
    said = f"{failed} of {ran} checks failed" if failed else f"{len(result.of('passed'))} checks passed"
    typer.secho(
        f"{said} on {len(parts)} part{'s' if len(parts) != 1 else ''}", fg="red" if failed else "green"
    )


@contextmanager
def _bar(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on stderr, on a terminal that somebody watches; what it gives counts one check more."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    with progress_bars(console if console.is_terminal else None) as progress:
        task = progress.add_task(f"checking {title}", total=total, shown="")
        yield lambda last: progress.update(task, advance=1, shown=last)

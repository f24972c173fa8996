"""A run of the conformance suite over one plug-in, and its report on the screen or as JSON."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from shlex import quote
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import typer
from attrs import define, field

from peirce.commands import print_table
from peirce.errors import PeirceError
from peirce.progress import progress_bars
from peirce.registry import EntryPoint
from peirce_testing.conformance import Conformance, Outcome, unchecked

_LONG, _SHOWN = 0.5, 5
"""How many seconds of CPU time a check takes that is listed as slow, and how many are."""
_FAILED = Path(".peirce_cache", "failed.json")
"""Where the names of checks that failed are kept, by plug-in; in the folder where the command was run."""
_OUTCOMES = ("passed", "failed", "expected failure", "not run", "does not apply")


@define
class CheckedPlugin:
    """What a run of the suite found.

    Attributes:
        checks: how each check ended, in order.
        error: why the run could not begin, came to no end, or shows nothing of a part; empty otherwise.
        again: the command that runs the failed checks again.
    """

    checks: list[Outcome] = field(factory=list)
    error: str = ""
    again: str = ""

    def of(self, *outcomes: str) -> list[Outcome]:
        """The checks with one of these outcomes."""
        return [each for each in self.checks if each.outcome in outcomes]

    @property
    def passed(self) -> bool:
        """Whether checks ran and none failed."""
        ran = self.of("passed", "failed", "expected failure")
        return bool(ran) and not self.of("failed") and not self.error

    def to_dict(self) -> dict[str, Any]:
        """For JSON: counts, and the failures in full."""
        failed = self.of("failed")
        return {
            "passed": self.passed,
            "checks": {
                "tests": len(self.checks),
                "failures": len(failed),
                "errors": int(bool(self.error)),
                "skipped": len(self.of("not run", "does not apply")),
                "failed": [outcome.name for outcome in failed],
            },
            "output": "\n\n".join(filter(None, [*(outcome.message for outcome in failed), self.error])),
            "causes": [[outcome.name for outcome in each] for each in self.causes()],
            "slowest": [{"name": each.name, "seconds": round(each.seconds, 3)} for each in self.slowest()],
        }

    def causes(self) -> list[list[Outcome]]:
        """The failures, those of one cause together."""
        found: dict[str, list[Outcome]] = {}
        for outcome in self.of("failed"):
            found.setdefault(outcome.cause or outcome.name, []).append(outcome)
        return list(found.values())

    def slowest(self) -> list[Outcome]:
        """The checks that took longest, of those that took a while."""
        long = (each for each in self.checks if each.seconds > _LONG)
        return sorted(long, key=lambda each: -each.seconds)[:_SHOWN]

    def show(self) -> None:
        """Print the counts by part, a failure of each cause in full, the slowest checks, and how it went."""
        parts = dict.fromkeys(outcome.part for outcome in self.checks)
        if parts:
            found = Counter((outcome.part, outcome.outcome) for outcome in self.checks)
            columns = [kind for kind in _OUTCOMES if self.of(kind)]
            print_table(
                ("part", *columns), ([part, *(found[part, one] for one in columns)] for part in parts)
            )
        for outcome, *others in self.causes():
            typer.secho(outcome.name, fg="red", bold=True)
            typer.echo(outcome.message)
            if others:
                names = ", ".join(other.name for other in others)
                typer.echo(f"same cause in {len(others)} other check{'s' * (len(others) > 1)}: {names}")
            typer.echo()
        for outcome in self.of("expected failure"):
            typer.echo(f"expected failure: {outcome.message}")
        for outcome in self.of("not run"):
            typer.echo(f"not run: {outcome.name}\n  {outcome.message}")
        if slowest := self.slowest():
            each = (f"{outcome.name} {outcome.seconds:.1f} s" for outcome in slowest)
            typer.echo(f"slowest: {', '.join(each)}")
        if len(self.of("failed")) > 1:
            typer.echo(f"the failed checks again: {self.again}")
        if self.error:
            typer.secho(self.error, fg="red")
            return
        failed, ran = len(self.of("failed")), len(self.checks) - len(self.of("does not apply"))
        passed = len(self.of("passed"))
        verdict = (
            f"{failed} of {ran} checks failed" if failed else f"{passed} check{'s' * (passed != 1)} passed"
        )
        on = f"on {len(parts)} part{'s' if len(parts) != 1 else ''}"
        typer.secho(f"{verdict} {on}", fg="red" if failed else "green")


def run_suite(plugin: EntryPoint, suite: Conformance, *, keyword: str, last_failed: bool) -> CheckedPlugin:
    """Run the checks over the parts of a plug-in.

    Of what they and their libraries leave in the folder for temporary files, only what a failure names stays.

    Args:
        plugin: the plug-in.
        suite: the suite over it.
        keyword: an expression of the checks and parts that are run; all if empty.
        last_failed: whether only those are run that failed the last time, if any did.
    """
    before, folder = os.environ.get("TMPDIR"), Path(mkdtemp(prefix="peirce-check-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        result = _run_suite(plugin, suite, keyword, last_failed)
    finally:
        tempfile.tempdir = None
        os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)
    messages = "".join(outcome.message for outcome in result.checks)
    for path in folder.iterdir():
        if str(path) not in messages:
            rmtree(path) if path.is_dir() else path.unlink()
    with suppress(OSError):  # something is kept there
        folder.rmdir()
    return result


def _run_suite(plugin: EntryPoint, suite: Conformance, keyword: str, last_failed: bool) -> CheckedPlugin:
    from rich.console import Console

    result = CheckedPlugin(again=f"peirce plugins check {quote(plugin.name)} --last-failed")
    console = Console(file=sys.stderr)
    try:
        matches, known = _matcher(keyword), suite.names()
        failed = {*_last_failures().get(plugin.name, ())} & {*known} if last_failed else set()
        names = [name for name in known if matches(name) and (name in failed or not failed)]
        if not names:
            raise PeirceError(f"-k {keyword!r} matches no check")
        with progress_bars(console if console.is_terminal else None) as progress:
            task = progress.add_task(f"checking {plugin.name}", total=len(names), shown="")

            def take(outcome: Outcome) -> None:
                result.checks.append(outcome)
                progress.update(task, advance=1, shown=outcome.name)

            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                suite.run(only=set(names).__contains__, callback=take)
        if len(names) == len(known):
            idle = unchecked((each.check, each.part, each.outcome) for each in result.checks)
            result.error = "\n".join(
                f"nothing of {part} was checked, since {check} was not run" for part, check in idle.items()
            )
        _keep_failed(plugin.name, result, known)
    except PeirceError as error:
        result.error = f"conformance suite: {error}"
    except SystemExit as error:
        result.error = f"a part outcome the process with {error.code!r}, after {len(result.checks)} checks"
    return result


def _last_failures() -> dict[str, list[str]]:
    """The names of the checks that failed in the last run, by plug-in."""
    with suppress(OSError, ValueError):
        found = json.loads(_FAILED.read_text(encoding="utf-8"))
        if isinstance(found, dict) and all(isinstance(names, list) for names in found.values()):
            return {name: [each for each in names if isinstance(each, str)] for name, names in found.items()}
    return {}


def _keep_failed(plugin: str, result: CheckedPlugin, known: Sequence[str]) -> None:
    """Keep the names of the checks that fail, for `--last-failed`; where none does, nothing is kept."""
    kept, ran = _last_failures(), {each.name for each in result.checks}
    still = [name for name in kept.pop(plugin, ()) if name in known and name not in ran]
    kept[plugin] = still + [each.name for each in result.of("failed")]
    with suppress(OSError):  # a folder where nothing can be written keeps nothing
        if any(kept.values()):
            _FAILED.parent.mkdir(exist_ok=True)
            _FAILED.with_name(".gitignore").write_text("*\n", encoding="utf-8")
            _FAILED.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        else:
            rmtree(_FAILED.parent)


def _matcher(keyword: str) -> Callable[[str], bool]:
    """Whether a name matches an expression of parts of names with `and`, `or`, `not` and parentheses."""

    def matches(name: str) -> bool:
        def word(found: re.Match[str]) -> str:
            operator = found[0] in ("and", "or", "not")
            return found[0] if operator else str(found[0].lower() in name.lower())

        # What is evaluated is made of True, False, operators and parentheses alone.
        return bool(eval(re.sub(r"[^\s()]+", word, keyword.strip() or "not nothing")))

    try:
        matches("")
    except (SyntaxError, TypeError):
        raise PeirceError(
            f"-k {keyword!r} must combine names with `and`, `or`, `not` and parentheses"
        ) from None
    return matches

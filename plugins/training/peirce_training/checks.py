"""The check of experiments in the conformance suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peirce_testing import BrokenError, Case, check


@check("experiments")
def experiment(case: Case) -> None:
    """An experiment says what it trains, shows and costs, in names that are each there once. Its rows, columns, scales,
    title and folder.
    """
    part: Any = case.entry.part
    lists = {"rows": (*part.rows, *part.more), "columns": part.columns, "published": tuple(part.published)}
    lines = {"title": part.title, **{f"the scale {name!r}": line for name, line in part.scales.items()}}
    problems = [
        f"{what} has a name twice, or an empty one: {', '.join(map(repr, names))}"
        for what, names in lists.items()
        if len({*names}) < len(names) or not all(isinstance(name, str) and name.strip() for name in names)
    ]
    problems += [
        f"{what} must be one line, not {line!r}"
        for what, line in lines.items()
        if not line.strip() or "\n" in line
    ]
    if not part.rows or not part.scales:
        problems.append("it has no rows or no scales, so there is nothing to train")
    if Path(part.folder).is_absolute() or ".." in Path(part.folder).parts:
        problems.append(f"folder = {part.folder!r} must lie below the working directory")
    if problems:
        raise BrokenError("\n".join(problems))

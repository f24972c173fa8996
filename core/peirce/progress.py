"""Progress bars, which look the same in every command, and durations in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def format_duration(seconds: float) -> str:
    """A time as people say it, such as `1 h 20 min`."""
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min" if minutes else f"{seconds:.0f} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def progress_bars(console: Console | None, *, counted: bool = True, kept: bool = False) -> Progress:
    """Progress bars with a description, a count, the field `shown`, and the elapsed and the remaining time.

    Args:
        console: where they are shown; nowhere when None.
        counted: whether the number of steps is shown, which makes no sense for bytes.
        kept: whether the bars stay on the screen when they end.

    Returns:
        The bars, not yet shown; `add_task` needs a `shown`, which may be empty.
    """
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        *([progress.MofNCompleteColumn()] if counted else []),
        progress.TextColumn("{task.fields[shown]}", markup=False),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=console or Console(quiet=True),  # rich 13 ends even disabled bars with an empty line
        disable=console is None,
        transient=not kept,
    )

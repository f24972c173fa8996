"""Progress bars: the one form of all of them, and the one of a training."""

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
    """Bars that say what is done, how far it is, what their field `shown` says, and the time past and to come.

    Args:
        console: where they are shown; nowhere when None.
        counted: whether steps are counted out, which bytes are not.
        kept: whether the bars stay there in the end.

    Returns:
        The bars, not yet shown; `add_task` needs a `shown`, which may be empty.
    """
    from rich import progress as of
    from rich.console import Console

    return of.Progress(
        of.TextColumn("{task.description}", markup=False),
        of.BarColumn(),
        *([of.MofNCompleteColumn()] if counted else []),
        of.TextColumn("{task.fields[shown]}", markup=False),
        of.TimeElapsedColumn(),
        of.TimeRemainingColumn(),
        console=console or Console(quiet=True),  # rich 13 ends even disabled bars with an empty line
        disable=console is None,
        transient=not kept,
    )

"""What an export is busy with, on a terminal that somebody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def steps(title: str) -> Iterator[Callable[[str], None]]:
    """A spinner with the time so far on stderr; the function that it gives changes the words beside it."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title)
        yield lambda words: progress.update(task, description=f"{title}: {words}")

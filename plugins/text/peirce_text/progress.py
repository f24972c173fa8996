"""Lines and progress bars on standard error while texts are read."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from peirce.progress import progress_bars

T = TypeVar("T")


def print_line(text: str) -> None:
    """Print a line on standard error, where it is not mistaken for a result."""
    Console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)


def with_progress(items: Iterable[T], what: str, count: int, least: int) -> Iterable[T]:
    """Some items, with a progress bar on a terminal if there are at least so many."""
    console = Console(stderr=True)
    hidden = not console.is_terminal or count < least
    return track(items, what, total=count, console=console, disable=hidden, transient=True)


class ShardProgress:
    """Shows which shard is read, how many are done, and how much has been read; nothing without a terminal.

    Args:
        shards: how many there are.
        doing: what happens to them.
        unit: what `advance` counts.
    """

    def __init__(self, shards: int, doing: str = "tokenizing", unit: str = "tokens") -> None:
        self._console = Console(stderr=True)
        self._unit, self._doing, self._count = unit, doing, 0
        self._bars = progress_bars(self._console if self._console.is_terminal else None)
        self._task = self._bars.add_task(doing, total=shards, shown="")

    def __enter__(self) -> ShardProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def start(self, name: str) -> None:
        """Show that a shard is begun."""
        self._bars.update(self._task, description=f"{self._doing} {name}")

    def advance(self, count: int) -> None:
        """Add to what has been read."""
        self._count += count
        self._bars.update(self._task, shown=f"{self._count:,} {self._unit}")

    def done(self) -> None:
        """Show that the shard is done."""
        self._bars.advance(self._task)

    def print_line(self, text: str) -> None:
        """Print a line, whether or not there is a bar."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

"""The progress bar of reading shards."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)


class Tokenizing:
    """Shows which shard is read, how many are done, and how much has been read; nothing where nobody watches.

    Args:
        console: where it is shown, if that is a terminal.
        shards: how many there are.
        doing: what happens to them.
        unit: what `advance` counts.
    """

    def __init__(
        self, console: Console, shards: int, doing: str = "tokenizing", unit: str = "tokens"
    ) -> None:
        self.console = console
        self._unit = unit
        self._count = 0
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn(f"{doing} {{task.fields[name]}}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[read]}"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task(doing, total=shards, name="", read="")

    def __enter__(self) -> Tokenizing:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, name: str) -> None:
        """A shard is begun."""
        self._update(name=name)

    def advance(self, count: int) -> None:
        """So much more has been read."""
        self._count += count
        self._update(read=f"{self._count:,} {self._unit}")

    def done(self) -> None:
        """The shard is done."""
        self._update(advance=1)

    def say(self, text: str) -> None:
        """Print a line, whether or not there is a bar."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _update(self, **fields: Any) -> None:
        if self._bar is not None:
            self._bar.update(self._task, **fields)

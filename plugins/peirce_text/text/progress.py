"""The progress bar of reading shards."""

from __future__ import annotations

from types import TracebackType

from peirce.progress import progress_bars
from rich.console import Console


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
        self._doing = doing
        self._count = 0
        self._bars = progress_bars(console if console.is_terminal else None)
        self._task = self._bars.add_task(doing, total=shards, shown="")

    def __enter__(self) -> Tokenizing:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def start(self, name: str) -> None:
        """A shard is begun."""
        self._bars.update(self._task, description=f"{self._doing} {name}")

    def advance(self, count: int) -> None:
        """So much more has been read."""
        self._count += count
        self._bars.update(self._task, shown=f"{self._count:,} {self._unit}")

    def done(self) -> None:
        """The shard is done."""
        self._bars.advance(self._task)

    def say(self, text: str) -> None:
        """Print a line, whether or not there is a bar."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

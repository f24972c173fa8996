"""The progress bar of a training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class Bar:
    """A progress bar with loss and learning rate, where there is a console."""

    def __init__(self, console: Console | None, total: int, done: int) -> None:
        self._bar: Any = None
        if console is not None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[shown]}"),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._bar.add_task("training", total=total, completed=done, shown="")

    def __enter__(self) -> Bar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it another progress bar may be shown."""
        if self._bar is None:
            yield
            return
        self._bar.live.transient = True  # wiped away, and drawn again below what is printed meanwhile
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.live.transient = False
            self._bar.start()

    def update(self, step: int, loss: float, rate: float) -> None:
        """Show where the training is."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step, shown=f"loss {loss:.4f}  rate {rate:.2e}")

"""The progress bar of a training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from peirce.progress import progress_bars

if TYPE_CHECKING:
    from rich.console import Console


class TrainingBar:
    """A progress bar with loss and learning rate, where there is a console."""

    def __init__(self, console: Console | None, total: int, done: int) -> None:
        self._bars = progress_bars(console, kept=True)
        self._task = self._bars.add_task("training", total=total, completed=done, shown="")

    def __enter__(self) -> TrainingBar:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it another progress bar may be shown."""
        self._bars.live.transient = True  # wiped away, and drawn again below what is printed meanwhile
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.live.transient = False
            self._bars.start()

    def update(self, step: int, loss: float, rate: float) -> None:
        """Show where the training is."""
        self._bars.update(self._task, completed=step, shown=f"loss {loss:.4f}  rate {rate:.2e}")

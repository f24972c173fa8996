"""Learning curves: TensorBoard while a training runs, a picture at its end."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peirce.files import write_whole

PICTURE, EVENTS = "learning-curves.png", "tensorboard"


class Curves:
    """Writes the points of a training's curves to TensorBoard; nothing in processes other than the first.

    Args:
        directory: the training's directory.
        step: the steps done; later points of an interrupted run before this one are struck out.
        active: whether this process writes.
    """

    def __init__(self, directory: Path, step: int, *, active: bool) -> None:
        self._writer: Any = None
        if active:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(directory / EVENTS), purge_step=step + 1)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """One point on each of some curves; values that are no numbers are left out."""
        for name, value in values.items() if self._writer is not None else ():
            if math.isfinite(value):
                self._writer.add_scalar(name, value, step)

    def flush(self) -> None:
        """Make what was added visible to a reader."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Write the rest and stop."""
        if self._writer is not None:
            self._writer.close()


def draw(
    path: Path,
    losses: Sequence[float],
    rates: Sequence[float],
    evaluations: Sequence[Mapping[str, Any]],
    title: str,
) -> None:
    """Draw the loss, its running mean and the learning rate over steps, and what evaluations were judged by.

    Args:
        path: the PNG file to write.
        losses: the loss of each step.
        rates: the learning rate of each step.
        evaluations: each with its `step`, `monitor` and `value`.
        title: what stands above.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6 if evaluations else 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2 if evaluations else 1, 1, sharex=True, squeeze=False)[:, 0]
    steps = np.arange(1, len(losses) + 1)
    above = panels[0]
    above.plot(steps, losses, color="tab:blue", alpha=0.3, linewidth=0.8, label="loss")
    window = max(1, len(losses) // 50)
    if window > 1:
        means = np.convolve(losses, np.full(window, 1 / window), mode="valid")
        above.plot(steps[window - 1 :], means, color="tab:blue", label=f"mean of {window} steps")
    above.set_ylabel("loss")
    above.set_title(title)
    rate = above.twinx()
    rate.plot(steps, rates, color="tab:orange", linewidth=0.9, label="learning rate")
    rate.set_ylabel("learning rate")
    lines = [*above.get_lines(), *rate.get_lines()]
    above.legend(lines, [str(line.get_label()) for line in lines], loc="upper right")
    if evaluations:
        below = panels[1]
        below.plot(
            [e["step"] for e in evaluations], [e["value"] for e in evaluations], marker="o", color="tab:green"
        )
        below.set_ylabel(str(evaluations[0]["monitor"]))
    panels[-1].set_xlabel("step")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_whole(path, picture.getvalue())

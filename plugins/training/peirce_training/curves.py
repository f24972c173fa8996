"""Learning curves: TensorBoard while a training runs, a picture at its end."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, final

import numpy as np

from peirce.files import write_whole

PICTURE, EVENTS = "learning-curves.png", "tensorboard"
LOGS = "events.out.tfevents.*.peirce"


@final
class Curves:
    """Writes the points of a training's curves for TensorBoard.

    Each point is on the disk, whole or not at all, when `add` returns. TensorBoard's own writer has a thread, whose
    failures come late and with a traceback.

    Args:
        directory: the training's directory; None in processes that write nothing.
        step: the steps done; points beyond it, from an interrupted run, are discarded.
    """

    def __init__(self, directory: Path | None, step: int) -> None:
        self._path: Path | None = None
        if directory is not None:
            folder = directory / EVENTS
            folder.mkdir(exist_ok=True)
            name = f"{int(time.time()):010}.{platform.node()}.{os.getpid()}.{time.monotonic_ns()}"
            self._path = folder / LOGS.replace("*", name)
            self._path.touch()
            from tensorboard.compat.proto.event_pb2 import SessionLog

            self._write(file_version="brain.Event:2")
            self._write(step=step + 1, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, values: Mapping[str, float], prefix: str) -> None:
        """One point on each curve `PREFIX/NAME`; NaN and infinity are left out."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        finite = {f"{prefix}/{name}": value for name, value in values.items() if math.isfinite(value)}
        points = [Summary.Value(tag=name, simple_value=value) for name, value in finite.items()]
        self._write(step=step, summary=Summary(value=points))

    def _write(self, **event: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        if self._path is None:
            return
        record, before = BytesIO(), self._path.stat().st_size
        RecordWriter(record).write(Event(wall_time=time.time(), **event).SerializeToString())
        try:
            with self._path.open("ab") as file:
                file.write(record.getvalue())
        except OSError:
            os.truncate(self._path, before)
            raise


def read_curves(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves of a training by name, such as `train/loss`, each point with its step; none where none were written.

    Steps that were repeated after an interruption appear once.
    """
    if not (directory / EVENTS).is_dir() or find_spec("tensorboard") is None:
        return {}
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory / EVENTS), size_guidance={"scalars": 0})
    events.Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in tags}


def draw(
    path: Path,
    losses: Sequence[float],
    rates: Sequence[float],
    evaluations: Sequence[Mapping[str, Any]],
    title: str,
) -> None:
    """Draw the loss, its running mean and the learning rate over steps, and what evaluations were judged by.

    The loss is the loudest line, or its mean where there are many steps; the learning rate lies faint behind it.

    Args:
        path: the PNG file to write.
        losses: the loss of each step.
        rates: the learning rate of each step.
        evaluations: each with its `step`, `monitor` and `value`.
        title: the title of the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6 if evaluations else 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2 if evaluations else 1, 1, sharex=True, squeeze=False)[:, 0]
    steps, axes = np.arange(1, len(losses) + 1), panels[0]
    window = len(losses) // 50
    faint = {"alpha": 0.35, "linewidth": 0.8} if window > 1 else {"linewidth": 2.2}
    axes.plot(steps, losses, color="tab:blue", label="loss", **faint)
    if window > 1:
        means = np.convolve(losses, np.full(window, 1 / window), mode="valid")
        axes.plot(
            steps[window - 1 :], means, color="tab:blue", linewidth=2.2, label=f"mean of {window} steps"
        )
    axes.set(ylabel="loss", title=title)
    rate = axes.twinx()
    rate.plot(steps, rates, color="0.7", linewidth=0.8, linestyle="--", label="learning rate")
    rate.set_ylabel("learning rate", color="0.5")
    rate.tick_params(colors="0.5")
    axes.set_zorder(rate.get_zorder() + 1)  # which is drawn later
    axes.patch.set_visible(False)
    lines = [*axes.get_lines(), *rate.get_lines()]
    axes.legend(lines, [str(line.get_label()) for line in lines], loc="upper right")
    if evaluations:
        places, values = ([each[key] for each in evaluations] for key in ("step", "value"))
        panels[1].plot(places, values, marker="o", color="tab:green")
        panels[1].set_ylabel(str(evaluations[0]["monitor"]))
    panels[-1].set_xlabel("step")
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_whole(path, picture.getvalue())

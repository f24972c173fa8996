"""Learning curves: TensorBoard while a training runs, a picture at its end."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, final

import numpy as np

from peirce.files import write_whole

MOST_COLUMNS = 60
"""The most evaluations that a line of text shows."""
_BARS = "▁▂▃▄▅▆▇█"
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


def interval_means(losses: Sequence[float], evaluations: Sequence[Mapping[str, Any]]) -> list[float]:
    """The mean training loss of the steps before each evaluation, from the one before it on; NaN without a step."""
    steps = [0, *(each["step"] for each in evaluations)]
    return [math.fsum(losses[a:b]) / (b - a) if b > a else math.nan for a, b in pairwise(steps)]


def curve_lines(
    losses: Sequence[float], evaluations: Sequence[Mapping[str, Any]], kept: int | None = None
) -> Iterator[str]:
    """The curves of training and of what was evaluated as lines of text, a column for each evaluation.

    Args:
        losses: the loss of each step.
        evaluations: each with its `step` and `metrics`.
        kept: the step of the evaluation whose model is kept; None for none.
    """
    if len(evaluations) < 2:
        return
    places = np.unique(np.linspace(0, len(evaluations) - 1, MOST_COLUMNS).round().astype(int))
    curves = {"training loss": interval_means(losses, evaluations)}
    for name in evaluations[0]["metrics"]:
        curves[f"validation {name}"] = [float(each["metrics"].get(name, math.nan)) for each in evaluations]
    both = [
        value for name in curves if name.endswith(" loss") for value in curves[name] if math.isfinite(value)
    ]
    for name, curve in curves.items():
        finite = [value for value in curve if math.isfinite(value)]
        scale = both if name.endswith(" loss") else finite
        low, high = min(scale, default=0.0), max(scale, default=0.0)
        shares = [(curve[i] - low) / ((high - low) or 1.0) for i in places]
        bars = "".join(_BARS[round(7 * share)] if math.isfinite(share) else " " for share in shares)
        yield f"{name:{max(map(len, curves))}}  {bars}  {(finite or curve)[0]:.4f} to {curve[-1]:.4f}"
    if kept == 0:
        yield "what the training began with is kept: no evaluation since was better"
    elif kept:
        number = [each["step"] for each in evaluations].index(kept) + 1
        yield f"the model of evaluation {number} of {len(evaluations)}, the best one, is kept (step {kept})"


def draw(
    path: Path,
    losses: Sequence[float],
    rates: Sequence[float],
    evaluations: Sequence[Mapping[str, Any]],
    title: str,
    best: int = 0,
) -> None:
    """Draw the loss, its running mean, that of evaluations and the learning rate over steps; below, other metrics.

    The loss is the loudest line, or its mean where there are many steps; the learning rate lies faint behind it.

    Args:
        path: the PNG file to write.
        losses: the loss of each step.
        rates: the learning rate of each step.
        evaluations: each with its `step`, `monitor`, `value` and `metrics`.
        title: the title of the picture.
        best: the step of the best evaluation; 0 for none.
    """
    from matplotlib.figure import Figure

    places = [each["step"] for each in evaluations]
    curves = {
        name: [each["metrics"].get(name, math.nan) for each in evaluations]
        for name in (evaluations[0]["metrics"] if evaluations else ())
    }
    valid_loss = curves.pop("loss", None)
    judged = evaluations[0]["monitor"] if evaluations else ""
    shares = {k: v for k, v in curves.items() if k == judged or all(0 <= x <= 1 for x in v)}
    count = 1 + bool(shares)
    figure = Figure(figsize=(8, 2 + 2 * count), layout="constrained")
    panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
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
    if valid_loss is not None:
        axes.plot(places, valid_loss, color="tab:orange", marker="o", label="validation loss")
    rate = axes.twinx()
    rate.plot(steps, rates, color="0.7", linewidth=0.8, linestyle="--", label="learning rate")
    rate.set_ylabel("learning rate", color="0.5")
    rate.tick_params(colors="0.5")
    axes.set_zorder(rate.get_zorder() + 1)  # which is drawn later
    axes.patch.set_visible(False)
    lines = [*axes.get_lines(), *rate.get_lines()]
    axes.legend(lines, [str(line.get_label()) for line in lines], loc="upper right")
    for name, values in shares.items():
        panels[1].plot(places, values, marker="o", label=name)
    if shares:
        panels[1].set_ylabel("validation")
        panels[1].legend(loc="lower right")
    for panel in panels if best else ():
        panel.axvline(best, color="0.5", linewidth=0.8, linestyle=":")
    panels[-1].set_xlabel("step")
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_whole(path, picture.getvalue())

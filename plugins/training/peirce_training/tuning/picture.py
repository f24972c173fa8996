"""The picture of a search: how it went, and what each setting gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any

from peirce.files import write_whole
from peirce_training.tuning.axes import Axis

_COLUMNS = 3
_MARKS = {"whole": ("o", "tab:blue"), "ended early": ("x", "0.6")}


def draw(
    path: Path, axes: Sequence[Axis], outcomes: Sequence[Mapping[str, Any]], metric: str, *, maximize: bool
) -> None:
    """Draw the metric of each training in turn, with the best so far, and over each setting.

    Args:
        path: the PNG file to write.
        axes: the settings.
        outcomes: the trainings, each with its `settings`, `state` and `value`.
        metric: what the values are.
        maximize: whether higher ones are better.
    """
    from matplotlib.figure import Figure

    rows = -(-(1 + len(axes)) // _COLUMNS)
    figure = Figure(figsize=(4 * min(_COLUMNS, 1 + len(axes)), 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, min(_COLUMNS, 1 + len(axes)), sharey=True, squeeze=False).flat
    known = [each for each in outcomes if each["value"] is not None]
    whole = [(i, each["value"]) for i, each in enumerate(outcomes, 1) if each["state"] == "whole"]
    first, *others = panels
    if whole:
        numbers, values = zip(*whole, strict=True)
        first.step(
            numbers,
            list(accumulate(values, max if maximize else min)),
            where="post",
            color="tab:orange",
            label="best so far",
        )
    first.set(xlabel="training", ylabel=metric)
    for number, panel in enumerate((first, *others[: len(axes)])):
        axis = axes[number - 1] if number else None
        texts = list(map(str, axis.values)) if axis is not None else []
        for state, (marker, color) in _MARKS.items():
            shown = [
                (i, each) for i, each in enumerate(outcomes, 1) if each in known and each["state"] == state
            ]
            given = [each["settings"][axis.key] if axis is not None else i for i, each in shown]
            places = [texts.index(str(value)) for value in given] if texts else given
            panel.scatter(
                places, [each["value"] for _, each in shown], marker=marker, color=color, label=state
            )
        if axis is not None:
            panel.set_xlabel(axis.key, parse_math=False)
            if texts:
                panel.set_xticks(range(len(texts)), texts, parse_math=False)
            else:
                panel.set_xscale("log" if axis.log else "linear")
                panel.set_xlim(axis.low / 1.1 if axis.log else axis.low, axis.high * (1.1 if axis.log else 1))
    for panel in others[len(axes) :]:
        panel.set_visible(False)
    first.legend(*first.get_legend_handles_labels(), loc="best")
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_whole(path, picture.getvalue())

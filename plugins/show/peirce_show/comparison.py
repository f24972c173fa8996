"""Models side by side: their sizes and work, what they read and give, how they learnt, and how well they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from peirce.compose import summarise
from peirce.registry import Registry
from peirce_show.contents import spec_of
from peirce_show.pages import page
from peirce_show.svg import Markup, element, join_markup, picture, text_of
from peirce_training import read_curves, read_training

WIDTH, NAMES, BARS = 245.0, 78.0, 112.0
"""Points of a column, of the names at its left, and of the longest bar."""
LOSS = "train/loss"
_COLOURS = ("unary", "binary", "place", "head", "gone", "changed", "ink")
_NUMBERS = {
    "parameters": "parameters",
    "flops": "operations of a forward pass (FLOPs)",
    "parameter_bytes": "bytes of parameters",
    "activation_bytes": "bytes written in a forward pass",
}


@frozen(kw_only=True)
class ComparedModel:
    """A model beside others.

    Args:
        name: what it is called there.
        summary: of its spec, as `peirce summary` has it.
        training: task, steps, seconds and losses of a saved model's training; empty where there is no record.
        metrics: by split and name, such as `test accuracy`.
        curves: the points of each curve of its training, as step and value.
    """

    name: str
    summary: Mapping[str, Any]
    training: Mapping[str, Any]
    metrics: Mapping[str, float]
    curves: Mapping[str, Sequence[tuple[int, float]]]


def compare_models(
    sources: Sequence[str], registry: Registry, *, batch: int = 1, length: int | None = None
) -> list[ComparedModel]:
    """What there is to compare of specs, saved models and exported files.

    Args:
        sources: each as `contents.spec_of` takes it.
        registry: where parts are looked up.
        batch, length: of the forward pass; the length is 128 if None, or the most that all of them allow.

    Raises:
        SpecError, ModelFileError, TaskError: one of them cannot be read or composed.
    """
    specs = [spec_of(source, registry) for source in sources]
    length = length or min(128, *(spec.input.max_length for spec in specs))
    names = [spec.name for spec in specs]
    found = []
    for source, spec in zip(sources, specs, strict=True):
        record = (read_training(Path(source)) if Path(source).is_dir() else None) or {}
        training: dict[str, Any] = {
            key: record[key] for key in ("steps", "seconds", "seed", "losses") if key in record
        }
        tested = record.get("metrics", {}).items()
        found.append(ComparedModel(
            name=spec.name if names.count(spec.name) == 1 else source,
            summary=asdict(summarise(spec, batch=batch, length=length, registry=registry)),
            training={"task": record["task"]["name"], **training} if record else {},
            metrics={f"{split} {name}": value for split, values in tested for name, value in values.items()},
            curves=read_curves(Path(source)) if record else {},
        ))  # fmt: skip
    return found


def rows(models: Sequence[ComparedModel]) -> list[list[str]]:
    """The table, a column for each model; rows that all leave empty, and parts that all have alike, are left out."""

    def texts(name: str, each: Mapping[str, Any]) -> str:
        return ", ".join(f"{key} {value}" for key, value in each[name].items())

    found = [["architecture", *(str(each.summary["architecture"]) for each in models)]]
    found.append(["layers", *(str(each.summary["layers"]) for each in models)])
    operators = [dict.fromkeys(row["name"] for row in each.summary["operators"]) for each in models]
    found.append(["operators", *(" ".join(names_of_model) for names_of_model in operators)])
    for key, label in _NUMBERS.items():
        found.append([label, *(f"{each.summary[key]:,}" for each in models)])
    groups = [each.summary["groups"] for each in models]
    for name in dict.fromkeys(name for group in groups for name in group):
        counts = [group.get(name, 0) for group in groups]
        if len({*counts}) > 1:
            found.append([f"parameters of {name}", *(f"{count:,}" if count else "" for count in counts)])
    found += [[name, *(texts(name, each.summary) for each in models)] for name in ("inputs", "outputs")]
    for key in ("task", "steps", "seed", "seconds"):
        found.append([key, *(_number(each.training.get(key, "")) for each in models)])
    losses = [each.training.get("losses", {}).get("final_mean", "") for each in models]
    found.append(["last training loss", *map(_number, losses)])
    for name in dict.fromkeys(name for each in models for name in each.metrics):
        found.append([name, *(_number(each.metrics.get(name, "")) for each in models)])
    return [row for row in found if any(row[1:])]


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def comparison_picture(models: Sequence[ComparedModel]) -> str:
    """Bars for sizes, work and metrics, and the curves of the training loss, as SVG."""
    y, drawn = 4.0, list[Markup]()
    numbers = {label: {each.name: each.summary[key] for each in models} for key, label in _NUMBERS.items()}
    for name in dict.fromkeys(name for each in models for name in each.metrics):
        numbers[name] = {each.name: each.metrics[name] for each in models if name in each.metrics}
    for title, values in numbers.items():
        drawn.append(_bars(title, models, values, y))
        y += 16 + 10 * len(values)
    if curves := {each.name: each.curves[LOSS] for each in models if len(each.curves.get(LOSS, ())) > 1}:
        drawn.append(_curves(models, curves, y))
        y += 124
    names = ", ".join(each.name for each in models)
    first = models[0].summary
    description = (
        f"{'; '.join(_NUMBERS.values())}, at batch {first['batch']} and length {first['length']}, in float32."
    )
    drawn.append(
        text_of(f"batch {first['batch']}, length {first['length']}, float32", 4, y + 5, fill="muted")
    )
    return picture(
        *drawn,
        width=WIDTH,
        height=y + 10,
        title=f"{names} side by side",
        description=description,
        name="comparison",
    )


def _colour(models: Sequence[ComparedModel], name: str) -> str:
    return _COLOURS[[each.name for each in models].index(name) % len(_COLOURS)]


def _bars(title: str, models: Sequence[ComparedModel], values: Mapping[str, float], y: float) -> Markup:
    """A bar for each model, from zero on."""
    most = max(map(abs, values.values())) or 1.0
    drawn = [text_of(title, 4, y + 7, size=7, bold=True)]
    for i, (name, value) in enumerate(values.items()):
        at, long = y + 11 + 10 * i, BARS * max(value, 0.0) / most
        drawn.append(text_of(name, NAMES - 3, at + 6, anchor="end", room=NAMES - 6))
        drawn.append(element("rect", x=NAMES, y=at, width=long, height=7.5, fill=_colour(models, name)))
        label = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        drawn.append(text_of(label, NAMES + long + 3, at + 6, room=WIDTH - NAMES - long - 4))
    return join_markup(drawn)


def _curves(
    models: Sequence[ComparedModel], curves: Mapping[str, Sequence[tuple[int, float]]], y: float
) -> Markup:
    """The training loss of each model over its steps."""
    left, right, top, bottom = 30.0, WIDTH - 6, y + 22, y + 104
    points = [point for curve in curves.values() for point in curve]
    last, low, high = max(x for x, _ in points), min(v for _, v in points), max(v for _, v in points)
    span = (high - low) or 1.0
    drawn = [text_of("training loss", 4, y + 7, size=7, bold=True)]
    drawn.append(
        element("path", d=f"M{left} {top}V{bottom}H{right}", fill="none", stroke="line", stroke_width=0.7)
    )
    for value, at in ((high, top + 4), (low, bottom)):
        drawn.append(text_of(_number(float(value)), left - 3, at, anchor="end", fill="muted"))
    drawn.append(text_of(f"step {last:,}", right, bottom + 9, anchor="end", fill="muted"))
    x = left
    for name, curve in curves.items():
        role = _colour(models, name)
        path = " ".join(
            f"{left + (right - left) * step / last:.1f},{bottom - (bottom - top) * (value - low) / span:.1f}"
            for step, value in curve
        )
        drawn.append(element("polyline", points=path, fill="none", stroke=role, stroke_width=1.2))
        drawn.append(element("rect", x=x, y=y + 12, width=6, height=6, fill=role))
        drawn.append(text_of(name, x + 8, y + 17.5, room=(right - left) / len(curves) - 12))
        x += (right - left) / len(curves)
    return join_markup(drawn)


def comparison_page(models: Sequence[ComparedModel]) -> str:
    """The table and the picture as an HTML page."""
    head, *body = ["", *(each.name for each in models)], *rows(models)
    table = element(
        "table",
        element("thead", element("tr", *(element("th", cell, scope="col") for cell in head))),
        element("tbody", *(
            element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells))
            for name, *cells in body
        )),
    )  # fmt: skip
    return page("Models side by side", Markup(comparison_picture(models)), table)

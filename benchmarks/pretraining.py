"""Masked-language-model curves of a small FOLNet and a BERT of its size, on the same text and steps, in one run.

`python benchmarks/pretraining.py` prints how long it will take, trains one after the other, and writes
`results/pretraining.{csv,json,png}`: the loss by step and by second of training, evaluations not counted.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import define, field
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from measuring import RESULTS, SHARED, machine
from rich.console import Console
from torch import Tensor

import peirce
from peirce.errors import PeirceError
from peirce.files import write_whole
from peirce.model import Model
from peirce.registry import load_spec
from peirce.spec import Spec
from peirce_text.pretraining.recipes import load_recipe
from peirce_text.pretraining.task import Pretraining, PretrainingData, PretrainingOptions
from peirce_text.text.shards import find_shards
from peirce_text.text.training import train_tokenizer
from peirce_training import train, training_options

NAME = "pretraining"
RECIPES = ("folnet-small", "bert-small")
LONG = 1500
"""The steps of the run that is worth keeping."""
WARM, TIMED = 2, 5
"""Steps before an estimate, and steps that it is taken from."""


@define
class Curve:
    """The masked loss of each step and of each evaluation, and the seconds of training that had passed."""

    losses: list[float] = field(factory=list)
    seconds: list[float] = field(factory=list)
    points: list[dict[str, float]] = field(factory=list)
    evaluating: float = 0.0
    since: float = 0.0


class Timed(Pretraining):
    """Pretraining that keeps its curve."""

    def __init__(self, options: PretrainingOptions) -> None:
        super().__init__(options)
        self.curve = Curve()

    def terms(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        curve = self.curve
        if not curve.losses:
            curve.since = time.perf_counter()
        terms = super().terms(model, batch)
        curve.losses.append(float(terms["mlm"].detach()))
        curve.seconds.append(time.perf_counter() - curve.since - curve.evaluating)
        return terms

    def metrics(self, model: Model, data: PretrainingData, split: str) -> Mapping[str, float]:
        curve, start = self.curve, time.perf_counter()
        trained = start - curve.since - curve.evaluating
        metrics = super().metrics(model, data, split)
        curve.points.append({"step": len(curve.losses), "seconds": trained, **metrics})
        curve.evaluating += time.perf_counter() - start
        return metrics


def main() -> None:
    given = parsed()
    torch.set_num_threads(given.threads)
    recipes = [load_recipe(name) for name in RECIPES]
    with nullcontext(given.models) if given.models else tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        files = [given.text / "gutenberg-train.txt.gz"]
        tokenizer = folder / "tokenizer.json"
        train_tokenizer(find_shards(files), tokenizer, vocabulary=recipes[0].vocabulary)
        settings: dict[str, Any] = {
            **recipes[0].task,
            "files": files,
            "valid_files": [given.text / "gutenberg-valid.txt.gz"],
            "tokenizer": str(tokenizer),
            "valid_rows": given.valid_rows,
        }
        settings = {key: list(map(str, v)) if key.endswith("files") else v for key, v in settings.items()}
        options = PretrainingOptions(**settings)
        data = Pretraining(options).prepare()
        specs = [
            load_spec(recipe.spec, recipe.model).replace(Pretraining(options).overrides(data))
            for recipe in recipes
        ]
        device = "cuda" if given.device == "auto" and torch.cuda.is_available() else "cpu"
        announce({spec.name: step_seconds(spec, options, data, device) for spec in specs}, given.steps)
        if given.estimate:
            return
        rows: list[dict[str, Any]] = []
        curves: dict[str, Curve] = {}
        for spec, recipe in zip(specs, recipes, strict=True):
            own = {
                "steps": given.steps,
                "evaluate_every": max(1, given.steps // given.points),
                "save_every": 0,
                "test_split": "",
                "threads": given.threads,
                "device": given.device,
            }
            task = Timed(options)
            result = train(
                spec,
                task,
                training_options({**recipe.train, **own}),
                folder / spec.name,
                seed=given.seed,
                console=Console(stderr=True),
                data=data,
            )
            curves[spec.name] = task.curve
            rows.append(row(spec, result.model, task.curve, options, given))
    keep(given.output, rows, curves)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=LONG, help="of each model")
    parser.add_argument("--points", type=int, default=30, help="evaluations of each model")
    parser.add_argument("--valid-rows", type=int, default=512, help="examples of an evaluation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--text", type=Path, default=SHARED / "data" / "text", help="has gutenberg-{train,valid}.txt.gz"
    )
    parser.add_argument(
        "--device", choices=("cpu", "auto"), default="cpu", help="auto takes a GPU if there is one"
    )
    parser.add_argument(
        "--models", type=Path, help="a folder to keep the trained models in, each a run's folder"
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="the folder of the results")
    parser.add_argument("--estimate", action="store_true", help="only print how long it would take")
    return parser.parse_args()


def step_seconds(spec: Spec, options: PretrainingOptions, data: PretrainingData, device: str) -> float:
    """How long a step takes, from a few."""
    task, model = Pretraining(options), peirce.build(spec, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    start = time.perf_counter()
    for step, batch in enumerate(task.batches(data, "train", 0, 0)):
        if step == WARM:
            start = time.perf_counter()
        if step == WARM + TIMED:
            break
        loss = task.loss(model, {name: tensor.to(device) for name, tensor in batch.items()})
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        float(loss.detach())  # waits for the device
    return (time.perf_counter() - start) / TIMED


def announce(each: Mapping[str, float], steps: int) -> None:
    print("a step takes", ", ".join(f"{seconds:.2f} s ({name})" for name, seconds in each.items()))
    for count in dict.fromkeys((steps, LONG)):
        minutes = sum(each.values()) * count / 60
        print(f"{count} steps of each take about {minutes:.0f} min, evaluations aside", flush=True)


def row(
    spec: Spec, model: Model, curve: Curve, options: PretrainingOptions, given: argparse.Namespace
) -> dict[str, Any]:
    last = curve.points[-1]
    return {
        "model": spec.name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": len(curve.losses),
        "seconds": curve.seconds[-1],
        **{f"valid {name}": last[name] for name in ("mlm_loss", "mlm_accuracy", "pair_accuracy")},
        "rows a step": options.batch_size,
        "tokens a row": options.length,
        "device": str(next(model.parameters()).device),
        "seed": given.seed,
    }


def keep(folder: Path, rows: list[dict[str, Any]], curves: Mapping[str, Curve]) -> None:
    """Write the table of all points, the summary and the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("model", "step", "seconds", "split", "mlm_loss"))
    for name, curve in curves.items():
        for step, (loss, seconds) in enumerate(zip(curve.losses, curve.seconds, strict=True), 1):
            writer.writerow((name, step, f"{seconds:.3f}", "train", f"{loss:.5f}"))
        for point in curve.points:
            writer.writerow(
                (name, point["step"], f"{point['seconds']:.3f}", "valid", f"{point['mlm_loss']:.5f}")
            )
    write_whole(folder / f"{NAME}.csv", table.getvalue())
    report = {
        "schema": f"peirce.benchmark.{NAME}/1",
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "machine": machine(),
        "text": "gutenberg-train.txt.gz, evaluated on gutenberg-valid.txt.gz",
        "rows": rows,
    }
    write_whole(folder / f"{NAME}.json", json.dumps(report, indent=2) + "\n")
    write_whole(folder / f"{NAME}.png", picture(curves, rows))
    print(json.dumps(rows, indent=2))
    print(f"written: {folder / NAME}.csv, .json, .png")


def picture(curves: Mapping[str, Curve], rows: list[dict[str, Any]]) -> bytes:
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    sizes = {r["model"]: r["parameters"] / 1e6 for r in rows}
    for colour, (name, curve) in zip(("tab:blue", "tab:orange"), curves.items(), strict=True):
        window = max(1, len(curve.losses) // 50)
        smooth = np.convolve(curve.losses, np.full(window, 1 / window), mode="valid")
        steps = np.arange(window, len(curve.losses) + 1)
        for panel, at, key in (
            (panels[0], steps, "step"),
            (panels[1], curve.seconds[window - 1 :], "seconds"),
        ):
            panel.plot(at, smooth, color=colour, alpha=0.4, linewidth=0.9)
            panel.plot(
                [p[key] for p in curve.points],
                [p["mlm_loss"] for p in curve.points],
                color=colour,
                marker="o",
                markersize=3,
                label=f"{name}, {sizes[name]:.2f} M parameters",
            )
    panels[0].set_xlabel("step")
    panels[1].set_xlabel("seconds of training")
    panels[0].set_ylabel("loss of a masked token")
    panels[0].legend(title="on other books (pale: in training)")
    figure.suptitle(f"Masked language modelling, seed {rows[0]['seed']}")
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    return content.getvalue()


if __name__ == "__main__":
    try:
        main()
    except PeirceError as error:
        sys.exit(f"error: {error}")

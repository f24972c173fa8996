"""Sequences longer than those seen in training: masked language modelling at 128 tokens, measured at 64 to 512.

A small FOLNet and a transformer of the same size, both with relative positions, are trained on texts of 128 tokens.
Then the same held-out tokens are masked in the same stretches of 512, which the models see whole or in pieces of 64,
128 or 256. A model that uses longer texts well loses nothing by them. Figures go to results/lengths.json, and a picture
to results/lengths.png.

    python benchmarks/lengths.py --text wikitext2-valid.txt.gz
"""

from __future__ import annotations

import argparse
import gzip
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import RESULTS, ROOT, record
from torch import Tensor

from peirce.compose import build
from peirce.model import Model
from peirce.spec import Spec
from peirce_text.text.tokenizer import Tokenizer

TRAINED, LONGEST, LENGTHS = 128, 512, (64, 128, 256, 512)
VOCABULARY, BATCH, STRETCHES, SHARE, IGNORED = 1000, 4, 16, 0.15, -100
TEXT = ROOT.parent / "shared" / "data" / "text" / "wikitext2-valid.txt.gz"
COMMON = """
[model.input]
vocabulary = 1000
max_length = 512
[[model.heads]]
use = "mlm"
"""
SPECS = {
    "folnet jmc.atp, RPE": """
format = 1
[model]
name = "folnet"
architecture = "folnet"
[model.dims]
layers = 2
unary = 48
binary = 8
heads = 4
head_size = 12
[model.operators]
layer = "jmc.atp"
[[model.positions]]
use = "distance"
clip = 16
"""
    + COMMON,
    "transformer, Shaw": """
format = 1
[model]
name = "transformer"
architecture = "transformer"
[model.dims]
layers = 2
unary = 48
heads = 4
[[model.positions]]
use = "shaw"
clip = 16
"""
    + COMMON,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=Path, default=TEXT, help="a text, gzipped or not")
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    if not arguments.text.is_file():
        raise SystemExit(f"there is no text {arguments.text}; give one with --text")
    train, held, tokenizer = tokens(arguments.text)
    rows: list[dict[str, Any]] = []
    for name, text in SPECS.items():
        model, seconds = trained(Spec.from_toml(text), train, tokenizer, arguments.steps)
        for length in LENGTHS:
            row = {
                "model": name,
                "trained at": TRAINED,
                "length": length,
                "loss": loss(model, held, tokenizer, length),
            }
            rows.append({**row, "steps": arguments.steps, "training s": seconds})
    record("lengths", rows)
    draw(rows, RESULTS / "lengths.png")


def tokens(path: Path) -> tuple[Tensor, Tensor, Tokenizer]:
    """The ids to train on, the held-out ones, and the tokenizer that made them, trained on the first."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    cut = len(lines) * 9 // 10
    tokenizer = Tokenizer.train(lines[:cut], vocabulary=VOCABULARY)
    parts = [
        torch.tensor([i for ids in tokenizer.pieces_of(part) for i in ids])
        for part in (lines[:cut], lines[cut:])
    ]
    return parts[0], parts[1], tokenizer


def masked(ids: Tensor, tokenizer: Tokenizer, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    chosen = torch.rand(ids.shape, generator=generator) < SHARE
    return ids.masked_fill(chosen, tokenizer.mask_id), ids.masked_fill(~chosen, IGNORED)


def trained(spec: Spec, ids: Tensor, tokenizer: Tokenizer, steps: int) -> tuple[Model, float]:
    model = build(spec, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(0)
    start = time.perf_counter()
    for step in range(steps):
        places = torch.randint(0, len(ids) - TRAINED, (BATCH,), generator=generator)
        rows = torch.stack([ids[place : place + TRAINED] for place in places])
        inputs, labels = masked(rows, tokenizer, generator)
        optimizer.zero_grad()
        value = model.loss("mlm", model(input_ids=inputs), labels)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 100 == 0:
            print(f"{spec.name} step {step + 1}: loss {value.item():.3f}", flush=True)
    return model.eval(), round(time.perf_counter() - start, 1)


def loss(model: Model, ids: Tensor, tokenizer: Tokenizer, length: int) -> float:
    """The mean loss of the masked tokens, which are the same at every length."""
    stretches = ids[: STRETCHES * LONGEST].view(STRETCHES, LONGEST)
    inputs, labels = masked(stretches, tokenizer, torch.Generator().manual_seed(1))
    total, count = 0.0, 0
    with torch.inference_mode():
        for some, right in zip(
            inputs.view(-1, length).split(4), labels.view(-1, length).split(4), strict=True
        ):
            hidden = int((right != IGNORED).sum())
            total += float(model.loss("mlm", model(input_ids=some), right)) * hidden
            count += hidden
    return round(total / count, 4)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for name in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == name]
        axes.plot([row["length"] for row in own], [row["loss"] for row in own], marker="o", label=name)
    axes.axvline(TRAINED, color="grey", linestyle=":", label="length in training")
    axes.set_xscale("log", base=2)
    axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
    axes.set_xlabel("tokens seen at once")
    axes.set_ylabel(f"masked LM loss (a guess: {math.log(VOCABULARY):.2f})")
    axes.set_ylim(bottom=float(np.floor(min(row["loss"] for row in rows))))
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()

"""Run where peirce-hadamard is installed: compose its parts beside the built-in ones, train, save, load.

Prints one JSON object with what was seen. Argument: the folder to save the model in.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

import peirce

SPEC = """
format = 1
[model]
name = "conjunctions"
architecture = "folnet"
[model.dims]
layers = 2
unary = 16
binary = 6
heads = 2
head_size = 8
[model.input]
vocabulary = 20
max_length = 40
[model.operators]
layer = "jc.ath"
[[model.positions]]
use = "distance"
clip = 4
[[model.positions]]
use = "depth"
opening = 2
closing = 3
deepest = 5
[[model.heads]]
use = "classification"
[model.regularisation]
dropout = 0.0
"""


def train(model: peirce.Model, steps: int) -> list[float]:
    """A few steps on one batch: do the brackets of a sequence close?"""
    ids = torch.tensor([[2, 7, 3, 9, 2, 8, 3], [2, 7, 2, 9, 7, 8, 3]])
    labels = torch.tensor([1, 0])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = model.loss("classification", model(input_ids=ids), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    folder = Path(sys.argv[1])
    model = peirce.build(peirce.Spec.from_toml(SPEC, source="conjunctions.toml"))
    own = {
        name: value.detach().clone()
        for name, value in model.named_parameters()
        if "hadamard" in name or "positions.1." in name
    }
    losses = train(model, 40)
    now = dict(model.named_parameters())
    moved = [name for name, before in own.items() if not torch.equal(before, now[name])]

    model.eval().save(folder)
    again = peirce.load(folder).eval()
    ids = torch.tensor([[2, 7, 3, 1, 1], [2, 2, 7, 3, 3]])
    with torch.no_grad():
        expected, found = model(input_ids=ids), again(input_ids=ids)
    unfused = peirce.load(folder, fuse=False, dtype=torch.float64).eval()
    fused = peirce.load(folder, dtype=torch.float64).eval()
    with torch.no_grad():
        difference = (fused(input_ids=ids)["binary"] - unfused(input_ids=ids)["binary"]).abs().max().item()

    print(
        json.dumps(
            {
                "own": sorted(own),
                "moved": sorted(moved),
                "losses": losses,
                "same": all(torch.equal(expected[name], found[name]) for name in expected),
                "fused_apart": difference,
                "provenance": {k: v for k, v in again.provenance["parts"].items() if "hadamard" in str(v)},
            }
        )
    )


if __name__ == "__main__":
    main()

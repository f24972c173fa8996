"""Generating with cached keys and values, against recomputing the whole text at each token, at 32 to 512 tokens.

Both ways give the same tokens. The cache costs O(T) a token, and O(T^2 d2) where relations are composed (trans).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import peirce
import torch
from measuring import record, seconds

LENGTHS = (32, 64, 128, 256, 512)
LAYERS = ("j.a", "jmc.ap", "jmc.atp")


def model_of(layer: str) -> peirce.Model:
    """folnet-causal with fewer layers, so that the uncached way ends: the ratio does not depend on their number."""
    changes: dict[str, Any] = {"model.dims.layers": 2, "model.input.max_length": 1024}
    changes |= {"model.operators.layer": layer, "model.operators.options": {}}
    if "c" in layer.partition(".")[0]:
        changes["model.operators.options"] = {"cjoin": {"premise": "paper"}}
    return peirce.build(peirce.load_spec("folnet-causal").replace(changes)).eval()


@torch.no_grad()
def ways(model: peirce.Model, length: int) -> dict[str, Callable[[], object]]:
    """One more token after `length - 1` others, from a cached state and by reading all of them."""
    text = torch.randint(0, 32768, (1, length), generator=torch.Generator().manual_seed(0))
    _, cache = model.advance({"input_ids": text[:, :-1]}, {})
    new = {"input_ids": text[:, -1:]}

    @torch.no_grad()
    def cached() -> None:
        model.advance(new, cache)

    @torch.no_grad()
    def whole() -> None:
        model(input_ids=text)

    return {"cached": cached, "whole": whole}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    rows = []
    for layer in LAYERS:
        model = model_of(layer)
        for length in LENGTHS:
            times = seconds(ways(model, length), repeats)
            rows.append(
                {
                    "layer": layer,
                    "tokens": length,
                    "with a memory, ms": times["cached"] * 1e3,
                    "without, ms": times["whole"] * 1e3,
                    "without / with": times["whole"] / times["cached"],
                }
            )
    record("generation", rows)


if __name__ == "__main__":
    main()

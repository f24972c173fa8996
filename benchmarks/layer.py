"""One FOLNet-base layer, fused against unfused: time and peak memory, forward alone and with gradients.

A layer stands in a network of its own, between embeddings and the last norm, as users run it. In inference a fused
layer also works by blocks of rows, which an unfused one does not; `fused, whole` switches the blocks off, so that it
shows what fusion alone gains.

python benchmarks/layer.py [--repeats N] [--batch N] [--length N]
"""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import torch
from measuring import beside, parsed, peak_bytes, record, spread, turns
from torch import Tensor

import peirce
from peirce.model import Model
from peirce.networks import mixing
from peirce.parts import Encoded

VOCABULARY = 1000


def network(*, fuse: bool) -> Model:
    """A network of one layer, without heads, the pooler or dropout."""
    changes = {
        "model.dims.layers": 1,
        "model.heads": [],
        "model.options.pooler": False,
        "model.input.vocabulary": VOCABULARY,
        "model.regularisation.dropout": 0.0,
    }
    return peirce.build(peirce.load_spec("folnet-base", changes), fuse=fuse)


def forward(ids: Tensor, *, fuse: bool, rows: bool = True) -> Callable[[], object]:
    """One pass in inference, by blocks of rows where the layer can, or whole."""
    model = network(fuse=fuse).eval()

    def run() -> Encoded:
        with torch.no_grad():
            return model.network({"input_ids": ids})[0]

    def whole() -> Encoded:
        with patch.object(mixing, "uses_blocks", lambda atoms: False):
            return run()

    return run if rows else whole


def step(ids: Tensor, *, fuse: bool) -> Callable[[], object]:
    """One pass and its gradients."""
    model = network(fuse=fuse).train()

    def run() -> None:
        model.zero_grad()
        encoded, _ = model.network({"input_ids": ids})
        (encoded.unary.sum() + encoded.binary.sum()).backward()

    return run


def main() -> None:
    options = parsed(
        __doc__, 5, ("--batch", {"type": int, "default": 8}), ("--length", {"type": int, "default": 128})
    )
    ids = torch.randint(VOCABULARY, (options.batch, options.length))
    jobs = {
        "forward": {
            "unfused": forward(ids, fuse=False),
            "fused": forward(ids, fuse=True),
            "fused, whole": forward(ids, fuse=True, rows=False),
        },
        "training step": {"unfused": step(ids, fuse=False), "fused": step(ids, fuse=True)},
    }
    rows = []
    for what, ways in jobs.items():
        times = turns(ways, options.repeats)
        peaks = {name: peak_bytes(way) for name, way in ways.items()}
        rows += [
            {
                "what": what,
                "stage": name,
                "batch": options.batch,
                "length": options.length,
                **spread("ms", [1e3 * each for each in times[name]]),
                **beside("time / unfused", times[name], times["unfused"]),
                "peak MiB": peaks[name] / 2**20,
                "peak / unfused": peaks[name] / peaks["unfused"],
            }
            for name in ways
        ]
    record("layer", rows)


if __name__ == "__main__":
    main()

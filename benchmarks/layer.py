"""One FOLNet-base layer, fused against unfused: time and peak memory, forward alone and with gradients.

python benchmarks/layer.py [--repeats N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import peirce
import torch
from measuring import peak_bytes, record, seconds
from peirce.compose import Mixing

BATCH, LENGTH, VOCABULARY = 8, 128, 1000


def stage(fuse: bool) -> tuple[Mixing, tuple[object, ...]]:
    """The mixing stage of a layer, and the arguments that the model gives it."""
    spec = peirce.load_spec(
        "folnet-base",
        {"model.dims.layers": 1, "model.heads": [], "model.input.vocabulary": VOCABULARY},
    )
    model = peirce.build(spec, fuse=fuse).eval()
    (mixing,) = (module for module in model.modules() if isinstance(module, Mixing))
    seen: list[tuple[object, ...]] = []
    handle = mixing.register_forward_pre_hook(lambda module, arguments: seen.append(arguments))
    with torch.no_grad():
        model(
            input_ids=torch.randint(VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
        )
    handle.remove()
    return mixing, seen[0]


def forward(fuse: bool) -> Callable[[], object]:
    """One pass in inference."""
    mixing, arguments = stage(fuse)

    def run() -> object:
        with torch.no_grad():
            return mixing(*arguments)

    return run


def step(fuse: bool) -> Callable[[], object]:
    """One pass and its gradients."""
    mixing, arguments = stage(fuse)
    mixing.train()

    def run() -> None:
        mixing.zero_grad()
        result = mixing(*arguments)
        (result.unary.sum() + result.binary.sum()).backward()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    rows = []
    for what, make in (("forward", forward), ("training step", step)):
        ways = {"unfused": make(False), "fused": make(True)}
        times = seconds(ways, repeats)
        peaks = {name: peak_bytes(way) for name, way in ways.items()}
        rows += [
            {
                "what": what,
                "stage": name,
                "ms": times[name] * 1e3,
                "time / unfused": times[name] / times["unfused"],
                "peak MiB": peaks[name] / 2**20,
                "peak / unfused": peaks[name] / peaks["unfused"],
            }
            for name in ways
        ]
    record("layer", rows)


if __name__ == "__main__":
    main()

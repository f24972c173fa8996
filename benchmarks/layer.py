"""One FOLNet-base layer, fused against unfused: time and peak memory, forward alone and with gradients.

In inference the fused stage also works by blocks of rows, which the unfused one does not; `fused, whole` switches the
blocks off, so that it shows what fusion alone gains. With gradients neither has blocks.

python benchmarks/layer.py [--repeats N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import peirce
import torch
from measuring import peak_bytes, record, seconds
from peirce import compose
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


def whole() -> Callable[[], object]:
    """One pass of the fused stage in inference, without blocks of rows."""
    run = forward(True)

    def without_blocks() -> object:
        kept = compose.blocked
        compose.blocked = lambda atoms: False
        try:
            return run()
        finally:
            compose.blocked = kept

    return without_blocks


def step(fuse: bool) -> Callable[[], object]:
    """One pass and its gradients."""
    mixing, arguments = stage(fuse)
    mixing.train()

    def run() -> None:
        mixing.zero_grad()
        result, _ = mixing(*arguments)
        (result.unary.sum() + result.binary.sum()).backward()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    rows = []
    for what, make in (("forward", forward), ("training step", step)):
        ways = {"unfused": make(False), "fused": make(True)}
        if make is forward:
            ways["fused, whole"] = whole()
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

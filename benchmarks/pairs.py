"""Pair biases of logirpe against a direct gather of every vector: time and peak memory, forward and backward.

python benchmarks/pairs.py [--repeats N]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from direct_gather import direct_mix, direct_scores
from measuring import beside, parsed, peak_bytes, record, spread, turns
from torch import Tensor

from peirce.kernels import pair_products, pair_scores, pair_values
from peirce.parts import Dims, Tokens
from peirce_kg.parts.positions.logirpe import LogiRPE

HEADS, HEAD_SIZE = 16, 25
CASES = ((256, 20, False), (256, 20, True), (8, 128, False), (8, 128, True))
"""Batch, length, and whether the heads share their vectors."""
WAYS = ("direct", "chosen", "bucket", "blocked")


@contextmanager
def only(way: str) -> Iterator[None]:
    """Let the kernels use one of its two ways, whatever the sizes."""
    choice = pair_products.by_bucket
    if way in ("bucket", "blocked"):
        pair_products.by_bucket = lambda *sizes: way == "bucket"
    try:
        yield
    finally:
        pair_products.by_bucket = choice


def step(way: str, position: LogiRPE, tokens: Tokens, query: Tensor) -> None:
    """Scores, softmax, sum of values, and all gradients."""
    score, mix = (direct_scores, direct_mix) if way == "direct" else (pair_scores, pair_values)
    with only(way):
        [bias] = position.pairs(tokens)
        mix(score(query, bias).softmax(2), bias).square().sum().backward()
    query.grad = None
    position.zero_grad()


def measure(batch: int, length: int, share_heads: bool, repeats: int) -> list[dict[str, object]]:
    """Time and peak memory of each way, and their ratios to the direct gather."""
    torch.manual_seed(0)
    dims = Dims(
        layers=1, unary=HEADS * HEAD_SIZE, heads=HEADS, head_size=HEAD_SIZE, feedforward_unary=1, vocabulary=1
    )
    options = LogiRPE.Options(share_heads=share_heads)
    position = LogiRPE(options, dims)
    kinds = torch.randint(options.kinds, (batch, length))
    tokens = Tokens({"token_kinds": kinds}, None, torch.arange(length).unsqueeze(0), length)
    query = torch.randn(batch, length, HEADS, HEAD_SIZE, requires_grad=True)
    ways = {way: lambda way=way: step(way, position, tokens, query) for way in WAYS}
    times = turns(ways, repeats)
    peaks = {name: peak_bytes(way) for name, way in ways.items()}
    return [
        {
            "batch": batch,
            "length": length,
            "heads": "shared" if share_heads else "own",
            "way": way,
            **spread("ms", [1e3 * each for each in times[way]]),
            **beside("time / direct", times[way], times["direct"]),
            "peak MiB": peaks[way] / 2**20,
            "peak / direct": peaks[way] / peaks["direct"],
        }
        for way in WAYS
    ]


def main() -> None:
    repeats = parsed(__doc__, 5).repeats
    record("pairs", [row for case in CASES for row in measure(*case, repeats)])


if __name__ == "__main__":
    main()

"""Pair biases of logirpe against a direct gather of every vector: time and peak memory, forward and backward.

The direct gather looks up a whole [b, x, y, g, s] tensor, which Peirce never holds; it lives here alone, as
the peer. Peak memory is the largest sum of live bytes above the start, from the allocator's events as torch's
profiler records them, temporaries inside kernels included.

    python benchmarks/pairs.py [--json] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from peirce import pairs
from peirce.components import Dims, Tokens
from peirce.pairs import PairBias
from peirce_plugins.positions import LogiRPE
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

HEADS, HEAD_SIZE = 16, 25
CASES = ((256, 20, False), (256, 20, True), (8, 128, False), (8, 128, True))
"""Batch, length, and whether the heads share their vectors."""
WAYS = ("direct", "chosen", "bucket", "blocked")

Scores = Callable[[Tensor, PairBias], Tensor]


def direct_vectors(table: Tensor, bias: PairBias) -> Tensor:
    """[b or 1, x, y, g, s] (or [b or 1, x, y, h] for scores), whole."""
    if bias.rows is None:
        return table[0][bias.ids]
    return table[bias.rows.unsqueeze(2), bias.ids]


def direct_scores(query: Tensor, bias: PairBias) -> Tensor:
    """What `peirce.pairs.scores` computes, by a direct gather."""
    total = query.new_zeros(())
    if bias.key is not None:
        vectors = direct_vectors(bias.key, bias)
        total = (
            (query.unsqueeze(2) * vectors).sum(4) if vectors.shape[3] > 1 else vectors.squeeze(3) @ query.mT
        )
    if bias.score is not None:
        total = total + direct_vectors(bias.score, bias)
    return total.expand(query.shape[0], -1, -1, -1)


def direct_mix(weights: Tensor, bias: PairBias) -> Tensor:
    """What `peirce.pairs.mix` computes, by a direct gather."""
    assert bias.value is not None
    vectors = direct_vectors(bias.value, bias)
    if vectors.shape[3] == 1:
        return weights.mT @ vectors.squeeze(3)
    return (weights.unsqueeze(4) * vectors).sum(2)


@contextmanager
def only(way: str) -> Iterator[None]:
    """Let `peirce.pairs` use one of its two ways, whatever the sizes."""
    choice = pairs.by_bucket
    if way in ("bucket", "blocked"):
        pairs.by_bucket = lambda *sizes: way == "bucket"
    try:
        yield
    finally:
        pairs.by_bucket = choice


def step(way: str, position: LogiRPE, tokens: Tokens, query: Tensor) -> None:
    """Scores, softmax, sum of values, and all gradients."""
    score, mix = (direct_scores, direct_mix) if way == "direct" else (pairs.scores, pairs.mix)
    with only(way):
        [bias] = position.pairs(tokens)
        mix(score(query, bias).softmax(2), bias).square().sum().backward()
    query.grad = None
    position.zero_grad()


def peak_bytes(run: Callable[[], None]) -> int:
    """The largest sum of live bytes above the start."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def measure(batch: int, length: int, share_heads: bool, repeats: int) -> dict[str, object]:
    """Milliseconds (median) and peak bytes of each way, and their ratios to the direct gather."""
    torch.manual_seed(0)
    dims = Dims(
        layers=1, unary=HEADS * HEAD_SIZE, heads=HEADS, head_size=HEAD_SIZE, feedforward_unary=1, vocabulary=1
    )
    options = LogiRPE.Options(share_heads=share_heads)
    position = LogiRPE(options, dims)
    kinds = torch.randint(options.kinds, (batch, length))
    tokens = Tokens({"token_kinds": kinds}, None, torch.arange(length).unsqueeze(0), length)
    query = torch.randn(batch, length, HEADS, HEAD_SIZE, requires_grad=True)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    peaks = {}
    for way in WAYS:
        step(way, position, tokens, query)
        peaks[way] = peak_bytes(lambda way=way: step(way, position, tokens, query))
    for _ in range(repeats):  # interleaved, so that a busy machine slows all ways alike
        for way in WAYS:
            start = time.perf_counter()
            step(way, position, tokens, query)
            times[way].append((time.perf_counter() - start) * 1e3)
    result: dict[str, object] = {"batch": batch, "length": length, "share_heads": share_heads}
    base = statistics.median(times["direct"])
    for way in WAYS:
        middle = statistics.median(times[way])
        result[way] = {
            "ms": round(middle, 2),
            "peak_mib": round(peaks[way] / 2**20, 1),
            "time_ratio": round(middle / base, 3),
            "peak_ratio": round(peaks[way] / peaks["direct"], 3),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")
    parser.add_argument("--repeats", type=int, default=5, help="timed steps of each way; the median counts")
    arguments = parser.parse_args()
    results = [measure(*case, arguments.repeats) for case in CASES]
    if arguments.json:
        report = {
            "schema": "peirce.benchmark.pairs/1",
            "memory": "allocator events, torch profiler",
            "threads": torch.get_num_threads(),
            "heads": HEADS,
            "head_size": HEAD_SIZE,
            "cases": results,
        }
        print(json.dumps(report, indent=2))
        return
    header = ("batch", "length", "heads", "way", "ms", "of direct", "peak MiB", "of direct")
    line = "{:>6} {:>7} {:>9} {:>8} {:>9} {:>10} {:>9} {:>10}"
    print(line.format(*header))
    for result in results:
        for way in WAYS:
            row = result[way]
            assert isinstance(row, dict)
            shared = "shared" if result["share_heads"] else "own"
            print(
                line.format(
                    str(result["batch"]), str(result["length"]), shared, way,
                    row["ms"], row["time_ratio"], row["peak_mib"], row["peak_ratio"],
                )
            )  # fmt: skip


if __name__ == "__main__":
    main()

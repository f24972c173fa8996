"""Triton Inference Server: throughput and latency by rows a request and concurrency, dynamic batching on and off.

One encoder of four layers of 256 is exported twice, with and without batching, as models of the kind `python`, and both
are served by the real server of `nvidia-pytriton` on the loopback address, on the CPU, one instance each. So many
clients, each a thread with a connection of gRPC, send request after request for `--seconds`; the two models take turns.
Throughputs are medians of turns, latencies percentiles of all requests. Clients and server share the machine's cores.
Where others use them too, the server's CPU time a row tells most. It needs what `tox -e serve` installs, and
PEIRCE_TRITON_NUMPY.

python benchmarks/serving.py [--repeats N] [--seconds N] [--rows N ...] [--concurrency N ...]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from measuring import ROOT, beside, parsed, record, spread

import peirce

sys.path.append(str(ROOT / "tests" / "support"))
from triton_server import INSTALLED, Server, serving, tensors

SPEC = """
format = 1
[model]
name = "encoder"
architecture = "transformer"
dims = { layers = 4, unary = 256, heads = 4 }
input = { vocabulary = 1000, max_length = 64 }
positions = [{ use = "absolute" }]
heads = [{ use = "classification", classes = 3 }]
"""
LENGTH = 32
KINDS: Mapping[str, int] = {"on": 32, "off": 0}
"""By what dynamic batching is, the most rows of a batch."""


def main() -> None:
    options = parsed(
        __doc__, 9,
        ("--seconds", {"type": float, "default": 1.0, "help": "of each turn"}),
        ("--rows", {"type": int, "nargs": "+", "default": [1, 4]}),
        ("--concurrency", {"type": int, "nargs": "+", "default": [1, 2, 4, 8, 16]}),
    )  # fmt: skip
    if not INSTALLED:
        sys.exit("the server is not installed; `tox -e serve` shows how, and set PEIRCE_TRITON_NUMPY")
    model = peirce.build(peirce.Spec.from_toml(SPEC), seed=0).eval()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as text:
        repository, folder = Path(text, "repository"), Path(text, "server")
        folder.mkdir()
        for kind, most in KINDS.items():
            peirce.export(
                model, path=repository, to="triton", kind="python", name=f"batching_{kind}", max_batch=most
            )
        with serving(repository, folder) as server:
            for count in options.rows:
                ids = np.random.default_rng(0).integers(0, 1000, (count, LENGTH))
                for clients in options.concurrency:
                    rows += asked(server, ids, clients, options)
    record("serving", rows)


def asked(server: Server, ids: np.ndarray, clients: int, options: Any) -> list[dict[str, Any]]:
    """A row for each model, asked in turns."""
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    latencies: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(options.repeats + 1):
        for kind in KINDS:
            before = spent()
            seconds, taken = flood(server, f"batching_{kind}", ids, clients, options.seconds if turn else 0.3)
            costs[kind] += [(spent() - before) / len(taken) / len(ids)] if turn else []
            rates[kind] += [len(taken) * len(ids) / seconds] if turn else []
            latencies[kind] += taken if turn else []
    return [
        {
            "series": f"batching {kind}, {len(ids)} row{'s' * (len(ids) > 1)} a request",
            "rows": len(ids),
            "concurrency": clients,
            "requests": float(len(latencies[kind])),
            **spread("rows / s", rates[kind]),
            **spread("server, ms a row", [1e3 * each for each in costs[kind]]),
            **beside("time / off", costs[kind], costs["off"]),
            **{f"p{part}, ms": 1e3 * float(np.percentile(latencies[kind], part)) for part in (50, 99)},
        }
        for kind in KINDS
    ]


def spent() -> float:
    """CPU seconds of the server and its parts so far."""
    return sum(sum(each.cpu_times()[:2]) for each in psutil.Process().children(recursive=True))


def flood(
    server: Server, model: str, ids: np.ndarray, clients: int, seconds: float
) -> tuple[float, list[float]]:
    """Let so many clients ask at once; the seconds until the last answer, and those of each request."""
    end = time.perf_counter() + seconds

    def ask(_: int) -> list[float]:
        given, taken = tensors({"input_ids": ids}), []
        with closing(server.client()) as client:
            while (begun := time.perf_counter()) < end:
                client.infer(model, given)
                taken.append(time.perf_counter() - begun)
        return taken

    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = [each for own in pool.map(ask, range(clients)) for each in own]
    return time.perf_counter() - begun, found


if __name__ == "__main__":
    main()

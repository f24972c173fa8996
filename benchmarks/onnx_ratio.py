"""folnet-base against bert-base in ONNX Runtime: the ratio of their times beside that of their operations, in one run.

Both as `peirce export` writes them, and as torch traces them, which was so before graphs were rewritten. The encoders
have no heads, whose scores of a vocabulary would hide the layers, and a vocabulary of 1000. The ways take turns;
`ratio` is of the least times, `median ratio` of the medians. `to the goal` is the ratio by 1.25 times that of the
operations.

python benchmarks/onnx_ratio.py [--layers N] [--batch N] [--length N] [--threads N] [--repeats N] [--clock wall|cpu]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import peirce
import torch
from measuring import CLOCKS, operations, record
from peirce_export.onnx.exporter import DEFAULT_OPSET, trace, write
from peirce_export.onnx.optimizer import rewrite

OURS, PEER = "folnet-base", "bert-base"
GOAL = 1.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=list(CLOCKS), default="cpu")
    options = parser.parse_args()
    clock = CLOCKS[options.clock]
    ids = np.random.default_rng(0).integers(0, 1000, (options.batch, options.length))
    small = {"model.dims.layers": options.layers, "model.heads": [], "model.input.vocabulary": 1000}
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        sessions = {}
        for name in (OURS, PEER):
            model = peirce.build(peirce.load_spec(name, small), seed=0).eval()
            with torch.no_grad():
                counts[name] = operations(lambda model=model: model(input_ids=torch.from_numpy(ids)))
            traced = trace(model, DEFAULT_OPSET, "float32")
            for graph in ("traced", "rewritten"):
                file = Path(folder) / f"{name}-{graph}.onnx"
                if graph == "rewritten":
                    rewrite(traced)
                write(traced, file)
                sessions[name, graph] = peirce.Session(file, threads=options.threads)
        times: dict[tuple[str, str], list[float]] = {key: [] for key in sessions}
        for repeat in range(options.repeats + 1):
            for key, session in sessions.items():
                start = clock()
                session.run({"input_ids": ids}, ["pooled"])
                times[key] += [clock() - start] if repeat else []
    work = counts[OURS] / counts[PEER]
    rows: list[dict[str, Any]] = []
    for graph in ("traced", "rewritten"):
        ours, peer = times[OURS, graph], times[PEER, graph]
        ratio = min(ours) / min(peer)
        rows.append(
            {
                "graph": graph,
                "layers": options.layers,
                "batch": options.batch,
                "length": options.length,
                "threads": options.threads,
                "clock": options.clock,
                "folnet s": min(ours),
                "bert s": min(peer),
                "ratio": ratio,
                "median ratio": statistics.median(ours) / statistics.median(peer),
                "operations": work,
                "to the goal": ratio / (GOAL * work),
            }
        )
    record("onnx_ratio", rows)


if __name__ == "__main__":
    main()

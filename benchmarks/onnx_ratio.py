"""folnet-base against bert-base in ONNX Runtime: the ratio of their times beside that of their operations, in one run.

Both as `peirce export` writes them, and as torch traces them, which was so before graphs were rewritten. The encoders
have no heads, whose scores of a vocabulary would hide the layers, and a vocabulary of 1000. `to the goal`
is the ratio by 1.25 times that of the operations.

python benchmarks/onnx_ratio.py [--layers N] [--batch N] [--length N] [--threads N] [--repeats N]
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import beside, operations, parsed, record, spread, turns

import peirce
from peirce_export.onnx.exporter import DEFAULT_OPSET, trace, write
from peirce_export.onnx.optimizer import rewrite

OURS, PEER = "folnet-base", "bert-base"
GOAL = 1.25


def main() -> None:
    sizes = {"--layers": 2, "--batch": 8, "--length": 128}
    options = parsed(__doc__, 5, *((name, {"type": int, "default": size}) for name, size in sizes.items()))
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
        ways = {
            " ".join(key): lambda session=session: session.run({"input_ids": ids}, ["pooled"])
            for key, session in sessions.items()
        }
        times = turns(ways, options.repeats)
    work = counts[OURS] / counts[PEER]
    rows: list[dict[str, Any]] = []
    for graph in ("traced", "rewritten"):
        ours, peer = times[f"{OURS} {graph}"], times[f"{PEER} {graph}"]
        ratio = beside("ratio", ours, peer)
        rows.append(
            {
                "graph": graph,
                "layers": options.layers,
                "batch": options.batch,
                "length": options.length,
                "threads": options.threads,
                **spread("folnet s", ours),
                **spread("bert s", peer),
                **ratio,
                "operations": work,
                "to the goal": ratio["ratio"] / (GOAL * work),
            }
        )
    record("onnx_ratio", rows)


if __name__ == "__main__":
    main()

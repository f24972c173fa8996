"""Operators on relations beside `trans`: time and peak memory of inference and of a training step, by numbers of nodes.

Each stands alone in a layer of the architecture `relational`, with 64 channels of a relation and four heads of 16.

python benchmarks/relations.py [--repeats N] [--batch N] [--nodes N ...] [--clock wall|cpu]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

import peirce
import torch
from measuring import CLOCKS, peak_bytes, record, seconds
from peirce.model import Model

OPERATORS: Mapping[str, Mapping[str, object]] = {
    "trans": {"layer": [{"use": "trans"}]},
    "edge_attention": {"layer": [{"use": "edge_attention"}]},
    "edge_attention, flat": {"layer": [{"use": "edge_attention", "flat": True}]},
    "triangle_multiplication": {"layer": [], "state": ["triangle_multiplication"]},
    "triangle_attention": {"layer": [], "state": ["triangle_attention"]},
    "relation_attention": {"layer": [{"use": "relation_attention"}]},
}


def network(name: str) -> Model:
    """A network of one layer with one operator, without heads or dropout."""
    changes = {
        "model.dims.layers": 1,
        "model.dims.unary": 64,
        "model.heads": [],
        "model.operators": {"state": [], **OPERATORS[name]},
        "model.regularisation.dropout": 0.0,
    }
    return peirce.build(peirce.load_spec("relational-trans", changes))


def infer(model: Model, ids: torch.Tensor) -> None:
    """One pass in inference."""
    with torch.no_grad():
        model.eval().network({"edge_ids": ids})


def train(model: Model, ids: torch.Tensor) -> None:
    """One pass and its gradients."""
    model.train().zero_grad()
    encoded, _ = model.network({"edge_ids": ids})
    (encoded.unary.sum() + encoded.binary.sum()).backward()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--nodes", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    options = parser.parse_args()
    models = {name: network(name) for name in OPERATORS}
    rows = []
    for nodes in options.nodes:
        ids = torch.randint(20, (options.batch, nodes, nodes))
        for what, run in (("forward", infer), ("training step", train)):
            ways = {name: partial(run, model, ids) for name, model in models.items()}
            times = seconds(ways, options.repeats, CLOCKS[options.clock])
            peaks = {name: peak_bytes(way) for name, way in ways.items()}
            rows += [
                {
                    "what": what,
                    "operator": name,
                    "nodes": nodes,
                    "clock": options.clock,
                    "ms": times[name] * 1e3,
                    "time / trans": times[name] / times["trans"],
                    "peak MiB": peaks[name] / 2**20,
                }
                for name in ways
            ]
    record("relations", rows)


if __name__ == "__main__":
    main()

"""Operators on relations beside `trans`: time and peak memory of inference and of a training step, by numbers of nodes.

Each stands alone in a layer of the architecture `relational`, with 64 channels of a relation and four heads of 16.

python benchmarks/relations.py [--repeats N] [--batch N] [--nodes N ...]
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from measuring import beside, parsed, peak_bytes, record, spread, turns

import peirce
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
    nodes = {"type": int, "nargs": "+", "default": [32, 64, 128]}
    options = parsed(__doc__, 5, ("--batch", {"type": int, "default": 1}), ("--nodes", nodes))
    models = {name: network(name) for name in OPERATORS}
    rows = []
    for nodes in options.nodes:
        ids = torch.randint(20, (options.batch, nodes, nodes))
        for what, run in (("forward", infer), ("training step", train)):
            ways = {name: partial(run, model, ids) for name, model in models.items()}
            times = turns(ways, options.repeats)
            peaks = {name: peak_bytes(way) for name, way in ways.items()}
            rows += [
                {
                    "what": what,
                    "operator": name,
                    "nodes": nodes,
                    **spread("ms", [1e3 * each for each in times[name]]),
                    **beside("time / trans", times[name], times["trans"]),
                    "peak MiB": peaks[name] / 2**20,
                }
                for name in ways
            ]
    record("relations", rows)


if __name__ == "__main__":
    main()

"""A training step of TEGA's transformers by their positions: absolute, shaw, logirpe; beside a BERT of their size.

Encoders of the ready specs (3 layers of 400, 16 heads), without the head that ranks entities, on a batch of queries.

python benchmarks/positions.py [--batch N] [--length N] [--repeats N]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from measuring import beside, parsed, peak_bytes, record, spread, turns
from torch import Tensor, nn
from transformers import BertConfig, BertModel

import peirce
from peirce_kg.parts.positions.logirpe import LogiRPE

PEER = "BERT, transformers"
SPECS = {"absolute": "transformer-absolute", "shaw": "transformer-relative", "logirpe": "tega"}
VOCABULARY = 1000
"""A small one: the gradient of a graph's embeddings would hide the layers."""


def main() -> None:
    length = {"type": int, "default": 20, "help": "tokens of a query: 1p has 9, 3in has 33"}
    options = parsed(__doc__, 5, ("--batch", {"type": int, "default": 256}), ("--length", length))
    torch.manual_seed(0)
    size = (options.batch, options.length)
    ids = torch.randint(VOCABULARY, size)
    kinds = torch.randint(LogiRPE.Options().kinds, size)
    models = {name: encoder(spec) for name, spec in SPECS.items()}
    dims = next(iter(models.values())).plan.dims
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=dims.unary,
        num_hidden_layers=dims.layers,
        num_attention_heads=dims.heads,
        intermediate_size=dims.feedforward_unary,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    bert = BertModel(config, add_pooling_layer=False).train()
    ways: dict[str, Callable[[], object]] = {PEER: lambda: step(bert, lambda: bert(ids)[0])}
    for name, model in models.items():
        inputs = {"input_ids": ids} | ({"token_kinds": kinds} if name == "logirpe" else {})
        ways[name] = lambda model=model, inputs=inputs: step(model, lambda: model(**inputs)["unary"])
    times = turns(ways, options.repeats)
    peaks = {name: peak_bytes(way) for name, way in ways.items()}
    record(
        "positions",
        [
            {
                "positions": name,
                "batch": options.batch,
                "length": options.length,
                **spread("ms", [1e3 * each for each in times[name]]),
                **beside("time / BERT", times[name], times[PEER]),
                **beside("time / absolute", times[name], times["absolute"]),
                "peak MiB": peaks[name] / 2**20,
            }
            for name in ways
        ],
    )


def encoder(spec: str) -> peirce.Model:
    changes: Mapping[str, object] = {
        "model.heads": [],
        "model.input.vocabulary": VOCABULARY,
        "model.regularisation.dropout": 0.0,
    }
    return peirce.build(peirce.load_spec(spec, changes)).train()


def step(model: nn.Module, atoms: Callable[[], Tensor]) -> None:
    """A forward pass and its gradients."""
    model.zero_grad()
    atoms().square().mean().backward()


if __name__ == "__main__":
    main()

"""folnet-base against a plain implementation of it and against Hugging Face's BERT base, in one run.

Forward passes are of the whole model with its heads, eager and in ONNX Runtime. A training step, a forward pass and its
gradients, is of encoders of `--step-layers` layers, because the plain one keeps more than 1 GiB for each.
`time / limit` compares with what the matrix products alone would take at this machine's measured peak.

python benchmarks/models.py [--what forward|step] [--repeats N] [--batch N] [--length N] [--layers N]
    [--step-layers N] [--eager]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import peirce
import torch
from measuring import (
    PEAK,
    beside,
    limits,
    matrix_product,
    operations,
    parsed,
    peak_bytes,
    record,
    spread,
    turns,
)
from plain_folnet import PlainFolNet
from torch import Tensor, nn
from transformers import BertConfig, BertForPreTraining, BertModel

PEER, PLAIN, OURS, OURS_ONNX = (
    "BERT base, transformers",
    "folnet-base, plain",
    "folnet-base",
    "folnet-base, ONNX Runtime",
)
STEP_VOCABULARY = 1000
"""Of the encoders that take training steps: the gradient of a large one's embeddings would hide the layers."""


def main() -> None:
    both = ["forward", "step"]
    options = parsed(
        __doc__, 5,
        ("--what", {"nargs": "+", "choices": both, "default": both}),
        ("--batch", {"type": int, "default": 8}),
        ("--length", {"type": int, "default": 128}),
        ("--layers", {"type": int, "default": 2, "help": "of the models whose forward pass is measured"}),
        ("--step-layers", {"type": int, "default": 1, "help": "of the encoders that are trained"}),
        ("--eager", {"action": "store_true", "help": "leave ONNX Runtime out"}),
    )  # fmt: skip
    torch.manual_seed(0)
    ids = torch.randint(STEP_VOCABULARY, (options.batch, options.length))
    rows = forward(ids, options) if "forward" in options.what else []
    rows += training_step(ids, options) if "step" in options.what else []
    record("models", rows)


def forward(ids: Tensor, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A pass of the whole models, without gradients."""
    size = {"model.dims.layers": options.layers}
    bert = BertForPreTraining(BertConfig(vocab_size=32776, num_hidden_layers=options.layers)).eval()
    ours = {name: peirce.build(peirce.load_spec(name, size)).eval() for name in (OURS, "bert-base")}
    plain = PlainFolNet(ours[OURS]).eval()
    ways: dict[str, Callable[[], object]] = {
        PEER: lambda: bert(ids),
        "bert-base": lambda: ours["bert-base"](input_ids=ids),
        PLAIN: lambda: plain(ids),
        OURS: lambda: ours[OURS](input_ids=ids),
    }
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        agree(ours[OURS](input_ids=ids), plain(ids))
        if not options.eager:
            file = Path(folder) / "folnet-base.onnx"
            peirce.export(ours[OURS], to="onnx", path=file)
            session = peirce.Session(file, threads=torch.get_num_threads())
            ways[OURS_ONNX] = lambda: session.run({"input_ids": ids.numpy()})
        return compared("forward", options.layers, ways, options)


def training_step(ids: Tensor, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A pass of encoders of a few layers, and its gradients."""
    layers = options.step_layers
    spec = peirce.load_spec(
        "folnet-base",
        {
            "model.dims.layers": layers,
            "model.heads": [],
            "model.input.vocabulary": STEP_VOCABULARY,
            "model.regularisation.dropout": 0.0,
        },
    )
    ours = peirce.build(spec).train()
    plain = PlainFolNet(ours).train()
    config = BertConfig(
        vocab_size=STEP_VOCABULARY,
        num_hidden_layers=layers,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    bert = BertModel(config).train()

    def step(model: nn.Module, outputs: Callable[[], Mapping[str, Tensor]]) -> None:
        model.zero_grad()
        sum(value.square().mean() for value in outputs().values()).backward()

    ways: dict[str, Callable[[], object]] = {
        PEER: lambda: step(bert, lambda: bert(ids)),
        PLAIN: lambda: step(plain, lambda: plain(ids)),
        OURS: lambda: step(ours, lambda: ours(input_ids=ids)),
    }
    return compared("training step", layers, ways, options)


def agree(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    """The two implementations are of one network."""
    for name, value in one.items():
        error = float((value - other[name]).abs().max() / value.abs().max())
        if not error < 1e-4:
            raise SystemExit(f"the plain implementation's {name} differs from Peirce's by {error:.1e}")


def compared(
    what: str, layers: int, ways: Mapping[str, Callable[[], object]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Time, peak memory and what the operations alone would take."""
    times = turns({PEAK: matrix_product(), **ways}, options.repeats)
    peaks = {name: peak_bytes(way) for name, way in ways.items() if name != OURS_ONNX}
    counts = {name: operations(ways[name]) for name in (PEER, PLAIN)}
    counts[OURS] = counts[OURS_ONNX] = counts[PLAIN]
    counts["bert-base"] = counts[PEER]
    return [
        {
            "what": what,
            "model": name,
            "layers": layers,
            "batch": options.batch,
            "length": options.length,
            **spread("seconds", times[name]),
            **beside("time / BERT", times[name], times[PEER]),
            **beside("time / plain", times[name], times[PLAIN]),
            "operations / BERT": counts[name] / counts[PEER],
            **beside("time / limit", times[name], limits(times[PEAK], counts[name])),
            "peak MiB": peaks[name] / 2**20 if name in peaks else None,
        }
        for name in ways
    ]


if __name__ == "__main__":
    main()

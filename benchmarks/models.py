"""folnet-base against a plain implementation of it and against Hugging Face's BERT base, in one run.

Encoders without heads, whose scores of a vocabulary would hide the layers, and a vocabulary of 1000: forward passes of
`--layers`, and training steps, which are a pass and its gradients, of `--step-layers`, since the plain one keeps more
than 1 GiB for each. `time / limit` compares with what the matrix products alone would take as torch makes a large one.
With `--threads N` time is on the clock, `time / one thread` compares with one thread in the same turns, and the results
are in `models-threads.json`.

python benchmarks/models.py [--what forward|step] [--repeats N] [--batch N] [--length N] [--layers N]
    [--step-layers N] [--threads N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

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
from transformers import BertConfig, BertModel

import peirce

PEER, PLAIN, OURS = "BERT base, transformers", "folnet-base, plain", "folnet-base"
VOCABULARY = 1000
Models = dict[str, nn.Module]


def main() -> None:
    both = ["forward", "step"]
    options = parsed(
        __doc__, 5,
        ("--what", {"nargs": "+", "choices": both, "default": both}),
        ("--batch", {"type": int, "default": 8}),
        ("--length", {"type": int, "default": 128}),
        ("--layers", {"type": int, "default": 2, "help": "of the encoders whose forward pass is measured"}),
        ("--step-layers", {"type": int, "default": 1, "help": "of the encoders that are trained"}),
    )  # fmt: skip
    torch.manual_seed(0)
    ids = torch.randint(VOCABULARY, (options.batch, options.length))
    rows = []
    if "forward" in options.what:
        found = models(options.layers)
        with torch.no_grad():
            calls = {name: calling(model.eval(), ids) for name, model in found.items()}
            agree(calls[OURS](), calls[PLAIN]())
            rows += compared("forward", options.layers, calls, options)
    if "step" in options.what:
        found = models(options.step_layers)
        del found["bert-base"]
        steps = {name: stepping(model.train(), calling(model, ids)) for name, model in found.items()}
        rows += compared("training step", options.step_layers, steps, options)
    record("models" if options.threads == 1 else "models-threads", rows)


def models(layers: int) -> Models:
    """The encoders, without dropout."""
    changes = {
        "model.dims.layers": layers,
        "model.heads": [],
        "model.input.vocabulary": VOCABULARY,
        "model.regularisation.dropout": 0.0,
    }
    config = BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    ours = peirce.build(peirce.load_spec(OURS, changes))
    bert = peirce.build(peirce.load_spec("bert-base", changes))
    return {PEER: BertModel(config), "bert-base": bert, PLAIN: PlainFolNet(ours), OURS: ours}


def calling(model: nn.Module, ids: Tensor) -> Callable[[], Mapping[str, Tensor]]:
    """A pass of a model."""
    return (lambda: model(input_ids=ids)) if isinstance(model, peirce.Model) else (lambda: model(ids))


def stepping(model: nn.Module, outputs: Callable[[], Mapping[str, Tensor]]) -> Callable[[], None]:
    """A pass and its gradients."""

    def step() -> None:
        model.zero_grad()
        sum(value.square().mean() for value in outputs().values()).backward()

    return step


def with_threads(ways: Mapping[str, Callable[[], object]], count: int) -> dict[Any, Callable[[], object]]:
    """The ways, and where there are several threads each with one thread as well, by its name and 1."""

    def on(threads: int, way: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            torch.set_num_threads(threads)
            way()
            torch.set_num_threads(count)

        return run

    if count == 1:
        return dict(ways)
    alone = {(name, 1): on(1, way) for name, way in ways.items()}
    return {**ways, **alone}


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
    times = turns(with_threads({PEAK: matrix_product(), **ways}, options.threads), options.repeats)
    peaks = {name: peak_bytes(way) for name, way in ways.items()}
    counts = {name: operations(ways[name]) for name in (PEER, PLAIN)}
    counts |= {OURS: counts[PLAIN], "bert-base": counts[PEER]}
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
            **({} if options.threads == 1 else beside("time / one thread", times[name], times[name, 1])),
            "peak MiB": peaks[name] / 2**20,
        }
        for name in ways
    ]


if __name__ == "__main__":
    main()

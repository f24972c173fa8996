"""A FOLNet-base layer and a BERT-base layer in bfloat16: autocast, and bfloat16 weights, each beside its own float32.

A layer stands in an encoder of its own, between embeddings and the last norm. Errors are those of the unary atoms of a
forward pass to float32's, as root mean squares. Processors without `avx512_bf16` or AMX compute bfloat16 products
slower than float32 ones.

python benchmarks/bfloat16.py [--repeats N] [--threads N] [--batch N] [--length N]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from layer import VOCABULARY, network
from measuring import beside, parsed, peak_bytes, record, spread, turns
from torch import Tensor, nn
from transformers import BertConfig, BertModel

PRECISIONS = ("float32", "autocast", "bfloat16 weights")


def folnet() -> tuple[nn.Module, Callable[[nn.Module, Tensor], list[Tensor]]]:
    """The layer, and its unary and binary atoms."""

    def atoms(model: nn.Module, ids: Tensor) -> list[Tensor]:
        outputs = model(input_ids=ids)
        return [outputs["unary"], outputs["binary"]]

    return network(fuse=True), atoms


def bert() -> tuple[nn.Module, Callable[[nn.Module, Tensor], list[Tensor]]]:
    """The layer, and what it gives to each token."""
    config = BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertModel(config, add_pooling_layer=False), lambda model, ids: [model(ids)[0]]


def main() -> None:
    options = parsed(
        __doc__, 7, ("--batch", {"type": int, "default": 8}), ("--length", {"type": int, "default": 128})
    )
    torch.manual_seed(0)
    ids = torch.randint(VOCABULARY, (options.batch, options.length))
    forwards: dict[tuple[str, str], Callable[[], list[Tensor]]] = {}
    steps: dict[tuple[str, str], Callable[[], None]] = {}
    for name, make in {"folnet-base": folnet, "BERT base": bert}.items():
        exact, atoms = make()
        for precision in PRECISIONS:
            model, _ = make()
            model.load_state_dict(exact.state_dict())
            model.to(torch.bfloat16 if precision == "bfloat16 weights" else torch.float32).eval()
            autocast = precision == "autocast"

            def run(model: nn.Module = model, atoms=atoms, autocast: bool = autocast) -> list[Tensor]:
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                    return atoms(model, ids)

            def step(model: nn.Module = model, run: Callable[[], list[Tensor]] = run) -> None:
                model.zero_grad()
                sum(each.float().square().mean() for each in run()).backward()

            forwards[name, precision] = torch.no_grad()(run)
            steps[name, precision] = step
    rows = []
    for what, ways in {"forward": forwards, "training step": steps}.items():
        times = turns(ways, options.repeats)
        for (name, precision), way in ways.items():
            own, wanted = (forwards[name, each]()[0].float() for each in (precision, "float32"))
            own_times = times[name, precision]
            rows.append(
                {
                    "what": what,
                    "layer": name,
                    "precision": precision,
                    **spread("ms", [1e3 * each for each in own_times]),
                    **beside("time / float32", own_times, times[name, "float32"]),
                    **beside("time / BERT", own_times, times["BERT base", precision]),
                    "peak MiB": peak_bytes(way) / 2**20,
                    "error": None if precision == "float32" else float((own - wanted).norm() / wanted.norm()),
                }
            )
    record("bfloat16", rows)


if __name__ == "__main__":
    main()

"""How time and memory of each operator grow with the length and with D2, beside what its operations alone would take.

Each operator stands alone in a layer of folnet-base's sizes, for one text. A forward pass is in inference; a training
step is a forward pass and its gradients, up to `--training-length`. Figures go to results/growth.json, and a picture to
results/growth.png: dashed lines are the operations of the matrix products at this machine's measured peak.

python benchmarks/growth.py [--longest N] [--training-length N] [--repeats N]
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from measuring import (
    PEAK,
    RESULTS,
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
from torch import Tensor

import peirce
from peirce.algebra import Predicates, Scope
from peirce_folnet.architectures.folnet import Layer

LENGTHS, WIDTHS = (64, 128, 256, 512, 1024), (16, 32, 64, 128)
LENGTH, WIDTH = 256, 64
"""Where the other size grows."""
LETTERS = {"join": "j.", "mu": "m.", "cjoin": "c.", "assoc": ".a", "prod": ".p", "trans": ".t", "bool": ".a"}
Way = Callable[[], object]


def main() -> None:
    options = parsed(
        __doc__, 3,
        ("--longest", {"type": int, "default": 512}),
        ("--training-length", {"type": int, "default": 256}),
    )  # fmt: skip
    rows = []
    for grows, sizes in (
        ("length", [(length, WIDTH) for length in LENGTHS if length <= options.longest]),
        ("D2", [(min(LENGTH, options.longest), width) for width in WIDTHS]),
    ):
        for length, width in sizes:
            print(f"length {length}, D2 {width}", flush=True)
            for name in LETTERS:
                stage = Stage(name, length, width)
                ways: dict[str, Way] = {"forward": stage.forward}
                if length <= options.training_length:
                    ways["training step"] = stage.step
                times = turns({PEAK: matrix_product(), **ways}, options.repeats)
                count = stage.operations()
                for what, way in ways.items():
                    own = count * (3 if what == "training step" else 1)
                    limit = limits(times[PEAK], own)
                    rows.append(
                        {
                            "grows": grows,
                            "operator": name,
                            "what": what,
                            "length": length,
                            "D2": width,
                            **spread("seconds", times[what]),
                            **spread("limit", limit),
                            **beside("time / limit", times[what], limit),
                            "peak MiB": peak_bytes(way) / 2**20,
                        }
                    )
    record("growth", rows)
    draw(rows, RESULTS / "growth.png")


class Stage:
    """One operator: its norm, what it reads, infers and writes, and the sum with the atoms that were there.

    Args:
        name: the operator.
        length: tokens.
        width: D2.
    """

    def __init__(self, name: str, length: int, width: int) -> None:
        spec = peirce.load_spec(
            "folnet-base",
            {
                "model.dims.layers": 1,
                "model.dims.binary": width,
                "model.heads": [],
                "model.input.vocabulary": 10,
                "model.operators.layer": LETTERS[name],
                "model.regularisation.dropout": 0.0,
            },
        )
        (self.layer,) = cast(list[Layer], list(peirce.build(spec).network.layers))
        self.bool = name == "bool"
        self.state = Predicates(
            torch.randn(1, length, 768, requires_grad=True),
            torch.randn(1, length, length, width, requires_grad=True),
        )

    def forward(self) -> object:
        """In inference, as a layer does it."""
        self.layer.eval()
        with torch.no_grad():
            return self._bool() if self.bool else self._mixing()

    def step(self) -> None:
        """A pass and its gradients."""
        self.layer.train()
        self.layer.zero_grad()
        for atoms in self.state:
            cast(Tensor, atoms).grad = None
        result = self._bool() if self.bool else self._mixing()
        sum(cast(Tensor, atoms).sum() for atoms in result).backward()

    def operations(self) -> int:
        """Operations of the matrix products of a forward pass."""
        layer, state = self.layer, self.state
        self.layer.to("meta")
        self.state = Predicates(
            state.unary.detach().to("meta"), cast(Tensor, state.binary).detach().to("meta")
        )
        count = operations(self._mixing if not self.bool else self._bool)
        self.layer, self.state = layer.to_empty(device="cpu"), state
        return count

    def _mixing(self) -> Predicates:
        layer, state, scope = self.layer, self.state, Scope()
        result, _ = layer.mixing(state, layer.mixing_norm, scope)
        return result

    def _bool(self) -> Predicates:
        assert self.layer.state_norm is not None
        (operator,) = self.layer._states
        increment = operator(self.layer.state_norm(self.state, Scope()), Scope())
        return Predicates(self.state.unary + increment.unary, self.state.binary + increment.binary)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 2, figsize=(11, 12))
    for column, grows in enumerate(("length", "D2")):
        for line, (what, value) in enumerate(
            (("forward", "seconds"), ("training step", "seconds"), ("forward", "peak MiB"))
        ):
            plot = axes[line][column]
            if not any((r["grows"], r["what"]) == (grows, what) for r in rows):
                plot.set_visible(False)
                continue
            for place, name in enumerate(LETTERS):
                own = [r for r in rows if (r["grows"], r["operator"], r["what"]) == (grows, name, what)]
                sizes = [row[grows] for row in own]
                colour = f"C{place}"
                plot.plot(sizes, [row[value] for row in own], marker="o", color=colour, label=name)
                if value == "seconds":
                    limit = [row["limit"] for row in own]
                    plot.plot(sizes, limit, linestyle="--", color=colour, linewidth=0.8)
            plot.set_xscale("log", base=2)
            plot.set_yscale("log")
            ticks = sorted({row[grows] for row in rows if row["grows"] == grows})
            plot.set_xticks(ticks, [str(tick) for tick in ticks])
            plot.set_xlabel(
                f"D2, at {own[0]['length']} tokens" if grows == "D2" else f"tokens, at D2 {WIDTH}"
            )
            plot.set_ylabel(f"{what}: {value}")
    axes[0][0].legend(fontsize=8)
    figure.suptitle(
        "One operator of folnet-base, one text; dashed: its operations at the matrix-product peak"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()

"""new_part: a recurrent operator, which reads tokens one after the other.

A spec with it:

    [model]
    name = "new_part"
    architecture = "recurrent"
    dims = { layers = 1, unary = 64 }
    input = { vocabulary = 1000, max_length = 128 }
    operators = { layer = "new_part" }
    heads = [{ use = "classification", classes = 2 }]
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from peirce.parts import Dims, NoOptions, RecurrentOperator
from torch import Tensor, nn


class NewPart(RecurrentOperator):
    """h = a h + (1 - a) tanh(W x + b): each channel forgets at a rate of its own, a in (0, 1)."""

    name = "new_part"
    source = "leaky integrators (Jaeger et al., 2007), with learned rates"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.content = nn.Linear(dims.unary, dims.recurrent)
        self.rates = nn.Parameter(torch.zeros(dims.recurrent))

    def read(self, atoms: Tensor) -> Tensor:
        """[b, x, d1] -> [b, x, r], all tokens at once."""
        return self.content(atoms).tanh()

    def weights(self) -> Mapping[str, Tensor]:
        """The rates, computed once a pass."""
        return {"a": self.rates.sigmoid()}

    def initial(self) -> Mapping[str, Tensor]:
        """Nothing is remembered."""
        return {"h": torch.zeros_like(self.rates)}

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """One token: the output [b, r] and the next state."""
        h = weights["a"] * state["h"] + (1 - weights["a"]) * read
        return h, {"h": h}

    def reference(self, atoms: list[list[float]], parameters: Mapping[str, Any]) -> list[list[float]]:
        """Token by token, channel by channel, from the tensors of the state dict."""
        weight, bias, rates = (parameters[name] for name in ("content.weight", "content.bias", "rates"))
        h, outputs = [0.0] * len(rates), []
        for atom in atoms:
            for r, rate in enumerate(rates):
                a = 1 / (1 + math.exp(-rate))
                content = math.tanh(sum(w * x for w, x in zip(weight[r], atom, strict=True)) + bias[r])
                h[r] = a * h[r] + (1 - a) * content
            outputs.append(list(h))
        return outputs

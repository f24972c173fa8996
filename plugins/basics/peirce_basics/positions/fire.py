"""fire: a score for each distance by a small network, which sees the distance as a share of the row's position."""

from __future__ import annotations

import math
from typing import Any

import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import at_least_float32
from peirce.kernels import DenseBias
from peirce.parts import (
    Dims,
    Linear,
    PairPosition,
    PlainMap,
    PlainScope,
    Tokens,
    offsets,
    plain_linear,
    plain_relu,
)

EPSILON = 1e-6
"""Added to what distances are divided by, as in the published code."""


@frozen(kw_only=True)
class FireOptions:
    """The network, where it starts, and what shares it.

    Args:
        hidden: its hidden width.
        slope: the initial c, by which distances grow before the logarithm.
        threshold: the initial L, in tokens; rows before it divide by L, so that short texts tell near tokens apart.
        share_layers: whether the layers share one network; it is the paper's FIRE-S.
    """

    hidden: int = field(default=32, validator=validators.ge(1))
    slope: float = field(default=0.1, validator=validators.gt(0))
    threshold: float = field(default=512.0, validator=validators.gt(0))
    share_layers: bool = False


class Fire(PairPosition):
    """score[h](x,y) += f(psi(|x - y|) / psi(max(L, x)))[h], with psi(d) = ln(|c d| + 1).

    f is two linear maps with a ReLU between them; c, L and f are learned. x is the row's position, counted over real
    tokens. The paper is about causal scopes; other distances count by their size, as in its published code.
    """

    name = "fire"
    source = "FIRE (Li et al., 2024), Section 3, eq. 3-7, with its published code"
    Options = FireOptions

    def __init__(self, options: FireOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        banks = 1 if options.share_layers else dims.layers
        self.networks = nn.ModuleList(_Network(options, dims.heads) for _ in range(banks))

    def pairs(self, tokens: Tokens) -> list[DenseBias]:
        """One bias a layer."""
        distance, row = offsets(tokens).abs(), tokens.rows(tokens.index).unsqueeze(2)
        biases = [DenseBias(network(distance, row)) for network in self.networks]
        return biases * self.layers if len(biases) == 1 else biases

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the share of the distance, and the network of one number."""
        name = f"networks.{0 if self.options.share_layers else given['layer']}"
        slope, share = parameters[f"{name}.slope"], parameters[f"{name}.threshold"]

        def score(x: int, y: int) -> Any:
            near, far = abs(x - y), max(abs(share * self.options.threshold), x)
            seen = math.log(abs(slope * near) + 1) / (math.log(abs(slope * far) + 1) + EPSILON)
            hidden = plain_relu(plain_linear([seen], parameters, f"{name}.hidden", self.options.hidden))
            return plain_linear(hidden, parameters, f"{name}.output", dims.heads)

        places = scope.rows
        return {"score": [[score(x, y) for y in places] for x in places]}


class _Network(nn.Module):
    """f, c and L."""

    def __init__(self, options: FireOptions, heads: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(options.slope))
        self.initial = options.threshold
        # L is the initial one times this, which learns at the rate of the other parameters.
        self.threshold = nn.Parameter(torch.ones(()))
        self.hidden = Linear(1, options.hidden)
        self.output = Linear(options.hidden, heads)

    def forward(self, distance: Tensor, row: Tensor) -> Tensor:
        """int64 [b or 1, x, y] and [b or 1, x, 1] -> [b or 1, x, y, h], in float32 at least."""
        slope, share = at_least_float32(self.slope), at_least_float32(self.threshold)

        def psi(values: Tensor) -> Tensor:
            return (slope * values).abs().log1p()

        furthest = torch.maximum(row.to(slope.dtype), (share * self.initial).abs())
        seen = psi(distance.to(slope.dtype)) / (psi(furthest) + EPSILON)
        return self.output(self.hidden(seen.unsqueeze(3)).relu())

"""transformer_xl: sinusoidal vectors of distances inside attention, and what every query asks for."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor, nn

from peirce.algebra import Scope
from peirce.kernels import PairBias, pair_scores
from peirce.parts import (
    Dims,
    PairPosition,
    PlainMap,
    PlainScope,
    Tokens,
    distance_limit,
    offsets,
    plain_linear,
)
from peirce_basics.positions.waves import angles

STD = 0.02
"""Of the initial u and v, as in the published code."""


@frozen(kw_only=True)
class TransformerXLOptions:
    """What the layers share.

    Args:
        share_biases: whether they share u and v; each has a W_R of its own either way. The published code has both.
    """

    share_biases: bool = False


class TransformerXLTerm(NamedTuple):
    """(q + v) . W_R r(x - y) + u . k, of scaled queries and keys.

    Args:
        distances: W_R r for each distance, as keys of their pairs.
        content: u, [h, s].
        position: v, [h, s], scaled as queries are.
    """

    distances: PairBias
    content: Tensor
    position: Tensor

    def part(self, items: slice, rows: slice) -> TransformerXLTerm:
        """The term of some rows x of some examples."""
        return self._replace(distances=self.distances.part(items, rows))

    def score_term(self, query: Tensor, key: Tensor, scores: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h]."""
        asked = (key * self.content.to(key.dtype)).sum(3).unsqueeze(1)
        return pair_scores(query + self.position.to(query.dtype), self.distances) + asked

    def value_term(self, weights: Tensor) -> Tensor | None:
        """Nothing."""
        return None


class TransformerXL(PairPosition):
    """score[h](x,y) += q . W_R r(x - y) + u . k(y) + v . W_R r(x - y), divided by the square root of the head size.

    r(d) has sin(d / 10000 ** (2 i / d1)) in channel i, and the cosines behind the sines. With q . k, which the operator
    gives, these are the four terms of the paper. A text longer than `max_length` is refused before it comes here.
    """

    name = "transformer_xl"
    source = "Transformer-XL (Dai et al., 2019), Section 3.3"
    Options = TransformerXLOptions

    def __init__(self, options: TransformerXLOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers, self.width, self.rate = dims.layers, dims.unary, dims.dropout
        self.longest = dims.max_length
        self.shape = (dims.heads, dims.head_size)
        self.scale = dims.head_size**-0.5
        size = dims.heads * dims.head_size
        self.maps = nn.ModuleList(nn.Linear(dims.unary, size, bias=False) for _ in range(dims.layers))
        banks = 1 if options.share_biases else dims.layers
        self.content = nn.Parameter(torch.randn(banks, *self.shape) * STD)
        self.position = nn.Parameter(torch.randn(banks, *self.shape) * STD)

    def pairs(self, tokens: Tokens) -> list[TransformerXLTerm]:
        """One term a layer, over the distances that the sequence can have."""
        far = distance_limit(self.longest, tokens.length)
        ids = far - offsets(tokens).clamp(-far, far)
        turned = angles(torch.arange(-far, far + 1, device=ids.device), self.width, self.content)
        waves = torch.cat([turned.sin(), turned.cos()], 1)[:, : self.width].to(self.content.dtype)
        waves = F.dropout(waves, self.rate, self.training)
        keys = (each(waves).view(1, -1, *self.shape) for each in self.maps)
        banks = range(self.layers) if len(self.content) > 1 else [0] * self.layers
        return [
            TransformerXLTerm(PairBias(ids, key=key), self.content[bank], self.position[bank] * self.scale)
            for key, bank in zip(keys, banks, strict=True)
        ]

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair and head by head: the three terms beside q . k."""
        layer, places, width = given["layer"], scope.rows, dims.unary
        bank, shape = 0 if self.options.share_biases else layer, (dims.heads, dims.head_size)
        content, position = parameters["content"][bank], parameters["position"][bank]

        def score(x: int, y: int) -> list[float]:
            turned = [(x - y) / 10_000 ** (2 * i / width) for i in range((width + 1) // 2)]
            wave = ([math.sin(t) for t in turned] + [math.cos(t) for t in turned])[:width]
            size = dims.heads * dims.head_size
            far = plain_linear(wave, parameters, f"maps.{layer}", size, bias=False).reshape(shape)
            return [
                sum(
                    (q + v / math.sqrt(dims.head_size)) * r + u * k
                    for q, v, r, u, k in zip(
                        given["query"][x][h], position[h], far[h], content[h], given["key"][y][h], strict=True
                    )
                )
                for h in range(dims.heads)
            ]

        return {"score": [[score(x, y) for y in places] for x in places]}

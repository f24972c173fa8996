"""disentangled: DeBERTa's content-to-position and position-to-content terms of the attention score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.kernels import PairBias
from peirce.parts import (
    Dims,
    PairPosition,
    PlainScope,
    Tokens,
    distance_limit,
    new_table,
    offsets,
    plain_linear,
)


@frozen(kw_only=True)
class DisentangledOptions:
    """Which terms there are, and how many distances.

    Args:
        clip: k; of distances i - j, those from -k to k - 1 are told apart.
        content_to_position: whether x's query meets the key of the distance.
        position_to_content: whether the query of the distance meets y's key.
        converse: `paper` takes the query of the distance from y to x, as eq. 4 does; `code` that from x to y, as the
            published code does.
    """

    clip: int = field(default=64, validator=validators.ge(1))
    content_to_position: bool = True
    position_to_content: bool = True
    converse: Literal["paper", "code"] = field(default="paper", validator=validators.in_(("paper", "code")))


class Disentangled(PairPosition):
    """score(x,y) += q(x) . Kr[delta(x,y)] + k(y) . Qr[delta(y,x)], with Kr = P W_k and Qr = P W_q.

    delta(i,j) = max(0, min(2k - 1, i - j + k)). The layers share P and have W_k and W_q of their own. The terms are
    divided as the rest of the score is; DeBERTa divides all of it by the square root of the number of terms too, which
    is a factor of the query's map and of W_q. Without either term, which is no position, leave the part out.
    """

    name = "disentangled"
    source = "DeBERTa (He et al., 2021), Section 3.1, eq. 2-4; TEGA, Section 4.3 and Appendix H"
    Options = DisentangledOptions

    @classmethod
    def check(cls, options: DisentangledOptions, dims: Dims, scope: str) -> str | None:
        """Why there is nothing to add."""
        if options.content_to_position or options.position_to_content:
            return None
        return "both of its terms are off; leave the position out, and contents meet contents alone"

    def __init__(self, options: DisentangledOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.shape = (dims.heads, dims.head_size)
        self.rate = dims.dropout
        self.distances = new_table(2 * options.clip, dims.unary)
        width = dims.heads * dims.head_size
        banks = range(dims.layers)
        # The biases are those of the published code: a key's would add the same to a row's every score.
        self.keys = nn.ModuleList(
            nn.Linear(dims.unary, width, bias=False) for _ in banks if options.content_to_position
        )
        self.queries = nn.ModuleList(
            nn.Linear(dims.unary, width) for _ in banks if options.position_to_content
        )

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        """One bias a layer, over the distances x - y that the sequence can have."""
        far = distance_limit(self.options.clip, tokens.length)
        ids = far - offsets(tokens).clamp(-far, far)
        table = F.dropout(self.distances.weight, self.rate, self.training)
        forth = torch.arange(-far, far + 1, device=ids.device)
        back = forth if self.options.converse == "code" else -forth
        keys = self._project(self.keys, self._position_vectors(table, forth))
        queries = self._project(self.queries, self._position_vectors(table, back))
        return [PairBias(ids=ids, key=k, query=q) for k, q in zip(keys, queries, strict=True)]

    def _position_vectors(self, table: Tensor, distances: Tensor) -> Tensor:
        """P[delta], [r, d1]."""
        clip = self.options.clip
        return table[(distances + clip).clamp(0, 2 * clip - 1)]

    def _project(self, maps: nn.ModuleList, rows: Tensor) -> list[Tensor | None]:
        """Each layer's vectors [1, r, h, s]; None where the term is off."""
        if not len(maps):
            return [None] * self.layers
        return [each(rows).view(1, rows.shape[0], *self.shape) for each in maps]

    def reference(
        self, given: Mapping[str, Any], scope: PlainScope, parameters: Mapping[str, Any], dims: Dims
    ) -> Mapping[str, Any]:
        """Pair by pair and head by head: both terms."""
        k, table, size = self.options.clip, parameters["distances.weight"], dims.heads * dims.head_size
        shape, layer, converse = (2 * k, dims.heads, dims.head_size), given["layer"], self.options.converse
        keys = queries = None
        if self.options.content_to_position:
            keys = plain_linear(table, parameters, f"keys.{layer}", size, bias=False).reshape(shape)
        if self.options.position_to_content:
            queries = plain_linear(table, parameters, f"queries.{layer}", size).reshape(shape)

        def delta(i: int, j: int) -> int:
            return max(0, min(2 * k - 1, i - j + k))

        def score(x: int, y: int, h: int) -> float:
            total = 0.0
            if keys is not None:
                total += sum(a * b for a, b in zip(given["query"][x][h], keys[delta(x, y)][h], strict=True))
            if queries is not None:
                to = delta(y, x) if converse == "paper" else delta(x, y)
                total += sum(a * b for a, b in zip(given["key"][y][h], queries[to][h], strict=True))
            return total

        places = scope.rows
        return {"score": [[[score(x, y, h) for h in range(dims.heads)] for y in places] for x in places]}

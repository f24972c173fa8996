"""disentangled: DeBERTa's content-to-position and position-to-content terms of the attention score."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import NORM_EPS, Norm
from peirce.kernels import AtomBias, PairBias
from peirce.parts import (
    Dims,
    PairPosition,
    PlainMap,
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
        clip: k; of distances i - j, those from -k to k - 1 are told apart, or so many buckets of them.
        max_distance: distances beyond k / 2 share buckets by their logarithms, up to about this one; each distance has
            its own if it is 0.
        content_to_position: whether x's query meets the key of the distance.
        position_to_content: whether the query of the distance meets y's key.
        converse: `paper` takes the query of the distance from y to x, as eq. 4 does; `code` that from x to y, as the
            published code does.
        norm: whether the vectors of distances are normalised first.
        epsilon: added to their variance.
        share_maps: whether the layer's own maps of queries and keys read the vectors of distances, with their biases;
            otherwise there are maps for these.
    """

    clip: int = field(default=64, validator=validators.ge(1))
    max_distance: int = field(default=0, validator=validators.ge(0))
    content_to_position: bool = True
    position_to_content: bool = True
    converse: Literal["paper", "code"] = field(default="paper", validator=validators.in_(("paper", "code")))
    norm: bool = False
    epsilon: float = field(default=NORM_EPS, validator=validators.gt(0))
    share_maps: bool = False


class Disentangled(PairPosition):
    """score(x,y) += q(x) . Kr[delta(x,y)] + k(y) . Qr[delta(y,x)], with Kr = P W_k and Qr = P W_q.

    delta(i,j) = max(0, min(2k - 1, i - j + k)). The layers share P and have W_k and W_q of their own. The terms are
    divided as the rest of the score is; DeBERTa divides all of it by the square root of the number of terms too, which
    is the transformer's `score_scale`. Without either term, which is no position, leave the part out.

    With `max_distance` = m, a distance d > k / 2 counts as k / 2 + ceil((k / 2 - 1) log(2 d / k) / log(2 (m - 1) / k)),
    at most k, and -d as minus that.
    """

    name = "disentangled"
    source = (
        "DeBERTa (He et al., 2021), Section 3.1, eq. 2-4, and with buckets and shared maps the published code of its "
        "second version; TEGA, Section 4.3 and Appendix H"
    )
    Options = DisentangledOptions

    @classmethod
    def check(cls, options: DisentangledOptions, dims: Dims, scope: str) -> str | None:
        """Why there is nothing to add, or no bucket beyond those of one distance each."""
        if not (options.content_to_position or options.position_to_content):
            return "both of its terms are off; leave the position out, and contents meet contents alone"
        if options.max_distance and not 1 <= options.clip // 2 < options.max_distance - 1:
            return (
                f"max_distance = {options.max_distance} needs clip = 2 or more, and must be above clip / 2 + 1, where "
                f"clip is {options.clip}; set it to 0 for no shared buckets"
            )
        return None

    def __init__(self, options: DisentangledOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.shape = (dims.heads, dims.head_size)
        self.rate = dims.dropout
        self.distances = new_table(2 * options.clip, dims.unary)
        self.norm = Norm(dims.unary, affine=True, epsilon=options.epsilon) if options.norm else None
        width = dims.heads * dims.head_size
        banks = range(0 if options.share_maps else dims.layers)
        # Looked up, never computed from logarithms: rounding would put a distance elsewhere in another runtime.
        self.buckets = [_bucket(options, d) for d in range((options.max_distance or options.clip) + 1)]
        self.register_buffer("bucket_table", torch.tensor(self.buckets), persistent=False)
        # The biases are those of the published code: a key's would add the same to a row's every score.
        self.keys = nn.ModuleList(
            nn.Linear(dims.unary, width, bias=False) for _ in banks if options.content_to_position
        )
        self.queries = nn.ModuleList(
            nn.Linear(dims.unary, width) for _ in banks if options.position_to_content
        )

    def pairs(self, tokens: Tokens) -> list[PairBias] | list[AtomBias]:
        """One bias a layer, over the distances x - y that the sequence can have."""
        options, offset = self.options, offsets(tokens)
        if options.max_distance:
            distance = offset.abs().clamp_max(options.max_distance)
            offset = offset.sign() * self.get_buffer("bucket_table")[distance]
        far = self.buckets[distance_limit(len(self.buckets) - 1, tokens.length)]
        ids = far - offset.clamp(-far, far)
        table = self.distances.weight if self.norm is None else self.norm(self.distances.weight)
        table = F.dropout(table, self.rate, self.training)
        forth = torch.arange(-far, far + 1, device=ids.device)
        back = forth if options.converse == "code" else -forth
        if options.share_maps:
            key = self._position_vectors(table, forth) if options.content_to_position else None
            query = self._position_vectors(table, back) if options.position_to_content else None
            return [AtomBias(ids, key, query)] * self.layers
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

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair and head by head: both terms."""
        options, layer, table = self.options, given["layer"], np.asarray(parameters["distances.weight"])
        k, size, shape = options.clip, dims.heads * dims.head_size, (-1, dims.heads, dims.head_size)
        if options.norm:
            centred = table - table.mean(1, keepdims=True)
            table = centred / np.sqrt((centred**2).mean(1, keepdims=True) + options.epsilon)
            table = table * parameters["norm.weight"] + parameters["norm.bias"]

        def read(name: str, bias: bool) -> Any:
            if options.share_maps:
                return np.asarray(given["read"](table)).reshape(shape)
            return plain_linear(table, parameters, f"{name}.{layer}", size, bias=bias).reshape(shape)

        keys = read("keys", False) if options.content_to_position else None
        queries = read("queries", True) if options.position_to_content else None

        def delta(i: int, j: int) -> int:
            d = i - j
            if options.max_distance and d:
                d = d // abs(d) * _bucket(options, abs(d))
            return max(0, min(2 * k - 1, d + k))

        def score(x: int, y: int, h: int) -> float:
            total = 0.0
            if keys is not None:
                total += sum(a * b for a, b in zip(given["query"][x][h], keys[delta(x, y)][h], strict=True))
            if queries is not None:
                to = delta(y, x) if options.converse == "paper" else delta(x, y)
                total += sum(a * b for a, b in zip(given["key"][y][h], queries[to][h], strict=True))
            return total

        places = scope.rows
        return {"score": [[[score(x, y, h) for h in range(dims.heads)] for y in places] for x in places]}


def _bucket(options: DisentangledOptions, distance: int) -> int:
    """The bucket of a distance, which is not negative."""
    exact = options.clip // 2
    if not options.max_distance or distance <= exact:
        return distance
    share = math.log(distance / exact) / math.log((options.max_distance - 1) / exact)
    return min(options.clip, exact + math.ceil(share * (exact - 1)))

"""t5: a learned number for each head and bucket of distances, added to the attention score."""

from __future__ import annotations

import math

import torch
from attrs import field, frozen, validators

from peirce.kernels import PairBias
from peirce.parts import Dims, PairPosition, PlainMap, PlainScope, Tokens, new_table, offsets


@frozen(kw_only=True)
class T5Options:
    """How distances fall into buckets.

    Args:
        num_buckets: the number of buckets; even where `bidirectional`.
        max_distance: distances from it on share the last bucket.
        bidirectional: half of the buckets for each direction; otherwise all that lies ahead is in the first
            bucket.
    """

    num_buckets: int = field(default=32, validator=validators.ge(2))
    max_distance: int = field(default=128, validator=validators.ge(2))
    bidirectional: bool = True


class T5(PairPosition):
    """score[h](x,y) += table[bucket(y - x), h]; the layers share the table.

    With n buckets a direction, a distance d < n / 2 has a bucket of its own; the others fall into
    n / 2 + floor(log(2 d / n) / log(2 max_distance / n) n / 2), at most n - 1.
    """

    name = "t5"
    source = "T5 (Raffel et al., 2020), Section 2.1, with the buckets of its published code"
    Options = T5Options

    @classmethod
    def check(cls, options: T5Options, dims: Dims, scope: str) -> str | None:
        """Why the buckets cannot be divided."""
        if options.bidirectional and (options.num_buckets % 2 or options.num_buckets < 4):
            return (
                f"num_buckets = {options.num_buckets} does not give each direction two buckets or more; "
                "use an even number from 4 on, or bidirectional = false"
            )
        exact = _buckets_per_direction(options) // 2
        if options.max_distance <= exact:
            return (
                f"max_distance = {options.max_distance} leaves nothing over: the first {exact} distances "
                "have buckets of their own; raise it or lower num_buckets"
            )
        return None

    def __init__(self, options: T5Options, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.table = new_table(options.num_buckets, dims.heads)
        # Looked up, never computed from logarithms: rounding would put a distance elsewhere in another runtime.
        self.register_buffer("buckets", torch.tensor(_buckets(options)), persistent=False)

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        """The same bias for every layer."""
        offset = offsets(tokens)
        far = self.options.max_distance
        distance = offset.abs() if self.options.bidirectional else (-offset).clamp_min(0)
        ids = self.get_buffer("buckets")[distance.clamp_max(far)]
        if self.options.bidirectional:
            ids = ids + (offset > 0).long() * (self.options.num_buckets // 2)
        return [PairBias(ids=ids, score=self.table.weight.unsqueeze(0))] * self.layers

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the bucket of the distance."""
        options, table = self.options, parameters["table.weight"]
        count = options.num_buckets // 2 if options.bidirectional else options.num_buckets

        def bucket(offset: int) -> int:
            distance = abs(offset) if options.bidirectional else max(-offset, 0)
            first = count if options.bidirectional and offset > 0 else 0
            if distance < count // 2:
                return first + distance
            share = math.log(distance / (count // 2)) / math.log(options.max_distance / (count // 2))
            return first + min(count // 2 + int(share * (count - count // 2) + 1e-6), count - 1)

        places = scope.rows
        return {"score": [[table[bucket(y - x)] for y in places] for x in places]}


def _buckets_per_direction(options: T5Options) -> int:
    return options.num_buckets // 2 if options.bidirectional else options.num_buckets


def _buckets(options: T5Options) -> list[int]:
    """The bucket of each distance from 0 to max_distance."""
    count = _buckets_per_direction(options)
    exact = count // 2
    scale = (count - exact) / math.log(options.max_distance / exact)
    # The nudge keeps a whole number whole, such as log 8 / log 2.
    far = (exact + int(math.log(d / exact) * scale + 1e-6) for d in range(exact, options.max_distance + 1))
    return [*range(exact), *(min(bucket, count - 1) for bucket in far)]

"""logirpe: keys and values for each pair of token kinds and each distance, inside attention."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.kernels import PairBias
from peirce.parts import (
    Dims,
    PairPosition,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    distance_limit,
    layer_biases,
    new_table,
    offsets,
)


@frozen(kw_only=True)
class LogiRPEOptions:
    """How large the banks are and what shares them.

    The paper has one bank for keys and one for values, of t x t x n vectors as wide as the whole attention. Hence
    the defaults: every head has vectors of its own and all layers share the banks. With n near 32 and a width of 400
    that is about a million parameters, the order of the differences in its Table 15; a bank for each layer would be
    three.

    Args:
        kinds: t, the number of token kinds. The paper has six (parenthesis, entity, relation, conjunction,
            disjunction, negation); special tokens and padding are a seventh.
        max_distance: n - 1; longer distances count as it, so that a longer query than any trained one has a
            bias.
        terms: `key+value` as in eq. 6-7, or `key` alone.
        share_heads: whether the heads share their vectors.
        share_layers: whether the layers share the banks.
    """

    kinds: int = field(default=7, validator=validators.ge(1))
    max_distance: int = field(default=32, validator=validators.ge(1))
    terms: Literal["key", "key+value"] = "key+value"
    share_heads: bool = False
    share_layers: bool = True


class LogiRPE(PairPosition):
    """score(x,y) += q(x) . K[t_x, t_y, |x - y|] and value(x,y) += V[t_x, t_y, |x - y|].

    t_x is the kind of token x. The kinds are ordered, the distance is unsigned and counted over real tokens.
    The score's term is divided as the rest of the score is.
    """

    name = "logirpe"
    source = "TEGA (Zheng et al., 2025), Section 6.1, eq. 6-8"
    Options = LogiRPEOptions

    def __init__(self, options: LogiRPEOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.shape = (1 if options.share_heads else dims.heads, dims.head_size)
        banks = 1 if options.share_layers else dims.layers
        entries = options.kinds**2 * (options.max_distance + 1)
        width = self.shape[0] * self.shape[1]
        self.keys = nn.ModuleList(new_table(entries, width) for _ in range(banks))
        values = banks if options.terms == "key+value" else 0
        self.values = nn.ModuleList(new_table(entries, width) for _ in range(values))

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The kind of every token."""
        meaning, dims = (
            "The logical kind of each token; special tokens and padding have one of their own.",
            ("batch", "length"),
        )
        return (
            TensorSpec(
                name="token_kinds", dtype="int64", dims=dims, meaning=meaning, high=self.options.kinds
            ),
        )

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        """One bias a layer, over the distances that the sequence can have."""
        kinds = tokens.inputs["token_kinds"]
        far = distance_limit(self.options.max_distance, tokens.length)
        # By distance first: a token in the middle of a text has no long ones, so its buckets have low numbers.
        ids = offsets(tokens).abs().clamp_max(far) * self.options.kinds + kinds.unsqueeze(1)
        keys = [self._vectors(table, far) for table in self.keys]
        values = [self._vectors(table, far) for table in self.values]
        return layer_biases(self.layers, ids, tokens.rows(kinds), keys, values)

    def _vectors(self, table: nn.Module, far: int) -> Tensor:
        """[t, (far + 1) * t, g, s]: the kind of x, then the distance and the kind of y."""
        kinds = self.options.kinds
        bank = table.get_parameter("weight").view(kinds, kinds, self.options.max_distance + 1, -1)
        return bank[:, :, : far + 1].transpose(1, 2).reshape(kinds, kinds * (far + 1), *self.shape)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the vectors of both kinds and the distance."""
        options, kinds, heads, size = self.options, given["token_kinds"], range(dims.heads), dims.head_size
        bank = 0 if options.share_layers else given["layer"]

        def vector(table: str, x: int, y: int, h: int) -> list[float]:
            distance = min(abs(x - y), options.max_distance)
            row = (kinds[x] * options.kinds + kinds[y]) * (options.max_distance + 1) + distance
            own = 0 if options.share_heads else h
            found: list[float] = parameters[f"{table}.{bank}.weight"][row]
            assert len(found) == size * (1 if options.share_heads else dims.heads)
            return found[own * size : (own + 1) * size]

        def score(x: int, y: int, h: int) -> float:
            return sum(q * k for q, k in zip(given["query"][x][h], vector("keys", x, y, h), strict=True))

        places = scope.rows
        found: dict[str, Any] = {"score": [[[score(x, y, h) for h in heads] for y in places] for x in places]}
        if options.terms == "key+value":
            found["value"] = [[[vector("values", x, y, h) for h in heads] for y in places] for x in places]
        return found

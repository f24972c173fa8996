"""A transformer that gains relations: between its layers, others deduce from properties and relations of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, cast

from attrs import evolve, field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Norm, Predicates, Scope
from peirce.errors import PlanError
from peirce.networks import (
    CachedState,
    Mixing,
    Norms,
    Projections,
    binary_output,
    cached_state_specs,
    flatten_layer_cache,
    select_layer_cache,
)
from peirce.parts import (
    Encoded,
    GenerativeArchitecture,
    Plan,
    PlannedOperator,
    StateOperator,
    TensorSpec,
    Tokens,
)
from peirce_basics.architectures.transformer import (
    Layer,
    Transformer,
    TransformerDims,
    TransformerOptions,
    new_input,
)


@frozen(kw_only=True)
class TwoBranchDims(TransformerDims):
    """The sizes of a transformer with relations; every one is a count.

    Args:
        layers, unary, heads, head_size, kv_heads, feedforward, embedding: as `TransformerDims` has them; operators of
            both branches have the heads that attention has.
        binary: width of the relations.
    """

    binary: int = field(default=32, validator=validators.ge(1))


@frozen(kw_only=True)
class TwoBranchOptions(TransformerOptions):
    """How the layers are wired: the options of the transformer, and one more.

    Args:
        from_attention: whether what deduces reads the scores of the layer's attention as relations, through a map.
    """

    from_attention: bool = False


class TwoBranch(GenerativeArchitecture):
    """A transformer whose layers deduce, too: after attention and network, `u += operators(norm u, norm b)`, and b.

    The first operator of a layer that scores pairs and the first that sums values by scores are its attention. The
    others deduce, where there are any. The maps by which they write properties begin at zero, so that a new network
    computes what its transformer does. Those by which they write relations do not, so that everything learns.
    """

    name = "two_branch"
    source = (
        "FOLNet (Chen, 2023), Section 3.3, in a transformer; maps that begin at zero: Bachlechner et al. (2020) and "
        "Zhang et al. (2023), Section 3.1"
    )
    Dims = TwoBranchDims
    Options = TwoBranchOptions
    places = frozenset({"unary", "binary", "pair", "rotary", "scope"})
    branches = "UB"
    layer = "jmc.atp"
    state = ("bool",)
    heterogeneous = True

    @classmethod
    def sizes(cls, options: TwoBranchOptions, dims: TwoBranchDims) -> Mapping[str, int]:
        """Those of the transformer, and the width of relations."""
        return {**Transformer.sizes(options, dims), "binary": dims.binary}

    @classmethod
    def check(cls, options: TwoBranchOptions, dims: TwoBranchDims) -> str | None:
        """What the transformer refuses."""
        return Transformer.check(options, dims)

    @classmethod
    def check_layer(cls, operators: Sequence[PlannedOperator]) -> tuple[PlannedOperator, str] | None:
        """State operators are the transformer's, which keeps no relations."""
        for planned in operators:
            if issubclass(planned.part, StateOperator) and "U" not in planned.part.typing:
                return planned, (
                    f"it updates relations alone, and those of {cls.name!r} are updated by what deduces; leave it out, "
                    "or take the architecture 'folnet'"
                )
        return None

    @classmethod
    def gives(cls, options: TwoBranchOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """Relations always, a pooled output with a pooler."""
        return Transformer.gives(options) | {"binary"}

    def __init__(self, options: TwoBranchOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.plan = plan
        plans = [plan.layer(i) for i in range(plan.dims.layers)]
        divided = [_divide(each.mixing) for each in plans]
        plain = tuple(
            evolve(each.layers[0], mixing=own) for each, (own, _) in zip(plans, divided, strict=True)
        )
        base = evolve(plan, layers=plain)
        given = new_input(options, plan, self.places)
        self.transformer = Transformer(options, evolve(base, dims=evolve(plan.dims, binary=0)), given)
        attends = [layer.attention is not None for layer in cast(list[Layer], self.transformer.rounds())]
        if options.from_attention and not any(attends):
            raise PlanError(
                f"{plan.spec.at('model.options')}: from_attention reads the scores of assoc and join, and no layer has "
                "both; leave it out"
            )
        self.relations = nn.ModuleDict(
            {
                str(i): Deduction(
                    evolve(each, mixing=others),
                    plan.dims.heads if options.from_attention and attends[i] else 0,
                )
                for i, (each, (_, others)) in enumerate(zip(plans, divided, strict=True))
                if others
            }
        )
        self.relation_norm = Norm(plan.dims.binary)

    def begin(self) -> None:
        """Begin as the transformer alone: what is deduced writes no properties yet."""
        for layer in cast(Iterable[Deduction], self.relations.values()):
            for writer in layer.property_writers:
                for parameter in writer.parameters():
                    nn.init.zeros_(parameter)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, mask, token types, and what the parts add."""
        return self.transformer.inputs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        """Both branches, and the pooled output."""
        first, *rest = self.transformer.outputs()
        return (first, binary_output(self.plan.dims.binary), *rest)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, attend and deduce layer by layer, pool."""
        tokens = self.transformer.input.tokens(inputs)
        return self._encode(tokens, None)[0], tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """The tokens before, and each layer's keys and values."""
        kept = [_Cached(layer, self._deduction(i)) for i, layer in enumerate(self.transformer.rounds())]
        return (*self.transformer.input.cached_state(), *cached_state_specs(kept))

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """Infer the atoms of tokens that follow others."""
        tokens, kept = self.transformer.input.following(inputs, cache)
        encoded, layer_cache = self._encode(tokens, cache)
        return encoded, tokens, kept | layer_cache

    def _deduction(self, layer: int) -> Deduction | None:
        """What deduces after a layer of the transformer."""
        return cast(Deduction, self.relations[str(layer)]) if str(layer) in self.relations else None

    def _encode(self, tokens: Tokens, cache: CachedState | None) -> tuple[Encoded, dict[str, Tensor]]:
        """The final atoms of the rows, and what the layers cache."""
        given = self.transformer.input
        scope = given.scope(tokens)
        atoms, binary = self.transformer.begin_atoms(tokens, scope), scope.zero_binary(given.binary(tokens))
        kept: dict[str, Tensor] = {}
        each = zip(self.transformer.rounds(), given.scopes(tokens, scope), given.pairs(tokens), strict=True)
        for i, (layer, its_scope, terms) in enumerate(each):
            own = None if cache is None else select_layer_cache(i, cache)
            deduction = self._deduction(i)
            scores: list[Tensor] | None = [] if deduction and deduction.scores is not None else None
            atoms, layer_cache = layer(atoms, its_scope, terms, own, scores)
            if deduction is not None:
                binary = deduction.read_scores(binary, scores)
                (atoms, binary), deduced = deduction(Predicates(atoms, binary), scope, own)
                layer_cache = {**layer_cache, **deduced}
            kept |= {} if cache is None else flatten_layer_cache(i, layer_cache)
        encoded = self.transformer.end_atoms(atoms, tokens, scope)
        return encoded._replace(binary=scope.zero_binary(self.relation_norm(binary))), kept


class Deduction(nn.Module):
    """One step of deduction: what the operators infer is added to both branches. They own their parameters."""

    def __init__(self, plan: Plan, scores: int) -> None:
        super().__init__()
        projections = [Projections.of(planned, plan.dims) for planned in plan.mixing]
        self.operators = nn.ModuleList(
            nn.ModuleDict({planned.name: each})
            for planned, each in zip(plan.mixing, projections, strict=True)
        )
        self.mixing = Mixing(plan, projections)
        self.norms = Norms(plan.dims)
        self.scores = nn.Linear(scores, plan.dims.binary, bias=False) if scores else None
        self.property_writers = tuple(
            each.output
            for planned, each in zip(plan.mixing, projections, strict=True)
            if planned.output is not None and planned.output.branch == "U"
        )

    def read_scores(self, binary: Tensor, scores: Sequence[Tensor] | None) -> Tensor:
        """The relations [b, x, y, d2] with the scores of the layer's attention, [b, x, y, h], where they are read."""
        return binary if self.scores is None or not scores else binary + self.scores(scores[0])

    def forward(
        self, state: Predicates, scope: Scope, cache: CachedState | None = None
    ) -> tuple[Predicates, CachedState]:
        """Add what the operators infer from the normalised atoms; return keys and values for later tokens too."""
        found = self.mixing(state, self.norms, scope, (), cache)
        return cast(tuple[Predicates, CachedState], found)

    def cached_channels(self) -> dict[str, tuple[str | None, tuple[int, ...]]]:
        """The operators' keys and values, by name: the branch that they are read from, and their channels."""
        return dict(self.mixing.cached_channels())


class _Cached(nn.Module):
    """What a layer of the transformer and its deduction cache, in one table."""

    def __init__(self, layer: nn.Module, deduction: Deduction | None) -> None:
        super().__init__()
        self._layers: list[Any] = [layer, *([deduction] if deduction is not None else [])]

    def cached_channels(self) -> dict[str, Any]:
        """By name: the branch that they are read from, and their channels."""
        return {name: each for layer in self._layers for name, each in layer.cached_channels().items()}


def _divide(
    mixing: Sequence[PlannedOperator],
) -> tuple[tuple[PlannedOperator, ...], tuple[PlannedOperator, ...]]:
    """The operators of a layer of the transformer, and those that deduce.

    The transformer's come first: those of unary atoms alone where a layer begins with such, else the attention.
    """
    plain = [*takewhile(lambda planned: "B" not in planned.branches, mixing)]
    if plain:
        return tuple(plain), tuple(mixing[len(plain) :])
    roles: set[str] = set()
    own, others = [], []
    for planned in mixing:
        role = str(planned.part.pair) if planned.operator else ""
        if role in ("score", "value") and role not in roles:
            roles.add(role)
            own.append(planned)
        else:
            others.append(planned)
    return tuple(own), tuple(others)

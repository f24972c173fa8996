"""A plan: a spec whose parts have been found and fit together, as values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import torch
import torch.nn.functional as F
from attrs import evolve, field, frozen
from torch import Tensor, nn

from peirce.algebra import Attended, Scope
from peirce.errors import PlanError, unusable
from peirce.kernels import PairTerm, Rotation
from peirce.parts.base import Dims
from peirce.parts.operator import AttentionOperator, Branch, PureOperator, Reader, Weight, Writer
from peirce.parts.tokens import Augmenter
from peirce.parts.tracing import annotate_part
from peirce.spec import ScopeSpec, Spec


@frozen(kw_only=True)
class Planned:
    """A part of a plan: the class, its options as read, and where the spec asks for it."""

    kind: str
    name: str
    part: type[Any]
    options: Any
    path: str

    def build(self, dims: Dims) -> Any:
        """The part itself, `cls(options, dims)`.

        Raises:
            PlanError: the part needs a size that the architecture does not have.
        """
        try:
            return self.part(self.options, dims)
        except PlanError as error:
            raise PlanError(unusable(self, error)) from error

    def __str__(self) -> str:
        """The kind and the name, as messages give them."""
        return f"{self.kind.removesuffix('s')} {self.name!r}"


@frozen(kw_only=True)
class PlannedOperator(Planned):
    """An operator of a layer. A state operator has no readings here, and its `operator` and `output` are None."""

    activation: str = "none"
    operator: PureOperator | None = None
    readings: Mapping[str, Reader] = field(factory=dict)
    weights: Mapping[str, Weight] = field(factory=dict)
    output: Writer | None = None

    @property
    def branches(self) -> frozenset[Branch]:
        """The branches that an operator without parameters reads and writes."""
        ends: list[Reader | Writer] = [*self.readings.values(), *filter(None, [self.output])]
        return frozenset(end.branch for end in ends)

    @property
    def scored(self) -> tuple[str, ...]:
        """The readings whose products are scores of pairs: a query and a key, or none."""
        return tuple(self.readings)[:2] if self.part.pair in ("score", "attention") else ()

    def deduce(
        self,
        channels: Sequence[Tensor],
        scope: Scope,
        terms: Sequence[PairTerm | Rotation] = (),
        attended: Attended | None = None,
        weights: Sequence[Tensor] = (),
    ) -> Tensor:
        """What the operator infers, with the terms of pair positions and the activation.

        FOLNet, Appendix E: a bias's key term is prod and its value term mu, with premises that depend on the positions
        alone. Nodes of an exported graph say that they are the operator's own.

        Args:
            channels: one tensor for each of `readings`, in their order.
            scope: who may attend to whom, and the rate at which weights are dropped.
            terms: what positions do, for an operator that says in `pair` where pair terms belong; its queries and keys
                are turned already.
            attended: the module that the weights pass through before they sum values.
            weights: the operator's own, in the order of `weights`.
        """
        operator, pair = self.operator, self.part.pair
        pairs = [term for term in terms if not isinstance(term, Rotation)] if terms else ()
        if isinstance(operator, AttentionOperator):
            query, key, *values = channels
            scores = self._add_score_terms(
                self._call_operator(operator.scores, query, key), query, key, scope, pairs
            )
            if attended is not None and attended.is_read:
                attended(scope.zero_binary(scores), "scores", False)
            attention = scope.softmax(scores)
            attention = attention if attended is None else attended(attention)
            attention = F.dropout(attention, scope.dropout) if scope.dropout else attention
            sums = self._call_operator(operator.attend, attention, [*values, *weights], scope)
            result = _add_value_terms(sums, attention, pairs)
        else:
            assert operator is not None
            first, *others = channels
            if attended is not None:
                first = attended(first)
            result = self._call_operator(operator.infer, first, *others, *weights, scope)
            if pair == "score":
                result = self._add_score_terms(result, first, others[0], scope, pairs)
            elif pair == "value":
                result = _add_value_terms(result, first, pairs)
        return self._activate(result)

    def deduce_fused(
        self, channels: Sequence[Tensor], scope: Scope, weights: Sequence[Tensor]
    ) -> Tensor | None:
        """As `deduce`, by the operator's own kernel, from logits in place of softmax kernels; None if it declines."""
        assert self.operator is not None
        result = self.operator.fused(*channels, *weights, scope)
        return None if result is None else self._activate(result)

    def _activate(self, result: Tensor) -> Tensor:
        if self.activation == "none":
            return result
        # The implication's activation on logits: ln(1 + 2 exp z), or its ReLU bound; FOLNet, eq. 9, 27-29.
        shifted = result + math.log(2.0)
        return F.softplus(shifted) if self.activation == "modus_ponens" else F.relu(shifted)

    def _call_operator(self, method: Callable[..., Tensor], *arguments: object) -> Tensor:
        """Call a method of the operator, and mark the nodes that it makes in an exported graph."""
        if not torch.compiler.is_exporting():
            return method(*arguments)
        with annotate_part(str(self)):
            return method(*arguments)

    def _add_score_terms(
        self, scores: Tensor, query: Tensor, key: Tensor, scope: Scope, terms: Sequence[PairTerm]
    ) -> Tensor:
        """Scores [b, x, a, h] plus those of the terms, which get queries and keys scaled as the scores are."""
        if not terms:
            return scores
        query_reader, key_reader, *_ = self.readings.values()
        query, key = query * key_reader.scale, key * query_reader.scale
        if query.shape[2] != key.shape[2]:
            key = key.repeat_interleave(query.shape[2] // key.shape[2], 2)
        return _add_terms(scores, (term.score_term(query, key, scores, scope) for term in terms))


def _add_value_terms(sums: Tensor, weights: Tensor, terms: Sequence[PairTerm]) -> Tensor:
    """Sums of values [b, x, h, s] plus those of the terms."""
    return _add_terms(sums, (term.value_term(weights) for term in terms))


def _add_terms(total: Tensor, terms: Iterable[Tensor | None]) -> Tensor:
    for each in terms:
        total = total if each is None else total + each
    return total


@frozen(kw_only=True)
class PlannedAugmenter(Planned):
    """An augmenter, and whether a gate scales what it changes."""

    gate: bool

    def build(self, dims: Dims) -> Augmenter:
        """The augmenter, with its gate at zero if it has one.

        Raises:
            PlanError: it has another attribute `gate`, or needs a size that the architecture does not have.
        """
        augmenter: Augmenter = super().build(dims)
        if self.gate:
            if hasattr(augmenter, "gate"):
                raise PlanError(unusable(self, "it has a `gate` of its own; leave `gate = true` out"))
            augmenter.gate, augmenter.has_gate = nn.Parameter(torch.zeros(())), True
        return augmenter


@frozen(kw_only=True)
class PlannedHead(Planned):
    """A head and the prefix of its outputs."""

    prefix: str


@frozen(kw_only=True)
class PlannedLayer:
    """The operators of one layer: those that mix tokens, in the order of the spec, and the state operators behind."""

    mixing: tuple[PlannedOperator, ...]
    state: tuple[PlannedOperator, ...]


@final
@frozen(kw_only=True)
class Plan:
    """A spec whose parts have been found and fit together.

    Args:
        mixing: the operators that mix tokens, in the order of the spec; of all layers, where these differ.
        state: the state operators that follow them, likewise.
        layers: the layers that differ, in their order; they begin again until there are `dims.layers`.
        model_dims: `[model.dims]`, as the architecture's own class.
        dims: the sizes that parts see.
    """

    spec: Spec
    architecture: Planned
    model_dims: Any
    dims: Dims
    mixing: tuple[PlannedOperator, ...]
    state: tuple[PlannedOperator, ...]
    layers: tuple[PlannedLayer, ...]
    positions: tuple[Planned, ...]
    augmenters: tuple[PlannedAugmenter, ...]
    heads: tuple[PlannedHead, ...]
    fuse: bool = True

    @property
    def scope(self) -> ScopeSpec:
        """The kind of scope and whether padding is masked."""
        return self.spec.scope

    def layer(self, number: int) -> Plan:
        """The plan with the operators of one layer, from 0 on, as its only ones."""
        layer = self.layers[number % len(self.layers)]
        return evolve(self, mixing=layer.mixing, state=layer.state, layers=(layer,))

    @property
    def parts(self) -> tuple[Planned, ...]:
        """Every part of the plan."""
        return (self.architecture, *self.mixing, *self.state, *self.positions, *self.augmenters, *self.heads)

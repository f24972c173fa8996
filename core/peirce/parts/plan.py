"""A plan: a spec whose parts have been found and fit together, as values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from attrs import field, frozen
from torch import Tensor

from peirce.algebra import Scope
from peirce.errors import PlanError, unusable
from peirce.kernels import PairBias, pair_scores, pair_values
from peirce.parts.base import Dims
from peirce.parts.operator import AttentionOperator, PureOperator, Reader, Writer
from peirce.parts.tracing import made_by
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
    output: Writer | None = None

    def deduce(
        self,
        channels: Sequence[Tensor],
        scope: Scope,
        biases: Sequence[PairBias] = (),
        attended: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """What the operator infers, with the terms of pair biases and the activation.

        FOLNet, Appendix E: a bias's key term is prod and its value term mu, with premises that depend on the positions
        alone. Nodes of an exported graph say that they are the operator's own.

        Args:
            channels: one tensor for each of `readings`, in their order.
            scope: who may attend to whom, and the rate at which weights are dropped.
            biases: pair biases, for an operator that says in `pair` where they belong.
            attended: what the weights pass through before they sum values.
        """
        operator, pair = self.operator, self.part.pair
        if isinstance(operator, AttentionOperator):
            query, key, value = channels
            scores = self._own(operator.scores, query, key)
            weights = scope.softmax(self._scored(scores, query, key, biases))
            weights = weights if attended is None else attended(weights)
            weights = F.dropout(weights, scope.dropout) if scope.dropout else weights
            result = _summed(self._own(operator.sums, weights, value), weights, biases)
        else:
            assert operator is not None
            first, *others = channels
            if attended is not None:
                first = attended(first)
            result = self._own(operator.infer, first, *others, scope)
            if pair == "score":
                result = self._scored(result, first, others[0], biases)
            elif pair == "value":
                result = _summed(result, first, biases)
        if self.activation == "none":
            return result
        # The implication's activation on logits: ln(1 + 2 exp z), or its ReLU bound; FOLNet, eq. 9, 27-29.
        shifted = result + math.log(2.0)
        return F.softplus(shifted) if self.activation == "modus_ponens" else F.relu(shifted)

    def _own(self, method: Callable[..., Tensor], *arguments: object) -> Tensor:
        """What the operator computes itself, which an exported graph says of its nodes."""
        if not torch.compiler.is_exporting():
            return method(*arguments)
        with made_by(str(self)):
            return method(*arguments)

    def _scored(self, scores: Tensor, query: Tensor, key: Tensor, biases: Sequence[PairBias]) -> Tensor:
        """Scores [b, x, a, h] of queries and keys, with static key and query terms, scaled as the scores are."""
        for bias in biases:
            if bias.key is not None or bias.query is not None or bias.score is not None:
                ours, theirs, *_ = self.readings.values()
                met = None
                if bias.query is not None:
                    met = (key * ours.scale).repeat_interleave(query.shape[2] // key.shape[2], 2)
                scores = scores + pair_scores(query * theirs.scale, bias, met)
        return scores


def _summed(sums: Tensor, weights: Tensor, biases: Sequence[PairBias]) -> Tensor:
    """Sums of values [b, x, h, s], with those of the biases' values."""
    for bias in biases:
        if bias.value is not None:
            sums = sums + pair_values(weights, bias)
    return sums


@frozen(kw_only=True)
class PlannedHead(Planned):
    """A head and the prefix of its outputs."""

    prefix: str


@frozen(kw_only=True)
class Plan:
    """A spec whose parts have been found and fit together. Every layer has the same operators.

    Args:
        mixing: the operators that mix tokens, in the order of the spec.
        state: the state operators that follow them.
        model_dims: `[model.dims]`, as the architecture's own class.
        dims: the sizes that parts see.
    """

    spec: Spec
    architecture: Planned
    model_dims: Any
    dims: Dims
    mixing: tuple[PlannedOperator, ...]
    state: tuple[PlannedOperator, ...]
    positions: tuple[Planned, ...]
    augmenters: tuple[Planned, ...]
    heads: tuple[PlannedHead, ...]
    fuse: bool = True

    @property
    def scope(self) -> ScopeSpec:
        """The kind of scope and whether padding is masked."""
        return self.spec.scope

    @property
    def parts(self) -> tuple[Planned, ...]:
        """Every part of the plan."""
        return (self.architecture, *self.mixing, *self.state, *self.positions, *self.augmenters, *self.heads)

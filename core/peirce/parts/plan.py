"""A plan: a spec whose parts have been found and fit together, as values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor

from peirce.algebra import Scope
from peirce.errors import PlanError, unusable
from peirce.kernels import PairBias, pair_scores, pair_values
from peirce.parts.base import Dims
from peirce.parts.operator import Operator, Reader, Writer
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
    """An operator of a layer. `operator` and its readers and writer are None for a state operator."""

    activation: str = "none"
    operator: Operator | None = None
    kernel: Reader | None = None
    premise: Reader | None = None
    output: Writer | None = None

    def deduce(
        self, kernel: Tensor, premise: Tensor, scope: Scope, biases: Sequence[PairBias] = ()
    ) -> Tensor:
        """What the operator infers, with the terms of pair biases and the activation.

        FOLNet, Appendix E: a bias's key term is prod and its value term mu, with premises that depend on the positions
        alone. Nodes of an exported graph say that they are the operator's own.
        """
        assert self.operator is not None
        if torch.compiler.is_exporting():
            with made_by(str(self)):
                result = self.operator.infer(kernel, premise, scope)
        else:
            result = self.operator.infer(kernel, premise, scope)
        for bias in biases:
            result = self._with_pairs(result, kernel, premise, bias)
        if self.activation == "none":
            return result
        # The implication's activation on logits: ln(1 + 2 exp z), or its ReLU bound; FOLNet, eq. 9, 27-29.
        shifted = result + math.log(2.0)
        return F.softplus(shifted) if self.activation == "modus_ponens" else F.relu(shifted)

    def _with_pairs(self, result: Tensor, kernel: Tensor, premise: Tensor, bias: PairBias) -> Tensor:
        """Static key and query terms for an operator that scores pairs, a value term for one that sums values."""
        if self.part.pair == "value" and bias.value is not None:
            return result + pair_values(kernel, bias)
        if self.part.pair != "score" or (bias.key is None and bias.query is None and bias.score is None):
            return result
        assert self.kernel is not None
        assert self.premise is not None
        key = premise * self.kernel.scale if bias.query is not None else None
        return result + pair_scores(kernel * self.premise.scale, bias, key)


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

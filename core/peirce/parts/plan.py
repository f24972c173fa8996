"""A plan: a spec whose parts have been found and fit together, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from peirce.errors import PlanError
from peirce.parts.base import Dims
from peirce.parts.operator import Branch, Operator, Reader, Writer
from peirce.parts.tracing import made_by
from peirce.spec import ScopeSpec, Spec

if TYPE_CHECKING:
    from torch import Tensor

    from peirce.algebra import Scope


BRANCH_NAMES: Mapping[Branch, str] = {"U": "unary", "B": "binary"}


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
            raise PlanError(f"{self} cannot be used here: {error}") from error

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

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """What the operator infers; the nodes of an exported graph say that they are its own."""
        assert self.operator is not None
        with made_by(str(self)):
            return self.operator.infer(kernel, premise, scope)


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

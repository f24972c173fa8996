"""The contract of operators, and what they say of the channels that they read and write.

Shapes follow the axis legend of `peirce.algebra`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import field, frozen
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.parts.base import Dims, SizedPart

Branch = Literal["U", "B"]
"""`U` for the unary atoms, `B` for the binary ones."""


def _channels(shape: Mapping[str, int]) -> Mapping[str, int]:
    return dict(shape)


@frozen(kw_only=True)
class Reader:
    """How an operator reads a branch: a linear map from the branch's atoms to named channels.

    Args:
        branch: the atoms that are read.
        shape: the channels by name, in order, such as `{"h": 12, "s": 64}`; the tensor is [b, x, h, s] when read
            from unary atoms and [b, x, y, h, s] when read from binary ones.
        bias: whether the map has a bias.
        activation: `softmax` for a kernel that is normalised over the tokens in scope. A binary kernel reaches `infer`
            already normalised. A unary one reaches it as logits, which `infer` gives to `Scope.weigh`: each row
            normalises them over its own scope.
        dropout: whether the weights of a softmax kernel are dropped in training.
        scale: a factor on the result, such as `head_size ** -0.25`.
        tokens_last: a wish for the layout in memory where binary atoms are read: tokens last, for an `infer` that
            multiplies over tokens head by head. Shapes are the same either way.
        cached: whether the first token of what is read is one that rows attend to, as the token of keys and values
            is: v(a) and v(a, y) are attended, v(x, a) is not, since x is the row that infers. In generation these
            channels are cached for the tokens that follow. Where rows come in blocks, each block is given all of
            them. A decoder reads those of its source tokens beside its own. A unary softmax kernel must be attended.
    """

    branch: Branch
    shape: Mapping[str, int] = field(converter=_channels)
    bias: bool = True
    activation: Literal["none", "softmax"] = "none"
    dropout: bool = False
    scale: float = 1.0
    tokens_last: bool = False
    cached: bool = False


@frozen(kw_only=True)
class Writer:
    """How an operator writes to a branch: a linear map from its own channels, of shape `shape`, to the atoms."""

    branch: Branch
    shape: Mapping[str, int] = field(converter=_channels)
    bias: bool = True


class Operator(SizedPart, ABC):
    """A neural logic operator, `u = infer(kernel, premise, scope)`: pure, without projections of its own.

    The composer reads the kernel and the premise from the branches, calls `infer`, applies the operator's activation
    and writes the result. It also keeps the mask contract: by `scope_rule`,

    * `reduce`: `infer` sums over tokens. Softmax kernels are zero outside the scope, and so are binary premises;
    * `pairwise`: `infer` gives each pair from its own two tokens and atoms; the result is zeroed outside the scope;
    * `none`: `infer` gives each token from itself alone.

    Attributes:
        typing: `"U <- B x U"`: output, kernel, premise.
        letter: the shorthand's letter, such as `j`; None for an operator that specs name in full.
        scope_rule: the mask contract.
        pair: `score` for an operator whose output is an attention score to which a pair position adds a term,
            `value` for one that sums values with attention weights; None for the others.
    """

    typing: ClassVar[str]
    letter: ClassVar[str | None] = None
    scope_rule: ClassVar[Literal["reduce", "pairwise", "none"]]
    pair: ClassVar[Literal["score", "value"] | None] = None

    def __init__(self, options: Any, dims: Dims) -> None:
        self.options = options
        self.dims = dims

    @abstractmethod
    def kernel(self) -> Reader:
        """What the kernel is read from, and as which channels."""

    @abstractmethod
    def premise(self) -> Reader:
        """What the premise is read from, and as which channels."""

    @abstractmethod
    def output(self) -> Writer:
        """What the result is written to, and its channels."""

    @abstractmethod
    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """The operator's equation.

        Args:
            kernel: [b, x, *shape] or [b, x, a, *shape], as `kernel()` says.
            premise: [b, a, *shape] or [b, a, y, *shape], as `premise()` says.
            scope: who may attend to whom.

        Returns:
            [b, x, *shape] or [b, x, y, *shape], as `output()` says.
        """

    @abstractmethod
    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The equation written out over nested lists, by loops or an einsum, for one example: the axis `b` is absent.

        `scope[x][a]` says whether x may attend to a. Arguments are as `infer` gets them, activations included.
        """


class StateOperator(SizedPart, nn.Module, ABC):
    """An operator with parameters of its own, which maps atoms to their increments; `bool` is one."""

    typing: ClassVar[str]
    letter: ClassVar[str | None] = None
    scope_rule: ClassVar[Literal["reduce", "pairwise", "none"]]

    def __init__(self, options: Any, dims: Dims) -> None:
        nn.Module.__init__(self)

    @abstractmethod
    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the atoms. `state` is normalised and zero outside the scope; `binary` may be None.

        Rows may be the last tokens only: `scope.converse` gives u(y, x), where a transpose would need all rows.
        """

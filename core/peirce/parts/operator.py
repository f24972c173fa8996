"""The contract of operators, and how they declare the channels that they read and write.

Shapes follow the axis legend of `peirce.algebra`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, final

from attrs import field, frozen
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.parts.base import Dims, SizedPart
from peirce.parts.plain import PlainMap

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
            already normalised. A unary one reaches it as logits, which `infer` gives to `peirce.kernels.weigh`: each
            row normalises them over its own scope.
        dropout: whether weights are dropped in training: those of a binary softmax kernel before `infer` gets them,
            others by `infer` itself, at the rate `scope.dropout`, as `weigh` does.
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
class SharedReader(Reader):
    """A reading by the map of an earlier one, such as the second side of a symmetric product.

    Args:
        shares: the name of that reading, which has the same branch, shape and bias.
    """

    shares: str


@frozen(kw_only=True)
class Writer:
    """How an operator writes to a branch: a linear map from its own channels, of shape `shape`, to the atoms."""

    branch: Branch
    shape: Mapping[str, int] = field(converter=_channels)
    bias: bool = True


@frozen(kw_only=True)
class Weight:
    """A learned tensor of an operator's equation, such as the gain of a norm between a sum and its gate.

    Args:
        shape: the sizes by name, in order, such as `{"h": 12, "s": 64}`; there is no axis of examples or tokens.
        initial: the mean of a new model's entries.
        spread: their standard deviation.
    """

    shape: Mapping[str, int] = field(converter=_channels)
    initial: float = 1.0
    spread: float = 0.0


def typing_of(readings: Mapping[str, Reader], output: Writer) -> str:
    """The typing of the declared channels, output from each reading, as in `"U <- B x U"`."""
    return f"{output.branch} <- {' x '.join(reader.branch for reader in readings.values())}"


class PlainScope(list[list[bool]]):
    """The scope of one example as `reference` gets it: `scope[x][a]` says whether x may attend to a.

    Attributes:
        rows: the position of each row x, counted over real tokens.
        columns: the position of each column a.
    """

    def __init__(self, pairs: list[list[bool]], rows: list[int], columns: list[int]) -> None:
        super().__init__(pairs)
        self.rows, self.columns = rows, columns


class PureOperator(SizedPart, ABC):
    """A neural logic operator, `u = infer(*channels, *weights, scope)`: pure, without projections of its own.

    The composer reads what the operator declares from the branches, calls `infer`, applies the operator's activation
    and writes the result. It also keeps the mask contract: by `scope_rule`,

    * `reduce`: `infer` sums over tokens. Softmax kernels are zero outside the scope, and so is whatever else is read
      from binary atoms;
    * `pairwise`: `infer` gives each pair from its own two tokens and atoms; the result is zeroed outside the scope;
    * `none`: `infer` gives each token from itself alone.

    Attributes:
        typing: `"U <- B x U"`: the branch that is written, then that of each reading, in their order.
        letter: the shorthand's letter, such as `j`; None for an operator that specs name in full.
        scope_rule: the mask contract.
        pair: where pair positions add their terms: `score` to the output, scores of the first reading, the query, for
            the second, the key; `value` to sums of values by the first reading, normalised weights; `attention` to
            both inside an `AttentionOperator`; None nowhere.
    """

    typing: ClassVar[str]
    letter: ClassVar[str | None] = None
    scope_rule: ClassVar[Literal["reduce", "pairwise", "none"]]
    pair: ClassVar[Literal["score", "value", "attention"] | None] = None

    def __init__(self, options: Any, dims: Dims) -> None:
        self.options = options
        self.dims = dims

    @abstractmethod
    def readings(self) -> Mapping[str, Reader]:
        """What is read from the branches, and as which channels: at least one reading, in the order of the typing.

        Names are those of the projections in a state dict: lower-case identifiers, neither `output` nor `source_...`.
        """

    @abstractmethod
    def output(self) -> Writer:
        """What the result is written to, and its channels."""

    def weights(self) -> Mapping[str, Weight]:
        """Learned tensors of the equation itself, which the composer keeps beside the projections; by default none.

        Names are as those of the readings.
        """
        return {}

    @abstractmethod
    def infer(self, *channels: Any, **named: Any) -> Tensor:
        """The operator's equation; a subclass names its channels, as in `infer(self, query, key, value, scope)`.

        Args:
            channels: what was read, in the order of `readings`, each [b, x, *shape] or [b, x, a, *shape], or
                [b, a, *shape] or [b, a, y, *shape] from a `cached` reader; then the `weights`, each [*shape]; and
                at last the scope, a `peirce.algebra.Scope` that says which x may attend to which a.
            named: none; every argument is given by position.

        Returns:
            [b, x, *shape] or [b, x, y, *shape], as `output()` says.
        """

    def fused(self, *channels: Any, **named: Any) -> Tensor | None:
        """What `infer` gives, by a kernel of the operator's own; None, as by default, where torch's operations do.

        It is asked where kernels are on, on a GPU. `peirce.kernels.uses_kernel` says whether a kernel should compute.

        Args:
            channels: as `infer` gets them, but that softmax kernels read from binary atoms are logits, neither masked
                nor normalised: `scope.softmax` would do both. Where their reader says `dropout`, weights are dropped
                at the rate `scope.dropout`.
            named: none.
        """
        return None

    @abstractmethod
    def reference(self, *channels: Any, **named: Any) -> list[Any]:
        """The equation written out over nested lists, by loops or an einsum, for one example: the axis `b` is absent.

        Arguments are as `infer` gets them, activations included; the scope is a `PlainScope`.
        """

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap | None:
        """The increments from the atoms, maps and scales written out too; None where they are not stated.

        Args:
            given: the atoms of one example, `unary` [x][d1] and `binary` [x][y][d2], which are zero outside the scope.
            scope: who may attend to whom, and where the tokens stand.
            parameters: of the readings' maps, of the `output` and of the `weights`, by their names; it reads every one.
            dims: the sizes that the operator was made for.

        Returns:
            The increments, `unary` or `binary`.
        """
        return None


def axes_of(operator: PureOperator, end: Reader | Writer) -> str:
    """The tokens of a reading or of the output, such as `xa`: x and y are those of the result, a is summed over."""
    pair = "xy"
    if operator.scope_rule == "reduce" and isinstance(end, Reader):
        pair = "xa" if not end.cached else "ax" if operator.output().branch == "U" else "ay"
    elif isinstance(end, Reader) and end.cached:
        pair = "yx"
    return pair[:1] if end.branch == "U" else pair


class Operator(PureOperator):
    """An operator of two readings, `u = infer(kernel, premise, scope)`: its typing is output, kernel, premise."""

    @final
    def readings(self) -> Mapping[str, Reader]:
        """The kernel and the premise."""
        return {"kernel": self.kernel(), "premise": self.premise()}

    @abstractmethod
    def kernel(self) -> Reader:
        """What the kernel is read from, and as which channels."""

    @abstractmethod
    def premise(self) -> Reader:
        """What the premise is read from, and as which channels."""

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
    def reference(self, kernel: list[Any], premise: list[Any], scope: PlainScope) -> list[Any]:
        """The equation written out over nested lists, by loops or an einsum, for one example: the axis `b` is absent.

        `scope[x][a]` says whether x may attend to a, and `scope.rows[x]` and `scope.columns[a]` where they stand.
        Arguments are as `infer` gets them, activations included.
        """


class AttentionOperator(PureOperator):
    """Attention in one operator: its readings are query, key and most often a value, and no relation is written.

    u(x) = sum_a K(x,a) v(a), with K a softmax of `scores` over the tokens a that x may attend to. Between its halves
    the composer adds the terms of pair positions, hands the weights to `peirce.algebra.attention_of`, and drops some
    in training where the query's reader says `dropout`.
    """

    scope_rule = "reduce"
    pair = "attention"

    @abstractmethod
    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """[b, x, h, s], [b, a, *shape] -> [b, x, a, h]; keys may have fewer heads, which groups of queries share."""

    @abstractmethod
    def sums(self, weights: Tensor, *values: Any, **named: Any) -> Tensor:
        """[b, x, a, h], [b, a, *shape] -> [b, x, h, s].

        Args:
            weights: K.
            values: what was read behind the key; where that is not one value, or the operator has `weights`, these
                and the scope follow.
            named: none; every argument is given by position.
        """

    @final
    def infer(self, query: Tensor, key: Tensor, *others: Any) -> Tensor:
        """The equation without the terms of positions."""
        *values, scope = others
        return self.attend(scope.softmax(self.scores(query, key)), values, scope)

    @final
    def attend(self, weights: Tensor, values: Sequence[Tensor], scope: Scope) -> Tensor:
        """`sums` with what it takes: of one value alone, no scope."""
        plain = len(values) == 1 and not self.weights()
        return self.sums(weights, *values) if plain else self.sums(weights, *values, scope)


class StateOperator(SizedPart, nn.Module, ABC):
    """An operator with parameters of its own, which maps atoms to their increments; `bool` is one."""

    typing: ClassVar[str]
    letter: ClassVar[str | None] = None
    scope_rule: ClassVar[Literal["reduce", "pairwise", "none"]]

    def __init__(self, options: Any, dims: Dims) -> None:
        nn.Module.__init__(self)
        self.options = options

    @abstractmethod
    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the atoms. `state` is normalised and zero outside the scope; `binary` may be None.

        Rows may be the last tokens only: `scope.converse` gives u(y, x), where a transpose would need all rows.
        """

    def fused(self, state: Predicates, scope: Scope, epsilon: float, rate: float) -> Predicates | None:
        """Atoms with their increments added, by a kernel of the operator's own; None, as by default, where torch does.

        It is asked where norms have no weights, and neither the operator nor its norm has hooks.

        Args:
            state: the atoms before the norm: what `forward` is given has zero mean and unit variance over the channels,
                and is zero outside the scope.
            scope: as `forward` gets it.
            epsilon: added to the variances.
            rate: at which increments are dropped.
        """
        return None

    def terms(self) -> Mapping[str, Tensor]:
        """What the operator adds to the loss of its last pass in training, scalars by name; by default nothing.

        The method is called once a pass, and terms of one name are summed over the layers.
        """
        return {}

    def reference(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap | None:
        """The equations written out over nested lists, for one example without padding; None where none are stated.

        Args:
            given: the atoms, `unary` [x][d1] and `binary` [x][y][d2], which are zero outside the scope.
            scope: who may attend to whom, and where the tokens stand.
            parameters: the parameters and buffers, nested lists by their names; it reads every parameter.
            dims: the sizes that the part was made for.

        Returns:
            The increments that are not zero, `unary` and `binary`, and the `terms` by their names.
        """
        return None

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies and pickles, where tensors of the last pass's graph, such as terms, become None."""
        state = self.__dict__.items()
        return {key: None if isinstance(value, Tensor) and value.grad_fn else value for key, value in state}

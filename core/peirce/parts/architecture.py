"""The contract of architectures, the networks between token ids and atoms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch import Tensor, nn

from peirce.errors import renamed
from peirce.parts.base import Part
from peirce.parts.head import Encoded, Head
from peirce.parts.position import Place, Position
from peirce.parts.signature import TensorSpec
from peirce.parts.tokens import Tokens
from peirce.spec import Spec

if TYPE_CHECKING:
    import torch

    from peirce.parts.base import Dims as Sizes
    from peirce.parts.operator import PlainScope
    from peirce.parts.plain import PlainMap
    from peirce.parts.plan import Plan, PlannedHead, PlannedOperator


class Architecture(Part, nn.Module, ABC):
    """The network between token ids and atoms; it asks for the places that its positions may act at.

    Attributes:
        Dims: the attrs class of `[model.dims]`.
        places: the places that it has.
        branches: the atoms that it keeps, `"U"` or `"UB"`.
        layer: the operators of a layer when a spec names none; empty, with `fixed_layer`, where there are none.
        state: the state operators that follow them when a spec names none.
        rows: the symbolic dim of the tokens that it gives atoms of, which heads call `length`.
        scope: the kind of scope that the architecture fixes, for its operators to check; None where the spec says.
        fixed_layer: whether a spec may name no other operators.
        own_attention: whether it computes attention itself and has positions act there, so that they need no operator
            that scores pairs or sums values.
        recurrent: whether a layer is one recurrent operator, by its whole name, and mixes tokens by nothing else.
        heterogeneous: whether layers may differ: layer i is then made from `plan.layer(i)`, and may be a recurrent
            operator, which reads from the left.
    """

    if not TYPE_CHECKING:  # type checkers see each architecture's own
        Dims: ClassVar[type]
    places: ClassVar[frozenset[Place]]
    branches: ClassVar[Literal["U", "UB"]]
    layer: ClassVar[str]
    state: ClassVar[tuple[str, ...]] = ()
    rows: ClassVar[str] = "length"
    scope: ClassVar[str | None] = None
    fixed_layer: ClassVar[bool] = False
    own_attention: ClassVar[bool] = False
    recurrent: ClassVar[bool] = False
    heterogeneous: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "current" in vars(cls):
            renamed(f"{cls.__qualname__}.current", "upgrade", "2.0")
            setattr(cls, "upgrade", vars(cls)["current"])  # noqa: B010  # mypy refuses an assignment

    @classmethod
    @abstractmethod
    def sizes(cls, options: Any, dims: Any) -> Mapping[str, int]:
        """The fields of `Dims` that the architecture has, by its own options and `[model.dims]`.

        `layers` and `unary` are always among them. A size that it does not give is one that it does not have.
        """

    @classmethod
    def check(cls, options: Any, dims: Any) -> str | None:
        """Why these options and `[model.dims]` cannot work; None when they can."""
        return None

    @classmethod
    def check_scope(cls, options: Any, scope: str) -> str | None:
        """Why these options cannot work in a kind of scope; None when they can."""
        return None

    @classmethod
    def check_layer(cls, operators: Sequence[PlannedOperator]) -> tuple[PlannedOperator, str] | None:
        """The operator that cannot be in a layer with the others, and why; None when all can.

        By default it is one that reads or writes atoms which the architecture does not keep.
        """
        for planned in operators if not cls.fixed_layer else ():
            for atoms in planned.branches - {*cls.branches}:
                kind = {"U": "unary", "B": "binary"}[atoms]
                return planned, f"it uses {kind} atoms, which architecture {cls.name!r} does not keep"
        return None

    @classmethod
    def upgrade(cls, spec: Spec) -> Spec:
        """The spec in the form that the architecture reads today, where files of older versions have another."""
        return spec

    @classmethod
    def gives(cls, options: Any) -> frozenset[Literal["pooled", "binary", "past"]]:
        """Which optional outputs heads may rely on; `past` is added where the spec's scope is causal or prefix."""
        return frozenset()

    @abstractmethod
    def __init__(self, options: Any, plan: Plan) -> None:
        nn.Module.__init__(self)
        self.options = options

    def begin(self) -> None:
        """Take what a new model starts with from outside its spec, such as pretrained weights.

        It is called once, after a model is built and initialised, and never when one is loaded: what it changes is in
        the state dict.
        """

    def own_head(self, planned: PlannedHead) -> Head | None:
        """The architecture's own head in the place of a planned one, with that one's outputs and loss; None if none."""
        return None

    @abstractmethod
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the architecture and of the positions and augmenters in it."""

    @abstractmethod
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms and the pooled output that it gives."""

    def example_inputs(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> Mapping[str, Tensor]:
        """Inputs for the conformance checks in place of some drawn ones, where random numbers do not fit together.

        Args:
            drawn: the inputs by name, random ones.
            generator: of what is drawn.
        """
        return {}

    def reference(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Sizes
    ) -> PlainMap | None:
        """What it computes over nested lists, for one example without padding; None where that is not stated.

        Args:
            given: the inputs by name.
            scope: who may attend to whom, and where the tokens stand.
            parameters: parameters and buffers of the network by name.
            dims: the sizes of the network.

        Returns:
            `unary` [x][d1], `binary` [x][y][d2] and `pooled` [p], those that it gives.
        """
        return None

    @abstractmethod
    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Run the network on tensors by name, as the method `inputs` declares them; optional ones may be missing."""


class GenerativeArchitecture(Architecture):
    """An architecture that infers the atoms of new tokens from the cached state of those before them.

    Attributes:
        generated: the input whose tokens are generated, `input_ids` or a decoder's.
    """

    generated: ClassVar[str] = "input_ids"

    @abstractmethod
    def cached_state(self) -> tuple[TensorSpec, ...]:
        """What is cached for later tokens: flat tensors [batch, past, ...], or [batch, ...] for a recurrent state;
        `past` may be a later axis.

        Of a source apart from the target they are [batch, length, ...], and stay as they are.
        """

    @abstractmethod
    def advance(
        self, inputs: Mapping[str, Tensor], cache: Mapping[str, Tensor]
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """Infer the atoms of tokens that follow those of a cached state.

        Args:
            inputs: with an empty cache, what `inputs` declares; later the new tokens alone, by the name `generated`,
                and optionally what else is known of them.
            cache: what the last call returned; empty at first.

        Returns:
            The atoms of the new tokens, equal to those that `forward` infers from the whole text; the tokens; and the
            next cached state, by the names of `cached_state()`.

        Raises:
            InputError: the cached state is of no use for the longer text, as `reuses_cache` says.
        """

    def reuses_cache(self, before: int, after: int) -> bool:
        """Whether the cached state of a text of `before` real tokens serves the same text with `after` of them.

        Where it does not, generation reads the whole text again, and no such model is exported to generate. By default
        it serves as long as it does for each position.
        """
        positions = (part for part in self.modules() if isinstance(part, Position))
        return all(each.reuses_cache(before, after) for each in positions)

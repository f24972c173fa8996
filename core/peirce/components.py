"""The contracts that a part implements: Operator, Position, Augmenter, Head, Architecture, Task, Exporter.

A part is a class with a `name`, an attrs class `Options` (its only configuration) and the methods of its contract.
Parts are registered through the hooks of `peirce.hookspecs`; the composer builds them as `cls(options, dims)`.
Shapes follow the axis legend of `peirce.predicates`. What all parts share lives in `peirce.part`, operators in
`peirce.operators`; every contract can be imported from here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from peirce.operators import Branch as Branch
from peirce.operators import Operator as Operator
from peirce.operators import Reader as Reader
from peirce.operators import StateOperator as StateOperator
from peirce.operators import Writer as Writer
from peirce.pairs import PairBias
from peirce.part import API as API
from peirce.part import SUPPORTED_API as SUPPORTED_API
from peirce.part import Dims as Dims
from peirce.part import NoOptions as NoOptions
from peirce.part import Part as Part
from peirce.scope import Scope
from peirce.signature import TensorSpec

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce.plan import Plan

Place = Literal["unary", "binary", "pair", "scope"]
"""Where a position acts: adds to the unary atoms at the input, gives the initial binary atoms, biases a pair's score
and value inside attention, or restricts the scope."""


@dataclass(frozen=True, eq=False)  # not attrs: torch.compile cannot trace the setters of its frozen classes
class Tokens:
    """A batch as parts see it.

    Parts give what they give for the rows: every token in most passes, and in generation the new tokens alone, which
    look at those before them as well. `rows` takes the rows' part of what is known of every token.

    Args:
        inputs: the model's inputs by name; what they say of tokens, they say of every one.
        real: bool [b, a], None when no token is padding.
        index: int64 [b or 1, a], each token's position counted over real tokens.
        length: the number of tokens a.
        before: how many tokens stand before the rows; None when every token is a row.
    """

    inputs: Mapping[str, Tensor]
    real: Tensor | None
    index: Tensor
    length: int
    before: int | None = None

    def rows(self, values: Tensor, axis: int = 1) -> Tensor:
        """The rows' part of values that hold one for each token along `axis`."""
        return values if self.before is None else values.narrow(axis, self.before, self.length - self.before)


class ModulePart(Part, nn.Module, ABC):
    """A part with parameters of its own that stands before or after the operators and may need inputs of its own."""

    @abstractmethod
    def __init__(self, options: Any, dims: Dims) -> None:
        nn.Module.__init__(self)

    @classmethod
    def check(cls, options: Any, dims: Dims) -> str | None:
        """Why the part cannot work with these options and sizes; None when it can."""
        return None

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs that the part needs beside the standard ones."""
        return ()

    def begin(self) -> None:
        """Take what a new model starts with from outside its spec, such as a file of trained vectors.

        It is called once, after a model is built and initialised, and never when one is loaded: what it changes is in
        the state dict.
        """


class Position(ModulePart):
    """Where tokens stand. Subclass the places that a position serves: `UnaryPosition`, `BinaryPosition`,
    `PairPosition`, `ScopePosition`, or several of them."""

    @classmethod
    def places(cls) -> tuple[Place, ...]:
        """The places that the position serves, by its base classes."""
        return tuple(place for place, base in PLACES.items() if issubclass(cls, base))


class UnaryPosition(Position):
    """A position that is added to the unary atoms at the input."""

    @abstractmethod
    def unary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, d1], for the rows x."""


class BinaryPosition(Position):
    """A position that gives the initial binary atoms."""

    @abstractmethod
    def binary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, y, d2], for the rows x and every token y."""


class PairPosition(Position):
    """A position that biases a pair's score and value inside attention."""

    @abstractmethod
    def pairs(self, tokens: Tokens) -> Sequence[PairBias]:
        """One bias a layer, of the rows towards every token; layers may share one."""


class ScopePosition(Position):
    """A position that restricts who may look at whom."""

    @abstractmethod
    def scope(self, tokens: Tokens) -> Tensor:
        """bool [b or 1, x, a], for the rows x and every token a."""


PLACES: Mapping[Place, Any] = {
    "unary": UnaryPosition,
    "binary": BinaryPosition,
    "pair": PairPosition,
    "scope": ScopePosition,
}


class Augmenter(ModulePart):
    """Changes the embeddings of the tokens before positions and token types are added."""

    @abstractmethod
    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""

    def words(self, embeddings: Tensor) -> Tensor:
        """The word embeddings that heads tie to, [v, d1] -> [v, d1], where a token's id alone decides the change."""
        return embeddings


class Encoded(NamedTuple):
    """What an architecture gives to the heads: final atoms, pooled output, scope and the word embeddings to tie to.

    unary: [b, x, d1]; binary: [b, x, y, d2] or None; pooled: [b, d1] or None; embeddings: [v, d1].
    """

    unary: Tensor
    binary: Tensor | None
    pooled: Tensor | None
    scope: Scope
    embeddings: Tensor


class Head(ModulePart):
    """Turns atoms into predictions.

    Its outputs are named `logits`, ..., and the model prefixes them with the head's name; one named "" takes the head's
    name itself.

    Attributes:
        needs: which of `pooled` and `binary` the architecture must give; `past` where the head predicts next tokens,
            which no token may see then.
        labels: what `loss` takes as labels, dtype, shape and meaning, in one sentence.
    """

    needs: ClassVar[frozenset[Literal["pooled", "binary", "past"]]] = frozenset()
    labels: ClassVar[str] = ""

    @abstractmethod
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The predictions, `logits` first."""

    @abstractmethod
    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """The predictions by name, as `outputs` declares them."""

    @abstractmethod
    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """The mean loss of predictions (by the names of `outputs`) against labels, a scalar."""


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
    """

    Dims: ClassVar[type]
    places: ClassVar[frozenset[Place]]
    branches: ClassVar[Literal["U", "UB"]]
    layer: ClassVar[str]
    state: ClassVar[tuple[str, ...]] = ()
    rows: ClassVar[str] = "length"
    scope: ClassVar[str | None] = None
    fixed_layer: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def sizes(cls, dims: Any) -> Mapping[str, int]:
        """The fields of `Dims` that the architecture's own `[model.dims]` determine."""

    @classmethod
    def check(cls, options: Any, dims: Any) -> str | None:
        """Why these options and `[model.dims]` cannot work; None when they can."""
        return None

    @classmethod
    def gives(cls, options: Any) -> frozenset[Literal["pooled", "binary", "past"]]:
        """Which optional outputs heads may rely on; `past` is added where the spec's scope is causal or prefix."""
        return frozenset()

    @abstractmethod
    def __init__(self, options: Any, plan: Plan) -> None:
        nn.Module.__init__(self)

    @abstractmethod
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the architecture and of the positions and augmenters in it."""

    @abstractmethod
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms and the pooled output that it gives."""

    @abstractmethod
    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Run the network. `inputs` holds what `inputs` declares; absent optional inputs are missing."""


class GenerativeArchitecture(Architecture):
    """An architecture that can infer the atoms of new tokens from what it kept of those before them.

    Attributes:
        generated: the input whose tokens are generated, `input_ids` or a decoder's.
    """

    generated: ClassVar[str] = "input_ids"

    @abstractmethod
    def memory(self) -> tuple[TensorSpec, ...]:
        """What is kept for the tokens that follow: flat tensors [batch, past, ...]."""

    @abstractmethod
    def advance(
        self, inputs: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """Infer the atoms of tokens that follow those of a memory.

        Args:
            inputs: without a memory, what `inputs` declares; then the new tokens alone, by the name `generated`, and
                optionally what else is known of them.
            memory: what the last call returned; empty at first.

        Returns:
            The atoms of the new tokens, as `forward` would infer them of all; the tokens; and the next memory, by the
            names of `memory()`.
        """


class Task(Part, ABC):
    """Data, loss and metric of one job; `peirce train` and `peirce evaluate` run any of them in one loop."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def prepare(self) -> Any:
        """Read or make the data; slow work shows a progress bar."""

    @abstractmethod
    def overrides(self, data: Any) -> Mapping[str, Any]:
        """Settings of the spec that the data determine, such as `{"model.input.vocabulary": 193}`."""

    def check(self, model: Model, data: Any) -> None:
        """Refuse a model that cannot be trained on the data, with a `TaskError`, before its first step."""
        return

    @abstractmethod
    def batches(self, data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, in an order that seed and epoch determine."""

    @abstractmethod
    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss of one batch, a scalar."""

    def terms(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The summands of `loss` by name, scalars, the same names for every batch; by default `loss` alone."""
        return {"loss": self.loss(model, batch)}

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """How many targets each of `terms` is a mean over, by the term's name.

        With them, several batches of a step count as one large batch would. A term without them counts the same in
        each batch, which is the same thing where batches have one size. Without targets a term is finite, such as 0.
        """
        return {}

    @abstractmethod
    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        """The task's metrics on one split."""

    def remarks(self, model: Model, data: Any, split: str) -> tuple[str, ...]:
        """What a reader of the metrics must know, a sentence each, such as how they are filtered; shown beside them."""
        return ()

    @abstractmethod
    def assets(self, data: Any) -> Mapping[str, bytes]:
        """Files to keep beside a trained model, such as vocabularies, by name."""


class Exporter(Part, ABC):
    """Writes a model in another format; `name` is what `--to` takes."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def export(self, model: Model, path: Path) -> Any:
        """Write the model to `path`, verify it, and return the report."""

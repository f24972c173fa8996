"""What systems that execute queries themselves have in common: literals as tokens, and a vector for each name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from numpy.typing import NDArray
from torch import Tensor, nn

from peirce.algebra import Scope, at_least_float32
from peirce.errors import PlanError
from peirce.networks import unary_output
from peirce.parts import (
    Architecture,
    Augmenter,
    Encoded,
    Place,
    PlainMap,
    PlainScope,
    Plan,
    TensorSpec,
    Tokens,
    without_autocast,
)
from peirce.parts import Dims as Sizes
from peirce_kg.parts.systems.literals import DEPTH, ENTITY, LITERAL_INPUTS, VARIABLES, Executor

Numbers: TypeAlias = NDArray[np.float64]


@frozen(kw_only=True)
class SystemDims:
    """The sizes of a system; every one is a count.

    Args:
        unary: the numbers that stand for an entity or a set of entities; half of them are of one sort and half of
            another, such as real and imaginary parts.
        feedforward: hidden width of its networks; a multiple of `unary` that is the system's own if None.
    """

    unary: int = field(validator=validators.ge(1))
    feedforward: int | None = field(default=None, validator=validators.optional(validators.ge(1)))


@frozen(kw_only=True)
class RankingOptions:
    """Which token ids are entities: what every head that compares entities with sets is told.

    Args:
        first: the token id of entity 0.
        count: the number of entities, whose ids follow each other; 0 for all ids from `first` on.
        free: the token id of the free variable.
    """

    first: int = field(default=0, validator=validators.ge(0))
    count: int = field(default=0, validator=validators.ge(0))
    free: int = field(default=1, validator=validators.ge(0))


@dataclass(frozen=True, eq=False)  # not attrs: torch.compile cannot trace the setters of its frozen classes
class Literals:
    """A batch of queries as literals.

    tails, heads, relations: int64 [b, x], tokens; sources, targets: int64 [b, x], the numbers of the variables at heads
    and tails, 0 for an entity; negated: bool [b, x]; real: bool [b, x], false at padding.
    """

    tails: Tensor
    heads: Tensor
    relations: Tensor
    sources: Tensor
    targets: Tensor
    negated: Tensor
    real: Tensor

    @classmethod
    def of(cls, inputs: Mapping[str, Tensor]) -> Literals:
        """From a model's inputs."""
        tails, real = inputs["input_ids"], inputs.get("attention_mask")
        real = torch.ones_like(tails, dtype=torch.bool) if real is None else real
        heads, relations, sources, targets, negated = (inputs[name] for name in LITERAL_INPUTS)
        return cls(tails, heads, relations, sources, targets, negated != 0, real)

    def same_variable(self, ends: Tensor, others: Tensor) -> Tensor:
        """Whether the end of one literal is the variable at an end of another: [b, x], [b, y] -> bool [b, x, y]."""
        both = self.real.unsqueeze(2) & self.real.unsqueeze(1)
        return both & (ends.unsqueeze(2) == others.unsqueeze(1)) & (ends != ENTITY).unsqueeze(2)

    def same_conjunction(self) -> Tensor:
        """Whether two literals belong to one conjunction: bool [b, x, y]."""
        return self._equal_in_all(self.conjunctions())

    def conjunctions(self) -> Tensor:
        """The number of the conjunction that a literal belongs to, from 0: int64 [b, x]."""
        return (torch.maximum(self.sources, self.targets) - 1) // VARIABLES

    def variables(self) -> Tensor:
        """How many variables each query has, those of its conjunctions counted apart: int64 [b]."""
        ends = torch.cat([self.sources, self.targets], 1)
        known = torch.cat([self.real, self.real], 1) & (ends != ENTITY)
        again = (ends.unsqueeze(2) == ends.unsqueeze(1)) & known.unsqueeze(1)
        return (known & ~again.tril(-1).any(2)).long().sum(1)

    def merged(self) -> Literals:
        """The literals of the formula: variables of all conjunctions by their names, and each literal once."""
        (sources, targets), number = self._names(), self.conjunctions()
        again = (self.equal() & (number.unsqueeze(1) < number.unsqueeze(2))).any(2)
        return replace(self, sources=sources, targets=targets, real=self.real & ~again)

    def equal(self) -> Tensor:
        """Whether two literals, of whatever conjunctions, are one literal of the formula: bool [b, x, y]."""
        return self._equal_in_all(self.heads, self.relations, self.tails, self.negated, *self._names())

    def same_target(self) -> Tensor:
        """Whether two literals, of whatever conjunctions, lead to one variable of the formula: bool [b, x, y]."""
        target = self._names()[1]
        return self._equal_in_all(target) & (target != ENTITY).unsqueeze(2)

    def _names(self) -> list[Tensor]:
        """The numbers of the variables at both ends as those of the first conjunction."""
        ends = (self.sources, self.targets)
        return [torch.where(each == ENTITY, ENTITY, 1 + (each - 1) % VARIABLES) for each in ends]

    def _equal_in_all(self, *inputs: Tensor) -> Tensor:
        """Whether two literals have the same in all inputs: [b, x] each -> bool [b, x, y]."""
        both = self.real.unsqueeze(2) & self.real.unsqueeze(1)
        for each in inputs:
            both = both & (each.unsqueeze(2) == each.unsqueeze(1))
        return both


class PlainLiteral(NamedTuple):
    """A literal of one query, for `QuerySystem.plain_execute`, with fields as of `Literals`."""

    tail: int
    head: int
    relation: int
    source: int
    target: int
    negated: int


def random_tree(length: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """The variables, 0 for an entity, at head and tail of each literal of a tree whose leaves are entities."""
    literals: list[tuple[int, int]] = []
    far, unled = {1: 0}, [1]
    for left in range(length, 0, -1):
        coin = int(torch.randint(0, 3, (), generator=generator))
        target = unled.pop() if unled and (coin or left == len(unled)) else literals[-1][1] if literals else 1
        source = 0
        if left > len(unled) + 1 and len(far) < VARIABLES and coin and far[target] + 1 < DEPTH:
            source = len(far) + 1
            far[source] = far[target] + 1
            unled.append(source)
        elif coin == 1 and (again := [s for s, t in literals if s and t == target]):
            source = again[0]
        literals.append((source, target))
    return literals


def is_free(numbers: Tensor) -> Tensor:
    """Whether an end, by its number, is the free variable of some conjunction."""
    return numbers % VARIABLES == 1


def ranked_tokens(plan: Plan) -> slice:
    """The tokens of the entities that a model's head ranks; symbols and variables come before them."""
    heads = (head.options for head in plan.heads)
    found = (slice(h.first, h.first + h.count) for h in heads if isinstance(h, RankingOptions) and h.count)
    return next(found, slice(0, 0))


def literal_specs(vocabulary: int) -> tuple[TensorSpec, ...]:
    """The inputs of a system."""
    dims: tuple[str, ...] = ("batch", "length")

    def spec(name: str, meaning: str, high: int | None) -> TensorSpec:
        return TensorSpec(name=name, dtype="int64", dims=dims, high=high, meaning=meaning)

    mask = TensorSpec(
        name="attention_mask", dtype="bool", dims=dims, required=False, default=True, masks="length",
        meaning="True at atoms, false at padding.",
    )  # fmt: skip
    meanings: tuple[tuple[str, int | None], ...] = (
        ("The token at the head of each atom.", vocabulary),
        ("The token of each atom's relation.", vocabulary),
        ("The number of the variable at each atom's head; 0 for an entity.", None),
        ("The number of the variable at each atom's tail; 0 for an entity.", None),
        ("1 for a negated atom, 0 for the others.", 2),
    )
    tails = "The token at the tail of each atom of the disjunctive normal form."
    specs = (spec(name, *each) for name, each in zip(LITERAL_INPUTS, meanings, strict=True))
    return (spec("input_ids", tails, vocabulary), mask, *specs)


class QuerySystem(Executor, Architecture):
    """A network that executes queries literal by literal; its unary atoms are what stands at the literals' tails.

    It has no layers of operators and reads no text, so it has no place for positions. Augmenters change its vectors
    where a token alone decides the change, as trained vectors of link predictors do.

    Queries are executed in float32, also with weights and outputs of half precision: products of small vectors, sums of
    angles and complements, which may jump where a number is zero, carry a rounding far. So its networks are of
    `peirce.parts.Linear`.

    Attributes:
        widening: how many times `unary` the hidden width is where a spec says nothing.
    """

    Dims = SystemDims
    places: ClassVar[frozenset[Place]] = frozenset()
    branches = "U"
    layer = ""
    scope = "bidirectional"
    fixed_layer = True
    widening: ClassVar[int] = 2

    @classmethod
    def sizes(cls, options: Any, dims: SystemDims) -> Mapping[str, int]:
        """A width, and the hidden width of the system's networks."""
        hidden = dims.feedforward or cls.widening * dims.unary
        return {"layers": 1, "unary": dims.unary, "feedforward_unary": hidden}

    @classmethod
    def check(cls, options: Any, dims: SystemDims) -> str | None:
        """The numbers are of two sorts."""
        if dims.unary % 2:
            return f"unary = {dims.unary} numbers cannot be of two sorts; make it even"
        return None

    def __init__(self, options: Any, plan: Plan) -> None:
        super().__init__(options, plan)
        self.plan = plan
        self.dimensions = plan.dims.unary // 2
        self.augmenters = nn.ModuleList(planned.build(plan.dims) for planned in plan.augmenters)
        for planned in plan.augmenters:
            if planned.part.words is Augmenter.words:
                raise PlanError(
                    f"{plan.spec.at(planned.path)}: augmenter {planned.name!r} changes tokens in their places, and "
                    f"architecture {self.name!r} reads none; leave it out"
                )
        self.vectors = nn.Parameter(self.initial_vectors(plan.dims.vocabulary, plan.dims.unary))

    @abstractmethod
    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Initial vectors of `count` tokens for a new model: [count, width]."""

    @abstractmethod
    def execute(self, literals: Literals, words: Tensor) -> Tensor:
        """What stands at the tail of each literal when the query is executed: [b, x, d1].

        Args:
            literals: the queries.
            words: [v, d1], the vectors of tokens, in float32 or float64.
        """

    def names(self) -> Tensor:
        """The vectors of tokens before augmenters, [v, d1]."""
        return self.vectors

    def points(self, words: Tensor) -> Tensor:
        """The vectors of tokens as heads see them, [v, d1] -> [v, d1]."""
        return words

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The literals: what stands at their tails and heads, relations, variables, negations."""
        return literal_specs(self.plan.dims.vocabulary)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """What stands at the tail of each literal."""
        return (unary_output(self.plan.dims.unary),)

    def example_inputs(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> Mapping[str, Tensor]:
        """Literals of trees: of one conjunction, or each half of them of its own."""
        rows = []
        for row in drawn["input_ids"]:
            half = int(torch.randint(0, 2, (), generator=generator)) * len(row) // 2
            first, second = (
                random_tree(count, generator) if count else [] for count in (len(row) - half, half)
            )
            rows.append([*first, *((s and s + VARIABLES, t + VARIABLES) for s, t in second)])
        sources, targets = torch.tensor(rows).view(*drawn["input_ids"].shape, 2).unbind(2)
        return {"atom_sources": sources, "atom_targets": targets}

    def reference(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Sizes
    ) -> PlainMap | None:
        """What stands at the tail of each literal."""
        inputs = (given[name] for name in ("input_ids", *LITERAL_INPUTS))
        literals = [PlainLiteral(*each) for each in zip(*inputs, strict=True)]
        stated = self.plain_execute(literals, np.asarray(parameters["vectors"]), parameters)
        return None if stated is None else {"unary": stated}

    def plain_execute(
        self, literals: Sequence[PlainLiteral], vectors: Numbers, parameters: Mapping[str, Any]
    ) -> list[Numbers] | None:
        """`execute` of one query, literal by literal, for `reference`; None where it is not stated."""
        return None

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Execute the queries."""
        literals = Literals.of(inputs)
        words = self.names()
        for augmenter in cast(Iterable[Augmenter], self.augmenters):
            words = augmenter.open_gate(words, augmenter.words(words))
        kind, words = words.dtype, at_least_float32(words)
        with without_autocast(words):
            unary, points = self.execute(literals, words), self.points(words)
        real, length = inputs.get("attention_mask"), literals.tails.shape[1]
        index = torch.arange(length, device=literals.tails.device).unsqueeze(0)
        if real is not None:
            index = (real.long().cumsum(1) - 1).clamp_min(0)
        scope, tokens = Scope.padding(real), Tokens(inputs, real, index, length)
        unary = scope.zero_unary(unary)
        return Encoded(unary.to(kind), None, None, scope, points.to(kind), (unary, points)), tokens


class Norm(nn.LayerNorm):
    """A norm in the precision of what it normalises."""

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=1e-6)

    def forward(self, values: Tensor) -> Tensor:
        """[..., d] -> [..., d]."""
        weight, bias = self.weight.to(values.dtype), self.bias.to(values.dtype)
        return F.layer_norm(values, self.normalized_shape, weight, bias, self.eps)


def embed_tokens(words: Tensor, tokens: Tensor) -> Tensor:
    """[v, d], [b, x] -> [b, x, d]."""
    return F.embedding(tokens, words)


def complex_product(left: Tensor, right: Tensor) -> Tensor:
    """The products of complex numbers, real parts first, then imaginary ones: [..., d1], [..., d1] -> [..., d1]."""
    a, b = left.chunk(2, -1)
    c, d = right.chunk(2, -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


def plain_norm(values: Numbers, parameters: Mapping[str, Any], name: str) -> Numbers:
    """A `Norm` of vectors [..., d], for `reference`."""
    return plain_standard(values, 1e-6) * parameters[f"{name}.weight"] + np.asarray(
        parameters[f"{name}.bias"]
    )


def plain_standard(values: Numbers, eps: float) -> Numbers:
    """Vectors [..., d] of mean 0 and variance 1."""
    centred = values - values.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps))


def as_complex(vector: Numbers) -> NDArray[np.complex128]:
    """The complex numbers of a vector, for `reference`."""
    real, imaginary = np.split(vector, 2)
    return np.asarray(real + 1j * imaginary)


def conjugate(values: Tensor) -> Tensor:
    """[..., d1] -> [..., d1]."""
    real, imaginary = values.chunk(2, -1)
    return torch.cat([real, -imaginary], -1)

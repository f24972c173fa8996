"""A part as checks see it, whatever its kind: tensors in, tensors out, and a way to make it afresh.

`OperatorSubject` prepares kernels and premises exactly as the composer does, so that a check of an operator needs no
architecture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from attrs import define, evolve, field
from torch import Tensor, nn

from peirce.components import (
    BinaryPosition,
    Branch,
    Dims,
    Encoded,
    Operator,
    PairPosition,
    Position,
    Reader,
    ScopePosition,
    StateOperator,
    Tokens,
    UnaryPosition,
)
from peirce.errors import PeirceError
from peirce.model import Model, build
from peirce.pairs import PairBias
from peirce.predicates import Predicates
from peirce.registry import Registered, Registry
from peirce.scope import Scope
from peirce.signature import TensorSpec
from peirce.spec import Spec
from peirce.testing.composed import build_random, fitting, randomised, tiny_spec
from peirce.testing.failures import BrokenError
from peirce.testing.options import choices, example_options
from peirce.testing.strategies import BASE, normal
from peirce.testing.views import SCOPE_KINDS, Slot, View

Outputs = list[tuple[Slot, Tensor]]
"""What a part gave, each tensor with what its axes count."""

STANDARD = (
    Slot("input_ids", ("batch", "length"), "int64", BASE.vocabulary),
    Slot("token_type_ids", ("batch", "length"), "int64", BASE.token_types),
)
"""The inputs that positions, augmenters and heads may always look at."""


@define
class Subject(ABC):
    """A part with its options and sizes.

    Attributes:
        examples: how many generated examples a property is tried on.
        module: whether the part has parameters.
    """

    part: type[Any]
    options: Any
    label: str
    dims: Dims = BASE
    examples: ClassVar[int] = 12
    module: ClassVar[bool] = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of scope that the part takes."""
        return ("bidirectional",)

    @abstractmethod
    def make(self, *, seed: int = 0, random: bool = True, dtype: torch.dtype = torch.float64) -> Any:
        """The part itself, newly made and in evaluation mode.

        Args:
            seed: what its parameters depend on.
            random: whether parameters get values of order one; otherwise they stay as the part initialises them.
            dtype: their dtype.
        """

    @abstractmethod
    def reads(self) -> tuple[Slot, ...]:
        """The tensors that the part is run on."""

    @abstractmethod
    def run(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """Run the part, and set what it gave outside the scope to zero, as the composer does.

        Args:
            made: from `make`.
            tensors: as `reads` says.
            view: who sees whom.
            scope: the same in another form.
        """

    @abstractmethod
    def writes(self, made: Any) -> tuple[Slot, ...]:
        """The tensors that the part declares to give; a batch axis may have size 1 in positions."""

    def raw(self, made: Any, tensors: Sequence[Tensor], view: View) -> Outputs:
        """As `run`, without the zeros that the composer sees to."""
        return self.run(made, tensors, view)

    def resized(self, dims: Dims) -> Subject:
        """The part at other sizes, if it accepts them; a part that refuses them stays as it is."""
        return self

    @property
    def sizes(self) -> str:
        """The sizes that operators and heads depend on, for failures."""
        dims = self.dims
        return f"unary {dims.unary}, binary {dims.binary}, heads {dims.heads}, head_size {dims.head_size}"

    def draw(
        self, view: View, generator: torch.Generator, dtype: torch.dtype = torch.float64, scale: float = 1.0
    ) -> list[Tensor]:
        """Values for `reads`: floats of order `scale`, integers below the slot's bound."""
        return [values(slot, view, generator, dtype, scale) for slot in self.reads()]

    def extreme(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors with softmax logits of +-1e4 in place of whatever logits they hold."""
        return list(tensors)

    def once(self, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """Run a newly made part."""
        return self.run(self.make(), tensors, view, scope)


def subjects_of(entry: Registered, registry: Registry) -> Iterator[Subject]:
    """The part with its example options, then with each other choice of an option that has a few."""
    options = example_options(entry.part)
    labelled = [("its example options", options), *choices(options)]
    for i, (label, chosen) in enumerate(labelled):
        if entry.kind == "architectures":
            # Every kind of scope once; the other choices in the two scopes that differ most.
            kinds = SCOPE_KINDS if i == 0 else ("bidirectional", "causal")
            specs = {}
            for kind in kinds:
                try:
                    specs[kind] = fitting(tiny_spec(entry.part, chosen, scope=kind), registry)
                except PeirceError as error:
                    if i == 0 and kind == "bidirectional":
                        raise BrokenError(f"a tiny model of it cannot be composed: {error}") from error
            yield ArchitectureSubject(
                part=entry.part, options=chosen, label=label, specs=specs, registry=registry
            )
            continue
        subject = _KINDS[entry.kind, issubclass(entry.part, StateOperator)](entry.part, chosen, label)
        refusal = _refusal(entry.part, chosen, subject.dims)
        if refusal is None:
            yield subject
        elif i == 0:
            raise BrokenError(f"check refuses the part's example options at {subject.dims}: {refusal}")


def _refusal(part: type[Any], options: Any, dims: Dims) -> str | None:
    """Why a part cannot work; an operator can if it takes some kind of scope."""
    if issubclass(part, Operator | StateOperator):
        answers = [part.check(options, dims, kind) for kind in SCOPE_KINDS]
        return None if None in answers else str(answers[0])
    return part.check(options, dims)


def values(
    slot: Slot, view: View, generator: torch.Generator, dtype: torch.dtype, scale: float = 1.0
) -> Tensor:
    """A tensor for a slot."""
    sizes = {"batch": view.batch, "length": view.length}
    shape = [axis if isinstance(axis, int) else sizes.get(axis, 2) for axis in slot.axes]
    if slot.dtype == "int64":
        return torch.randint(0, slot.high or 2, shape, generator=generator)
    if slot.dtype == "bool":
        return torch.rand(shape, generator=generator) < 0.5
    return normal(shape, generator, dtype) * scale


def seeded(make: Callable[[], Any], seed: int) -> Any:
    """What `make` gives when torch's own generator starts at a seed; the generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


@define
class _SizedSubject(Subject):
    """A part that is built as `cls(options, dims)`."""

    def resized(self, dims: Dims) -> Subject:
        return evolve(self, dims=dims) if _refusal(self.part, self.options, dims) is None else self

    def make(self, *, seed: int = 0, random: bool = True, dtype: torch.dtype = torch.float64) -> Any:
        made = seeded(lambda: self.part(self.options, self.dims), seed)
        if isinstance(made, nn.Module):
            made = made.to(torch.float64)
            if random:
                randomised(made, seed)
            made = made.to(dtype).eval()
        return made


# Operators.


@define
class OperatorSubject(_SizedSubject):
    """An operator, run on raw kernels and premises: what its projections give before the composer looks at them."""

    module: ClassVar[bool] = False
    examples: ClassVar[int] = 16

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that the part takes."""
        return tuple(k for k in SCOPE_KINDS if self.part.check(self.options, self.dims, k) is None)

    def readers(self) -> tuple[Reader, Reader]:
        """The operator's kernel and premise."""
        made = self.make()
        return made.kernel(), made.premise()

    def reads(self) -> tuple[Slot, ...]:
        """What the part is run on."""
        kernel, premise = self.readers()
        return _slot("kernel", kernel.branch, kernel.shape), _slot("premise", premise.branch, premise.shape)

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """What the part declares."""
        output = made.output()
        return (_slot("output", output.branch, output.shape),)

    def run(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """See `Subject.run`."""
        scope = scope or view.scope()
        ((slot, result),) = self._infer(made, tensors, scope)
        return [(slot, scope.zero_unary(result) if len(slot.tokens) == 1 else scope.zero_binary(result))]

    def raw(self, made: Any, tensors: Sequence[Tensor], view: View) -> Outputs:
        """See `Subject.raw`."""
        return self._infer(made, tensors, view.scope())

    def extreme(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """See `Subject.extreme`."""
        readers = self.readers()
        return [
            t.sign() * 1e4 if r.activation == "softmax" else t for r, t in zip(readers, tensors, strict=True)
        ]

    def _infer(self, made: Operator, tensors: Sequence[Tensor], scope: Scope) -> Outputs:
        result = made.infer(*prepare(made, tensors[0], tensors[1], scope), scope)
        return [(self.writes(made)[0], result)]


def prepare(operator: Operator, kernel: Tensor, premise: Tensor, scope: Scope) -> tuple[Tensor, Tensor]:
    """A kernel and a premise as `infer` gets them, from what their projections give.

    A binary softmax kernel is normalised over the scope. Other binary channels of an operator that sums over tokens
    are zero outside the scope. Everything else stays: unary logits, and whatever stands at padding.
    """
    ready = []
    for reader, values in ((operator.kernel(), kernel), (operator.premise(), premise)):
        if reader.branch == "B" and reader.activation == "softmax":
            values = scope.softmax(values)
        elif reader.branch == "B" and operator.scope_rule == "reduce":
            values = scope.zero_binary(values)
        ready.append(values)
    return ready[0], ready[1]


@define
class StateOperatorSubject(_SizedSubject):
    """An operator with parameters of its own, run on atoms that are zero outside the scope."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that the part takes."""
        return tuple(k for k in SCOPE_KINDS if self.part.check(self.options, self.dims, k) is None)

    def reads(self) -> tuple[Slot, ...]:
        """What the part is run on."""
        return _slot("unary", "U", {"d": self.dims.unary}), _slot("binary", "B", {"d": self.dims.binary})

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """What the part declares."""
        return self.reads()

    def run(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """See `Subject.run`."""
        scope = scope or view.scope()
        unary, binary = tensors
        result = made(Predicates(scope.zero_unary(unary), scope.zero_binary(binary)), scope)
        outputs = [(self.reads()[0], scope.zero_unary(result.unary))]
        if result.binary is not None:
            outputs.append((self.reads()[1], scope.zero_binary(result.binary)))
        return outputs


# Positions, augmenters and heads.


@define
class TokenSubject(_SizedSubject):
    """A part that looks at tokens."""

    def reads(self) -> tuple[Slot, ...]:
        """What the part is run on."""
        return self.token_slots()

    def token_slots(self) -> tuple[Slot, ...]:
        """The standard inputs, and those that the part declares."""
        own = slots(self.make().inputs())
        return (*(slot for slot in STANDARD if slot.name not in {s.name for s in own}), *own)

    def tokens(self, tensors: Sequence[Tensor], view: View) -> Tokens:
        """The tokens, from the first tensors of `reads`."""
        inputs = {slot.name: tensor for slot, tensor in zip(self.token_slots(), tensors, strict=False)}
        if view.real is not None:
            inputs["attention_mask"] = view.real
        return Tokens(inputs, view.real, view.index, view.length)


@define
class PositionSubject(TokenSubject):
    """A position, asked at every place that it serves; a pair bias shows the vector of every pair."""

    def run(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """See `Subject.run`."""
        return [(slot, spread(tensor, slot, view)) for slot, tensor in self.raw(made, tensors, view)]

    def raw(self, made: Position, tensors: Sequence[Tensor], view: View) -> Outputs:
        """See `Subject.raw`."""
        tokens = self.tokens(tensors, view)
        given: list[Tensor] = []
        if isinstance(made, UnaryPosition):
            given.append(made.unary(tokens))
        if isinstance(made, BinaryPosition):
            given.append(made.binary(tokens))
        if isinstance(made, ScopePosition):
            given.append(made.scope(tokens))
        outputs = list(zip(self.writes(made), given, strict=True))
        if isinstance(made, PairPosition):
            biases = made.pairs(tokens)
            if len(biases) != self.dims.layers:
                raise BrokenError(f"pairs gives {len(biases)} biases for {self.dims.layers} layers")
            for layer, bias in enumerate(biases):
                outputs += pair_vectors(bias, f"layer {layer}", self.dims)
        return outputs

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """What the part declares."""
        declared = []
        if isinstance(made, UnaryPosition):
            declared.append(_slot("unary", "U", {"d": self.dims.unary}))
        if isinstance(made, BinaryPosition):
            declared.append(_slot("binary", "B", {"d": self.dims.binary}))
        if isinstance(made, ScopePosition):
            declared.append(Slot("scope", ("batch", "length", "length"), "bool"))
        return tuple(declared)


def pair_vectors(bias: PairBias, name: str, dims: Dims) -> Outputs:
    """Every pair's key and value vector and score, as the definition of a pair bias says, table row by table row."""
    rows = torch.zeros_like(bias.ids[:, :, 0]) if bias.rows is None else bias.rows
    outputs = []
    for role, table, size in (
        ("key", bias.key, (dims.heads, dims.head_size)),
        ("value", bias.value, (dims.heads, dims.head_size)),
        ("score", bias.score, (dims.heads,)),
    ):
        if table is not None:
            vectors = table[rows.unsqueeze(2), bias.ids].expand(-1, -1, -1, *size)
            outputs.append((Slot(f"{name} {role}", ("batch", "length", "length", *size)), vectors))
    return outputs


@define
class AugmenterSubject(TokenSubject):
    """An augmenter, run on embeddings of order one."""

    def reads(self) -> tuple[Slot, ...]:
        """What the part is run on."""
        return (*self.token_slots(), _slot("embeddings", "U", {"d": self.dims.unary}))

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """What the part declares."""
        return (_slot("embeddings", "U", {"d": self.dims.unary}),)

    def run(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """See `Subject.run`."""
        return [(self.writes(made)[0], made(tensors[-1], self.tokens(tensors, view)))]


@define
class HeadSubject(TokenSubject):
    """A head, run on atoms that are zero outside the scope, and on a pooled output."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that the part takes."""
        return SCOPE_KINDS

    def reads(self) -> tuple[Slot, ...]:
        """What the part is run on."""
        dims = self.dims
        return (
            *self.token_slots(),
            _slot("unary", "U", {"d": dims.unary}),
            _slot("binary", "B", {"d": dims.binary}),
            Slot("pooled", ("batch", dims.unary)),
            Slot("embeddings", (dims.vocabulary, dims.unary)),
        )

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """What the part declares."""
        return slots(made.outputs())

    def predict(self, made: Any, tensors: Sequence[Tensor], view: View) -> dict[str, Tensor]:
        """The head's outputs by name."""
        scope = view.scope()
        unary, binary, pooled, embeddings = tensors[-4:]
        atoms = scope.zero_unary(unary), scope.zero_binary(binary)
        return made(Encoded(*atoms, pooled, scope, embeddings), self.tokens(tensors, view))

    def run(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """See `Subject.run`."""
        return named(self.predict(made, tensors, view), self.writes(made))


@define
class ArchitectureSubject(Subject):
    """A tiny model of an architecture, one for each kind of scope, run on the inputs of its signature."""

    specs: Mapping[str, Spec] = field(kw_only=True)
    registry: Registry = field(kw_only=True)
    _models: dict[Any, Model] = field(factory=dict, init=False)
    examples: ClassVar[int] = 8

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that the part takes."""
        return tuple(self.specs)

    def make(self, *, seed: int = 0, random: bool = True, dtype: torch.dtype = torch.float64) -> Any:
        """A model for each kind of scope; kept, since composing one takes a thousand times as long as running it."""
        return {kind: self.model(kind, seed=seed, random=random, dtype=dtype) for kind in self.specs}

    def model(self, kind: str, *, seed: int, random: bool, dtype: torch.dtype) -> Model:
        """The model of one kind of scope."""
        key = kind, seed, random, dtype
        if key not in self._models:
            if random:
                self._models[key] = build_random(self.specs[kind], self.registry, dtype=dtype, seed=seed)
            else:
                self._models[key] = build(
                    self.specs[kind], seed=seed, registry=self.registry, dtype=dtype
                ).eval()
        return self._models[key]

    def forget(self) -> None:
        """Let go of the models that were kept; the next ones are composed anew."""
        self._models.clear()

    def reads(self) -> tuple[Slot, ...]:
        """What the part is run on."""
        model = next(iter(self.make().values()))
        shown = ("attention_mask", "prefix_length", "relation")
        return tuple(slot for slot in slots(model.signature.inputs) if slot.name not in shown)

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """What the part declares."""
        return slots(next(iter(made.values())).signature.outputs)

    def run(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """See `Subject.run`."""
        model = made[view.kind]
        inputs = {slot.name: tensor for slot, tensor in zip(self.reads(), tensors, strict=True)}
        for name, shown in (
            ("attention_mask", view.real), ("prefix_length", view.prefix), ("relation", view.relation),
        ):  # fmt: skip
            if shown is not None:
                inputs[name] = shown
        return named(model(**inputs), self.writes(made))


def slots(specs: Iterable[TensorSpec]) -> tuple[Slot, ...]:
    """The slots of declared tensors."""
    return tuple(Slot(spec.name, spec.dims, spec.dtype, spec.high) for spec in specs)


def named(outputs: Mapping[str, Tensor], declared: Iterable[Slot]) -> Outputs:
    """Named outputs beside their slots, which must be the same names in the same order.

    Raises:
        BrokenError: they are not.
    """
    expected = [slot.name for slot in declared]
    if list(outputs) != expected:
        raise BrokenError(f"it declares the outputs {expected}, and gives {list(outputs)}")
    return [(slot, outputs[slot.name]) for slot in declared]


def spread(tensor: Tensor, slot: Slot, view: View) -> Tensor:
    """A tensor whose batch axis may have size 1, for every example."""
    batch = tensor.shape[slot.axes.index("batch")]
    return tensor.expand(view.batch, *tensor.shape[1:]) if batch == 1 else tensor


def _slot(name: str, branch: Branch, shape: Mapping[str, int]) -> Slot:
    return Slot(name, ("batch", "length", *(["length"] if branch == "B" else []), *shape.values()))


_KINDS: Mapping[tuple[str, bool], type[Subject]] = {
    ("operators", False): OperatorSubject,
    ("operators", True): StateOperatorSubject,
    ("positions", False): PositionSubject,
    ("augmenters", False): AugmenterSubject,
    ("heads", False): HeadSubject,
}

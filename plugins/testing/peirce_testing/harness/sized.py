"""Parts that are built as `cls(options, dims)`: all kinds but architectures, each by its contract.

What operators read is prepared as the composer does, without an architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, ClassVar, final

import torch
from attrs import define, evolve, field
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.kernels import AtomBias, PairBias, PairTerm, Rotation
from peirce.networks import recur
from peirce.parts import (
    PLACES,
    Augmenter,
    Branch,
    Dims,
    Encoded,
    Head,
    ModulePart,
    PairPosition,
    Part,
    Place,
    Position,
    PureOperator,
    RecurrentOperator,
    RotaryPosition,
    ScopePosition,
    StateOperator,
    Tokens,
)
from peirce_testing.compare import BrokenError
from peirce_testing.examples import SCOPE_KINDS, Slot, Tensors, View, normal, plain_view
from peirce_testing.harness.base import Harness, name_outputs, slots
from peirce_testing.harness.labels import WHOLE_GROUPS, losses
from peirce_testing.tiny_models import randomise


@define
class SizedHarness(Harness):
    """A part that is built as `cls(options, dims)`.

    Attributes:
        scopes: the kinds of scope that such parts are run in; where they take none of these, those that their
            `check` takes.
    """

    scopes: ClassVar[tuple[str, ...]] = ("bidirectional",)

    @property
    @final
    def kinds(self) -> tuple[str, ...]:
        """See `Harness.kinds`."""
        taken = tuple(k for k in SCOPE_KINDS if self.part.check(self.options, self.dims, k) is None)
        return self.scopes if {*self.scopes} & {*taken} else taken

    @final
    def resize(self, dims: Dims) -> Harness:
        """See `Harness.resize`."""
        return evolve(self, dims=dims) if refusal(self.part, self.options, dims) is None else self

    @final
    def with_dropout(self, rate: float) -> Harness:
        """See `Harness.with_dropout`."""
        return evolve(self, dims=evolve(self.dims, dropout=rate))

    @final
    def make(self, *, seed: int = 0, random: bool = True, dtype: torch.dtype = torch.float64) -> Any:
        """See `Harness.make`."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(
                seed
            )  # `torch.manual_seed` takes a millisecond for other devices
            instance = self.part(self.options, self.dims)
        if isinstance(instance, nn.Module):
            instance = instance.to(torch.float64)
            if random:
                randomise(instance, seed)
            instance = instance.to(dtype).eval()
        return instance


def refusal(part: type[Any], options: Any, dims: Dims) -> str | None:
    """Why a part cannot work; None if it takes some kind of scope."""
    answers = [part.check(options, dims, kind) for kind in SCOPE_KINDS]
    return None if None in answers else str(answers[0])


def atoms(name: str, branch: Branch, *shape: int, logits: bool = False) -> Slot:
    """The slot of a tensor with channels for each token of a branch, or for each pair."""
    return Slot(name, ("batch", *["length"] * (1 if branch == "U" else 2), *shape), logits=logits)


@define
class LayerHarness(SizedHarness):
    """An operator of any contract, whose output is zero outside the scope."""

    scopes: ClassVar[tuple[str, ...]] = ()

    def complete(self, outputs: Tensors, view: View, scope: Scope) -> Tensors:
        """Zero outside the scope."""
        return outputs.map(lambda s, t: scope.zero_unary(t) if len(s.tokens) == 1 else scope.zero_binary(t))


@define
class OperatorHarness(LayerHarness):
    """An operator, run on raw channels: what its projections give before the composer uses them."""

    module: ClassVar[bool] = False
    examples: ClassVar[int] = 16

    def reads(self) -> tuple[Slot, ...]:
        """Its readings, and the weights of its equation."""
        instance = self.make()
        channels = (
            atoms(name, end.branch, *end.shape.values(), logits=end.activation == "softmax")
            for name, end in instance.readings().items()
        )
        weights = (Slot(name, (*weight.shape.values(),)) for name, weight in instance.weights().items())
        return (*channels, *weights)

    def writes(self, instance: Any) -> tuple[Slot, ...]:
        """The output."""
        output = instance.output()
        return (atoms("output", output.branch, *output.shape.values()),)

    def compute(self, instance: Any, tensors: Tensors, view: View, scope: Scope) -> Tensors:
        """The operator's inference."""
        return Tensors(
            [(self.writes(instance)[0], instance.infer(*prepare(instance, tensors, scope), scope))]
        )


def prepare(operator: PureOperator, tensors: Tensors, scope: Scope) -> list[Tensor]:
    """Channels as `infer` gets them, from what their projections give; weights behind them stay as they are.

    A binary softmax kernel is normalised over the scope. Other binary channels of an operator that sums over tokens
    are zero outside the scope. Everything else stays: unary logits, and whatever stands at padding.
    """
    ready = []
    for reader, (_, values) in zip_longest(operator.readings().values(), tensors):
        if reader is None:
            ready.append(values)
            continue
        if reader.branch == "B" and reader.activation == "softmax":
            values = scope.softmax(values)
        elif reader.branch == "B" and operator.scope_rule == "reduce":
            values = scope.zero_binary(values)
        ready.append(values)
    return ready


@define
class StateOperatorHarness(LayerHarness):
    """An operator with parameters of its own, run on atoms that are zero outside the scope."""

    def reads(self) -> tuple[Slot, ...]:
        """The atoms of both branches."""
        return atoms("unary", "U", self.dims.unary), atoms("binary", "B", self.dims.binary)

    def writes(self, instance: Any) -> tuple[Slot, ...]:
        """The increments of both."""
        return self.reads()

    def compute(self, instance: Any, tensors: Tensors, view: View, scope: Scope) -> Tensors:
        """The increments."""
        (_, unary), (_, binary) = tensors
        result = instance(Predicates(scope.zero_unary(unary), scope.zero_binary(binary)), scope)
        increments = zip(self.writes(instance), (result.unary, result.binary), strict=True)
        return Tensors((slot, increment) for slot, increment in increments if increment is not None)


@define
class RecurrentOperatorHarness(LayerHarness):
    """A recurrent operator, run step by step over the real tokens of a text: it sees what lies before each."""

    scopes: ClassVar[tuple[str, ...]] = ("causal",)

    def reads(self) -> tuple[Slot, ...]:
        """The unary atoms."""
        return (atoms("unary", "U", self.dims.unary),)

    def writes(self, instance: Any) -> tuple[Slot, ...]:
        """The outputs."""
        return (atoms("output", "U", self.dims.recurrent),)

    def compute(self, instance: Any, tensors: Tensors, view: View, scope: Scope) -> Tensors:
        """What the loop gives."""
        return Tensors([(self.writes(instance)[0], recur(instance, tensors[0][1], None, view.real)[0])])


@define
class TokenHarness(SizedHarness):
    """A part that reads tokens.

    Attributes:
        absent: the inputs that it is not given.
    """

    absent: frozenset[str] = field(default=frozenset(), kw_only=True)

    def without_optional(self) -> TokenHarness:
        """The part where what may be absent is: its optional inputs, and types of tokens that it does not ask for."""
        declared = {spec.name: spec.required for spec in self.make().inputs()}
        absent = {name for name, required in {"token_type_ids": False, **declared}.items() if not required}
        return evolve(self, absent=self.absent | absent)

    def reads(self) -> tuple[Slot, ...]:
        """The standard inputs, and those that the part declares."""
        declared = slots(self.make().inputs())
        axes = ("batch", "length")
        standard = (
            Slot("input_ids", axes, "int64", self.dims.vocabulary),
            Slot("token_type_ids", axes, "int64", self.dims.token_types),
        )
        return (*(slot for slot in standard if slot.name not in {s.name for s in declared}), *declared)

    def fit(self, drawn: Tensors, generator: torch.Generator) -> Tensors:
        """See `Harness.fit`."""
        if self.part.example_inputs is ModulePart.example_inputs:
            return drawn
        own = self.make().example_inputs({slot.name: tensor for slot, tensor in drawn}, generator)
        return drawn.map(lambda slot, tensor: own.get(slot.name, tensor))

    @final
    def tokens(self, tensors: Tensors, view: View) -> Tokens:
        """The tokens, from the tensors of `reads`."""
        known = {slot.name for slot in TokenHarness.reads(self)} - self.absent
        inputs = {slot.name: tensor for slot, tensor in tensors if slot.name in known}
        if view.real is not None:
            inputs["attention_mask"] = view.real
        return Tokens(MappingProxyType(inputs), view.real, view.index, view.length)


@define
class AugmenterHarness(TokenHarness):
    """An augmenter, run on tokens and embeddings of order one."""

    def reads(self) -> tuple[Slot, ...]:
        """The tokens and their embeddings."""
        return (*TokenHarness.reads(self), *self.writes(None))

    def writes(self, instance: Any) -> tuple[Slot, ...]:
        """The embeddings."""
        return (atoms("embeddings", "U", self.dims.unary),)

    def compute(self, instance: Any, tensors: Tensors, view: View, scope: Scope) -> Tensors:
        """The changed embeddings."""
        slot, embeddings = tensors[-1]
        return Tensors([(slot, instance(embeddings, self.tokens(tensors, view)))])


@define
class HeadHarness(TokenHarness):
    """A head, run on atoms that are zero outside the scope, and on a pooled output."""

    scopes: ClassVar[tuple[str, ...]] = SCOPE_KINDS

    def reads(self) -> tuple[Slot, ...]:
        """The tokens, and what an architecture gives to heads."""
        dims = self.dims
        return (
            *TokenHarness.reads(self),
            atoms("unary", "U", dims.unary),
            atoms("binary", "B", dims.binary),
            Slot("pooled", ("batch", dims.pooled)),
            Slot("embeddings", (dims.vocabulary, dims.unary)),
        )

    def writes(self, instance: Any) -> tuple[Slot, ...]:
        """The predictions."""
        return slots(instance.outputs())

    def compute(self, instance: Any, tensors: Tensors, view: View, scope: Scope) -> Tensors:
        """The predictions."""
        return name_outputs(self.predict(instance, tensors, view, scope), self.writes(instance))

    def encode(self, tensors: Tensors, view: View, scope: Scope | None = None) -> Encoded:
        """What an architecture gives to the head."""
        scope = scope or view.scope()
        (_, unary), (_, binary), (_, pooled), (_, embeddings) = tensors[-4:]
        return Encoded(
            scope.zero_unary(unary),
            None if "binary" in self.absent else scope.zero_binary(binary),
            None if "pooled" in self.absent else pooled,
            scope,
            embeddings,
        )

    def predict(self, instance: Any, tensors: Tensors, view: View, scope: Scope | None = None) -> Any:
        """The head's outputs by name."""
        found: dict[str, Tensor] = instance(self.encode(tensors, view, scope), self.tokens(tensors, view))
        return found

    def fit_losses(self, instance: Any) -> tuple[float, float]:
        """The losses of examples before the head is fitted to them, and after."""
        view = plain_view(self.kinds[0], WHOLE_GROUPS, 4)
        tensors = self.draw(view)
        with torch.no_grad():
            _, labels, before = losses(instance, self.predict(instance, tensors, view), torch.Generator())[0]
            instance.fit([(self.encode(tensors, view), self.tokens(tensors, view), labels, None)])
            return float(before), float(instance.loss(self.predict(instance, tensors, view), labels))


@define
class PositionHarness(TokenHarness):
    """A position, asked at every place that it serves.

    A pair bias shows the vector of every pair. Queries and keys show what other pair terms add to their scores and to
    sums of keys, and how they are turned.
    """

    def reads(self) -> tuple[Slot, ...]:
        """The tokens; and queries and keys, for a position inside attention."""
        if not issubclass(self.part, PairPosition | RotaryPosition):
            return TokenHarness.reads(self)
        shape = self.dims.heads, self.dims.head_size
        return (*TokenHarness.reads(self), *(atoms(name, "U", *shape) for name in ("query", "key")))

    def writes(self, instance: Any) -> tuple[Slot, ...]:
        """What each place is given, but the vectors of pairs, whose tables say how many there are."""
        places: dict[Place, Slot] = {
            "unary": atoms("unary", "U", self.dims.unary),
            "binary": atoms("binary", "B", self.dims.binary),
            "scope": Slot("scope", ("batch", "length", "length"), "bool"),
        }
        given = tuple(slot for place, slot in places.items() if isinstance(instance, PLACES[place]))
        counted = (
            (Slot("index", ("batch", "length"), "int64"),) if isinstance(instance, ScopePosition) else ()
        )
        return (*given, *counted)

    def compute(self, instance: Any, tensors: Tensors, view: View, scope: Scope) -> Tensors:
        """What each place is given: by methods that are called as the places are."""
        outputs, inside = self._given(instance, tensors, view)
        for layer, terms in enumerate(inside):
            for term in terms:
                name = f"layer {layer} turned" if isinstance(term, Rotation) else f"layer {layer}"
                if isinstance(term, PairBias):
                    outputs += _pair_vectors(term, name, self.dims)
                else:
                    shown = self._effect(term, tensors, scope)
                    outputs += ((evolve(slot, name=f"{name} {slot.name}"), value) for slot, value in shown)
        return outputs

    def in_layer(self, layer: int, instance: Any, tensors: Tensors, view: View) -> Tensors:
        """The outputs, those inside attention of one layer alone: `score`, `value`, and turned `query` and `key`."""
        scope = view.scope()
        outputs, inside = self._given(instance, tensors, view)
        for term in inside[layer] if inside else ():
            outputs += self._effect(term, tensors, scope)
        return self.complete(outputs, view, scope)

    def _given(
        self, instance: Any, tensors: Tensors, view: View
    ) -> tuple[Tensors, list[tuple[PairTerm | Rotation, ...]]]:
        """What the places before attention are given, and what each layer's attention is."""
        tokens = self.tokens(tensors, view)
        outputs = Tensors((slot, getattr(instance, slot.name)(tokens)) for slot in self.writes(instance))
        if isinstance(instance, ScopePosition):
            if not any(map(instance.holds_in, range(self.dims.layers))):
                raise BrokenError(f"holds_in: it holds in none of {self.dims.layers} layers")
            index = next(value for slot, value in outputs if slot.name == "index")
            if index.numel() and index.device.type != "meta" and int(index.min()) < 0:
                raise BrokenError(
                    f"index: tokens are counted from {int(index.min())}, padding included; from 0"
                )
        inside = []
        for place, method in ((PairPosition, "pairs"), (RotaryPosition, "rotations")):
            if isinstance(instance, place):
                inside.append(found := getattr(instance, method)(tokens))
                if len(found) != self.dims.layers:
                    raise BrokenError(
                        f"{method} gives {len(found)} for {self.dims.layers} layers; give one for each"
                    )
        terms = zip(*inside, strict=True)
        maps = self.read_atoms, self.read_atoms, self.dims.heads, self.dims.head_size
        return outputs, [
            tuple(
                each.read(*maps) if isinstance(each, AtomBias) else each for each in layer if each is not None
            )
            for layer in terms
        ]

    def read_atoms(self, atoms: Tensor) -> Tensor:
        """[r, d1] -> [r, h * s], as a map of queries or of keys would read what a term is made of."""
        shape = atoms.shape[1], self.dims.heads * self.dims.head_size
        return atoms @ normal(shape, torch.Generator().manual_seed(0)).to(atoms)

    def _effect(self, term: PairTerm | Rotation, tensors: Tensors, scope: Scope) -> Tensors:
        """What a term adds to scores of the queries and the keys, and to sums of the keys by them; or how it turns."""
        (asks, query), (slot, key) = tensors[-2:]
        if isinstance(term, Rotation):
            return Tensors([(asks, term.turn(query)), (slot, term.turn(key))])
        scores = torch.einsum("bxhs,bahs->bxah", query, key)
        score, value = term.score_term(query, key, scores, scope), term.value_term(scope.softmax(scores))
        outputs = Tensors()
        if score is not None:
            pairs = atoms("score", "B", self.dims.heads)
            outputs.append((pairs, scope.zero_binary(score.expand_as(scores))))
        if value is not None:
            outputs.append((evolve(slot, name="value"), value))
        return outputs

    def complete(self, outputs: Tensors, view: View, scope: Scope) -> Tensors:
        """A batch axis of size 1 holds for every example."""
        return outputs.map(lambda _, t: t.expand(view.batch, *t.shape[1:]) if len(t) == 1 else t)


def _pair_vectors(bias: PairBias, name: str, dims: Dims) -> Tensors:
    """Every pair's key and value vector and score, as the definition of a pair bias says, table row by table row."""
    rows = torch.zeros_like(bias.ids[:, :, 0]) if bias.rows is None else bias.rows
    outputs = Tensors()
    for role in ("key", "query", "value", "score"):
        if (table := getattr(bias, role)) is not None:
            for what, ids, count in (("ids", bias.ids, table.shape[1]), ("rows", rows, table.shape[0])):
                known = ids.numel() and ids.device.type != "meta"
                if known and not 0 <= (least := int(ids.min())) <= (most := int(ids.max())) < count:
                    found = f"{what} from {least} to {most}"
                    where = f"its table {role!r} has {count}: they lie in [0, {count})"
                    raise BrokenError(f"{name}: {found}, and {where}")
            size = (dims.heads,) if role == "score" else (dims.heads, dims.head_size)
            vectors = table[rows.unsqueeze(2), bias.ids].expand(-1, -1, -1, *size)
            outputs.append((Slot(f"{name} {role}", ("batch", "length", "length", *size)), vectors))
    return outputs


HARNESSES: Mapping[type[Part], type[SizedHarness]] = {
    PureOperator: OperatorHarness,
    StateOperator: StateOperatorHarness,
    RecurrentOperator: RecurrentOperatorHarness,
    Position: PositionHarness,
    Augmenter: AugmenterHarness,
    Head: HeadHarness,
}
"""By contract."""

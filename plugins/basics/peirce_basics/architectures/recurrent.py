"""recurrent: layers of one recurrent operator over the tokens, in both directions or one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from attrs import evolve, field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Scope
from peirce.errors import InputError, PlanError, unusable
from peirce.networks import (
    CachedState,
    Pooler,
    TokenInput,
    flatten_layer_cache,
    pooled_output,
    recur,
    select_layer_cache,
    unary_output,
)
from peirce.parts import (
    Architecture,
    Encoded,
    GenerativeArchitecture,
    Plan,
    RecurrentOperator,
    TensorSpec,
    Tokens,
    has_static_shapes,
)
from peirce.spec import Spec

DIRECTIONS = ("both", "forward")
TEXTS = ("joined", "apart")


@frozen(kw_only=True)
class RecurrentDims:
    """The sizes of a recurrent network; every one is a count.

    Args:
        layers: recurrences on top of each other.
        unary: width of the atoms; each of two directions has half of it.
        embedding: width of the embeddings, which the first layer reads; that of the atoms if 0. Heads that decode with
            the word embeddings need that.
    """

    layers: int = field(validator=validators.ge(1))
    unary: int = field(validator=validators.ge(1))
    embedding: int = field(default=0, validator=validators.ge(0))


@frozen(kw_only=True)
class RecurrentOptions:
    """How the tokens are read.

    Args:
        directions: `both` joins a recurrence from the left and one from the right; `forward` reads from the left alone.
        pooler: whether there is a pooled output.
        texts: whether the texts of an input, which token types tell apart, are read `joined`, or `apart`, each as if
            the others were not there: one encoder of a pair, as siamese networks have it.
    """

    directions: Literal["both", "forward"] = field(default="both", validator=validators.in_(DIRECTIONS))
    pooler: bool = True
    texts: Literal["joined", "apart"] = field(default="joined", validator=validators.in_(TEXTS))


class Recurrences(Architecture):
    """What networks of recurrent layers share; their options have `directions`."""

    Dims = RecurrentDims
    places = frozenset({"unary"})
    branches = "U"
    layer = "lstm"
    recurrent = True
    plan: Plan
    input: TokenInput

    @classmethod
    def sizes(cls, options: Any, dims: RecurrentDims) -> Mapping[str, int]:
        """Two directions share the width."""
        share = 2 if options.directions == "both" else 1
        return {"layers": dims.layers, "unary": dims.unary, "recurrent": dims.unary // share}

    @classmethod
    def check(cls, options: Any, dims: RecurrentDims) -> str | None:
        """Two directions share the width evenly."""
        if options.directions == "both" and dims.unary % 2:
            return (
                f"unary = {dims.unary} cannot be shared by two directions; make it even, or directions = "
                '"forward"'
            )
        return None

    def _build(self, plan: Plan, options: RecurrentOptions) -> None:
        """Build the input and the layers; the first layer may read embeddings of another width."""
        self.plan = plan
        first = evolve(plan, dims=evolve(plan.dims, unary=embedding_width(plan)))
        self.input = TokenInput(first, sorted(self.places))
        self.layers = nn.ModuleList(Layer(plan if i else first, options) for i in range(plan.dims.layers))

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, mask, token types, and what the parts add."""
        return self.input.specs()

    def _dropout(self, atoms: Tensor) -> Tensor:
        return F.dropout(atoms, self.plan.dims.dropout, self.training)


class Recurrent(Recurrences, GenerativeArchitecture):
    """Each layer reads the atoms of the one below, token by token, by the recurrent operator that `layer` names.

    Real tokens are brought together before a recurrence and taken back after it, so padding takes no part wherever it
    stands. Read forward in a causal scope, the network generates, and what it keeps is the state of each layer.
    """

    name = "recurrent"
    source = "SQE-LSTM (Bai et al., 2023); as a recurrence over tokens: Elman (1990)"
    Options = RecurrentOptions

    @classmethod
    def check_scope(cls, options: RecurrentOptions, scope: str) -> str | None:
        """A recurrence sees what lies before a token, and one from the right what lies after it."""
        if scope == "causal" and options.texts == "apart":
            return 'texts = "apart" reads whole texts and does not generate; set texts = "joined"'
        if scope == "bidirectional" or (scope == "causal" and options.directions == "forward"):
            return None
        if scope == "causal":
            return 'directions = "both" reads from both ends; set directions = "forward"'
        return f'a recurrence reads all tokens in their order, and no {scope} scope; leave `kind` out or set "causal"'

    @classmethod
    def gives(cls, options: RecurrentOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """A pooled output with a pooler."""
        return frozenset({"pooled"} if options.pooler else ())

    @classmethod
    def upgrade(cls, spec: Spec) -> Spec:
        """`[model.options] cell`, as 0.1.0 had it, is now `[model.operators] layer`.

        Raises:
            PlanError: the spec has both, and they differ.
        """
        if "cell" not in spec.options:
            return spec
        cell, layer = spec.options["cell"], spec.operators.layer
        if layer not in (None, cell):
            raise PlanError(
                f"{spec.at('model.options.cell')}: cell = {cell!r} is the older name of model.operators.layer, which "
                f"is {layer!r}; leave `cell` out"
            )
        options = {name: value for name, value in spec.options.items() if name != "cell"}
        return evolve(spec, options=options, operators=evolve(spec.operators, layer=cell))

    def __init__(self, options: RecurrentOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.options, self.texts = options, text_count(plan) if options.texts == "apart" else 1
        self._build(plan, options)
        self.pooler = Pooler(plan.dims.unary) if options.pooler else None

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms, and the pooled output."""
        pooled = (pooled_output(self.plan.dims.unary),) if self.pooler is not None else ()
        return (unary_output(self.plan.dims.unary), *pooled)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, bring the real tokens together, read layer by layer, take them back, pool."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        order = Order.of(tokens, self.texts)
        atoms = self._dropout(order.together(self.input.unary(tokens)))
        for layer in self.layers:
            atoms = self._dropout(layer(atoms, order))
        return self._end(order.back(atoms), tokens, scope), tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """The tokens before, and each layer's state after the last of them."""
        states = [
            TensorSpec(
                name=name, dtype="float", dims=("batch", *value.shape),
                meaning=f"The state of layer {i} after the tokens before.",
            )
            for i, layer in enumerate(cast(Iterable[Layer], self.layers))
            for name, value in flatten_layer_cache(i, dict(layer.forwards.initial())).items()
        ]  # fmt: skip
        return (*self.input.cached_state(), *states)

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """The states of tokens that follow others, from the state that those left; padding leaves it as it is."""
        tokens, kept = self.input.following(inputs, cache)
        if self.options.texts == "apart":
            raise InputError(
                'a network with texts = "apart" cannot continue a text; train one with texts = "joined"'
            )
        scope = self.input.scope(tokens)
        atoms = self._dropout(self.input.unary(tokens))
        real = None if tokens.real is None else tokens.rows(tokens.real)
        for i, layer in enumerate(cast(Iterable[Layer], self.layers)):
            atoms, state = layer.follow(atoms, select_layer_cache(i, cache) or None, real)
            atoms = self._dropout(atoms)
            kept |= flatten_layer_cache(i, state)
        return self._end(atoms, tokens, scope), tokens, kept

    def _end(self, atoms: Tensor, tokens: Tokens, scope: Scope) -> Encoded:
        """The final atoms of the rows, pooled."""
        atoms = scope.zero_unary(atoms)
        real = None if tokens.real is None else tokens.rows(tokens.real)
        pooled = self.pooler(atoms, real) if self.pooler is not None else None
        return Encoded(atoms, None, pooled, scope, self.input.words())


class Layer(nn.Module):
    """One recurrence, or one from either end."""

    def __init__(self, plan: Plan, options: RecurrentOptions) -> None:
        super().__init__()
        (planned,) = plan.mixing
        self.fuse = plan.fuse
        self.forwards: RecurrentOperator = planned.build(plan.dims)
        self.backwards: RecurrentOperator | None = None
        if options.directions == "both":
            self.backwards = planned.build(plan.dims)

    def forward(self, atoms: Tensor, order: Order) -> Tensor:
        """[b, x, d1] -> [b, x, d1], the real tokens first."""
        read = self._read(self.forwards, atoms)
        if self.backwards is None:
            return read
        return torch.cat([read, order.reversed(self._read(self.backwards, order.reversed(atoms)))], 2)

    def follow(
        self, atoms: Tensor, state: CachedState | None, real: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The atoms of tokens that follow others, [b, x, d1], and the state after them.

        Raises:
            InputError: the layer reads from both ends.
        """
        if self.backwards is not None:
            raise InputError(
                'a network with directions = "both" cannot continue a text; train one with directions = "forward"'
            )
        return recur(self.forwards, atoms, state, real)

    def _read(self, operator: RecurrentOperator, atoms: Tensor) -> Tensor:
        """By the operator's own fast way where it has one; a traced graph goes step by step, at any length."""
        read = operator.fused(atoms) if self.fuse and not torch.compiler.is_compiling() else None
        return recur(operator, atoms)[0] if read is None else read


def embedding_width(plan: Plan) -> int:
    """The width of the embeddings, which the first recurrence reads.

    Raises:
        PlanError: a head decodes with embeddings of another width than the atoms'.
    """
    atoms: int = plan.dims.unary
    width: int = plan.model_dims.embedding or atoms
    for head in plan.heads:
        if head.part.tied and width != atoms:
            reason = (
                f"it decodes with word embeddings, which are {width} wide, and the atoms are {atoms} wide; leave "
                "model.dims.embedding out"
            )
            raise PlanError(f"{plan.spec.at(head.path)}: {unusable(head, reason)}")
    return width


def text_count(plan: Plan) -> int:
    """How many texts an input has, one for each token type.

    Raises:
        PlanError: token types tell no texts apart.
    """
    if plan.dims.token_types < 2:
        raise PlanError(
            f"{plan.spec.at('model.input.token_types')}: texts are told apart by token types, and there are "
            f"{plan.dims.token_types}; set model.input.token_types to 2"
        )
    return plan.dims.token_types


class Order:
    """The rows that recurrences read: each text's real tokens from its first on, and then padding.

    Without padding and with one text everything stays where it is.

    Args:
        numbers: int64 [t b, x], the place of each token in its row; None where that is its own.
        real: bool [t b, x], the tokens of each row; None where that is all.
        backwards: int64 [t b or 1, n], the real tokens' numbers from the last to the first, then the padding.
        texts: t, how many texts each example has.
    """

    def __init__(self, numbers: Tensor | None, real: Tensor | None, backwards: Tensor, texts: int) -> None:
        self.numbers, self.real, self.backwards, self.texts = numbers, real, backwards, texts

    @classmethod
    def of(cls, tokens: Tokens, texts: int = 1) -> Order:
        """The order of a batch, whose token types tell `texts` texts apart."""
        places = torch.arange(tokens.length, device=tokens.index.device).unsqueeze(0)
        if tokens.real is None and texts == 1:
            return cls(None, None, places.flip(1), 1)
        ids = tokens.inputs["input_ids"]
        real = torch.ones_like(ids, dtype=torch.bool) if tokens.real is None else tokens.real
        if texts > 1:
            real = torch.cat([real & (tokens.types == text) for text in range(texts)])
        count = real.long().sum(1, keepdim=True)
        # Real tokens are counted, and padding is counted on from there.
        numbers = torch.where(real, real.long().cumsum(1) - 1, count + (~real).long().cumsum(1) - 1)
        if texts > 1 and not has_static_shapes(ids):
            # No row is longer than the longest text. A traced graph keeps the length of all texts together.
            longest = max(1, int(count.amax()))
            places, numbers = places[:, :longest], torch.where(numbers < longest, numbers, longest)
        return cls(numbers, real, torch.where(places < count, count - 1 - places, places), texts)

    def together(self, atoms: Tensor) -> Tensor:
        """Real tokens first: [b, x, d] -> [t b, n, d]."""
        if self.numbers is None:
            return atoms
        atoms = torch.cat([atoms] * self.texts) if self.texts > 1 else atoms
        index = self.numbers.unsqueeze(2).expand(-1, -1, atoms.shape[2])
        rows = self.backwards.shape[1]
        if self.texts > 1 and not torch.compiler.is_compiling():
            # What is beyond the longest text falls into one more place.
            rows_of_texts = atoms.new_zeros(len(atoms), rows + 1, atoms.shape[2])
            return rows_of_texts.scatter(1, index.clamp(max=rows), atoms)[:, :rows]
        return torch.zeros_like(atoms).scatter(1, index, atoms)

    def back(self, atoms: Tensor) -> Tensor:
        """Every token to its own place, zero outside the rows' texts: [t b, n, d] -> [b, x, d]."""
        if self.numbers is None or self.real is None:
            return atoms
        atoms = _gather_tokens(atoms, self.numbers.clamp(max=atoms.shape[1] - 1))
        if self.texts == 1:
            return atoms
        atoms = atoms.masked_fill(~self.real.unsqueeze(2), 0)
        return atoms.reshape(self.texts, -1, *atoms.shape[1:]).sum(0)

    def reversed(self, atoms: Tensor) -> Tensor:
        """The real tokens from the last to the first; its own inverse."""
        return _gather_tokens(atoms, self.backwards.expand(atoms.shape[0], -1))


def _gather_tokens(atoms: Tensor, places: Tensor) -> Tensor:
    """[b, x, d] with the tokens at `places` [b, x]."""
    return atoms.gather(1, places.unsqueeze(2).expand(-1, -1, atoms.shape[2]))

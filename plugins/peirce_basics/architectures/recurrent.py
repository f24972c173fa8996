"""recurrent: layers of one recurrent operator over the tokens, in both directions or one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, cast

import torch
import torch.nn.functional as F
from attrs import evolve, field, frozen, validators
from peirce.errors import InputError, PlanError
from peirce.parts import (
    CachedState,
    Encoded,
    GenerativeArchitecture,
    Plan,
    Pooler,
    RecurrentOperator,
    Scope,
    TensorSpec,
    TokenInput,
    Tokens,
    named_of_layer,
    of_layer,
    pooled_output,
    recur,
    unary_output,
)
from peirce.spec import Spec
from torch import Tensor, nn

DIRECTIONS = ("both", "forward")


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
    """

    directions: Literal["both", "forward"] = field(default="both", validator=validators.in_(DIRECTIONS))
    pooler: bool = True


class Recurrent(GenerativeArchitecture):
    """Each layer reads the atoms of the one below, token by token, by the recurrent operator that `layer` names.

    Real tokens are brought together before a recurrence and taken back after it, so padding takes no part wherever it
    stands. Read forward in a causal scope, the network generates, and what it keeps is the state of each layer.
    """

    name = "recurrent"
    source = "SQE-LSTM (Bai et al., 2023); as a recurrence over tokens: Elman (1990)"
    Dims = RecurrentDims
    Options = RecurrentOptions
    places = frozenset({"unary"})
    branches = "U"
    layer = "lstm"
    recurrent = True

    @classmethod
    def sizes(cls, options: RecurrentOptions, dims: RecurrentDims) -> Mapping[str, int]:
        """Two directions share the width."""
        share = 2 if options.directions == "both" else 1
        return {"layers": dims.layers, "unary": dims.unary, "recurrent": dims.unary // share}

    @classmethod
    def check(cls, options: RecurrentOptions, dims: RecurrentDims) -> str | None:
        """Two directions share the width evenly."""
        if options.directions == "both" and dims.unary % 2:
            return f'unary = {dims.unary} cannot be shared by two directions; make it even, or directions = "forward"'
        return None

    @classmethod
    def check_scope(cls, options: RecurrentOptions, scope: str) -> str | None:
        """A recurrence sees what lies before a token, and one from the right what lies after it."""
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
    def current(cls, spec: Spec) -> Spec:
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
        self.plan = plan
        width = plan.model_dims.embedding or plan.dims.unary
        first = evolve(plan, dims=evolve(plan.dims, unary=width))
        self.input = TokenInput(first, sorted(self.places))
        self.layers = nn.ModuleList(Layer(plan if i else first, options) for i in range(plan.dims.layers))
        self.pooler = Pooler(plan.dims.unary) if options.pooler else None

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, mask, token types, and what the parts add."""
        return self.input.specs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms, and the pooled output."""
        pooled = (pooled_output(self.plan.dims.unary),) if self.pooler is not None else ()
        return (unary_output(self.plan.dims.unary), *pooled)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, bring the real tokens together, read layer by layer, take them back, pool."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        order = _Order.of(tokens)
        atoms = self._dropped(order.together(self.input.unary(tokens)))
        for layer in self.layers:
            atoms = self._dropped(layer(atoms, order))
        return self._end(order.back(atoms), tokens, scope), tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """The tokens before, and each layer's state after the last of them."""
        return (
            *self.input.cached_state(),
            *(
                spec
                for i, layer in enumerate(cast(Iterable[Layer], self.layers))
                for spec in _states(i, layer)
            ),
        )

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """The same for tokens that follow others, from the state that those left; padding leaves it as it is."""
        tokens, kept = self.input.following(inputs, cache)
        scope = self.input.scope(tokens)
        atoms = self._dropped(self.input.unary(tokens))
        real = None if tokens.real is None else tokens.rows(tokens.real)
        for i, layer in enumerate(cast(Iterable[Layer], self.layers)):
            atoms, state = layer.follow(atoms, of_layer(i, cache) or None, real)
            atoms = self._dropped(atoms)
            kept |= named_of_layer(i, state)
        return self._end(atoms, tokens, scope), tokens, kept

    def _end(self, atoms: Tensor, tokens: Tokens, scope: Scope) -> Encoded:
        """The final atoms of the rows, pooled."""
        atoms = scope.zero_unary(atoms)
        real = None if tokens.real is None else tokens.rows(tokens.real)
        pooled = self.pooler(atoms, real) if self.pooler is not None else None
        return Encoded(atoms, None, pooled, scope, self.input.words())

    def _dropped(self, atoms: Tensor) -> Tensor:
        return F.dropout(atoms, self.plan.dims.dropout, self.training)


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

    def forward(self, atoms: Tensor, order: _Order) -> Tensor:
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
                'a network with directions = "both" reads whole texts; one that is "forward" goes on'
            )
        return recur(self.forwards, atoms, state, real)

    def _read(self, operator: RecurrentOperator, atoms: Tensor) -> Tensor:
        """By the operator's own fast way where it has one; a traced graph goes step by step, at any length."""
        read = operator.fused(atoms) if self.fuse and not torch.compiler.is_compiling() else None
        return recur(operator, atoms)[0] if read is None else read


def _states(i: int, layer: Layer) -> list[TensorSpec]:
    """The state of layer i."""
    return [
        TensorSpec(
            name=name, dtype="float", dims=("batch", *value.shape),
            meaning=f"The state of layer {i} after the tokens before.",
        )
        for name, value in named_of_layer(i, dict(layer.forwards.initial())).items()
    ]  # fmt: skip


class _Order:
    """Where the real tokens are; without padding everything stays where it is.

    Args:
        places: int64 [b, x], where the i-th real token stands, then the padding.
        backwards: int64 [b or 1, x], the real tokens' numbers from the last to the first, then the padding.
    """

    def __init__(self, places: Tensor | None, backwards: Tensor) -> None:
        self.places, self.backwards = places, backwards

    @classmethod
    def of(cls, tokens: Tokens) -> _Order:
        """The order of a batch."""
        numbers = torch.arange(tokens.length, device=tokens.index.device).unsqueeze(0)
        if tokens.real is None:
            return cls(None, numbers.flip(1))
        padding = (~tokens.real).long()
        count = tokens.real.long().sum(1, keepdim=True)
        # Each token's new number: real ones are counted, and padding is counted on from there.
        numbered = torch.where(tokens.real, tokens.index, count + padding.cumsum(1) - 1)
        places = torch.zeros_like(numbered).scatter(1, numbered, numbers.expand_as(numbered))
        return cls(places, torch.where(numbers < count, count - 1 - numbers, numbers))

    def together(self, atoms: Tensor) -> Tensor:
        """Real tokens first."""
        return atoms if self.places is None else _picked(atoms, self.places)

    def back(self, atoms: Tensor) -> Tensor:
        """Every token to its own place; the inverse of `together`."""
        if self.places is None:
            return atoms
        numbers = torch.arange(atoms.shape[1], device=atoms.device).expand_as(self.places)
        return _picked(atoms, torch.zeros_like(self.places).scatter(1, self.places, numbers))

    def reversed(self, atoms: Tensor) -> Tensor:
        """The real tokens from the last to the first; its own inverse."""
        return _picked(atoms, self.backwards.expand(atoms.shape[0], -1))


def _picked(atoms: Tensor, places: Tensor) -> Tensor:
    """[b, x, d] with the tokens at `places` [b, x]."""
    return atoms.gather(1, places.unsqueeze(2).expand(-1, -1, atoms.shape[2]))

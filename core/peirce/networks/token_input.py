"""From token ids to the network's initial atoms, scope and terms of attention: what every architecture begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast, final

import torch
from attrs import evolve
from torch import Tensor, nn

from peirce.algebra import Scope
from peirce.errors import InputError
from peirce.kernels import PairTerm, Rotation
from peirce.networks.channels import CachedState
from peirce.parts import (
    PLACES,
    Augmenter,
    BinaryPosition,
    PairPosition,
    Plan,
    Position,
    RotaryPosition,
    ScopePosition,
    TensorSpec,
    Tokens,
    UnaryPosition,
    call_named,
    merge_specs,
)

T = TypeVar("T")


@final
class TokenInput(nn.Module):
    """Embeds tokens and asks the positions and augmenters of a plan for what they give.

    Args:
        plan: the plan.
        places: the places that the architecture has; a position's other places are not asked for.
        scale: a factor on the word embeddings as they are read; heads tie to them without it.
    """

    def __init__(self, plan: Plan, places: Sequence[str], *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        dims = plan.dims
        self.plan = plan
        self.embedding = nn.Embedding(dims.vocabulary, dims.unary)
        self.token_type = nn.Embedding(dims.token_types, dims.unary) if dims.token_types else None
        self.positions = nn.ModuleList(planned.build(dims) for planned in plan.positions)
        self.augmenters = nn.ModuleList(planned.build(dims) for planned in plan.augmenters)
        self._by_place = {
            place: [p for p in self.positions if place in places and isinstance(p, base)]
            for place, base in PLACES.items()
        }
        self._specs = self._make_specs()
        # What is known of every token, by the axis of tokens; it is cached for later ones.
        self._token_inputs = [(s, s.dims.index("length")) for s in self._specs if s.dims.count("length") == 1]
        # What is known of a whole text is cached as it is; later tokens need no prefix.
        self._text_inputs = [
            s for s in self._specs
            if "batch" in s.dims and "length" not in s.dims and s.name != "prefix_length"
        ]  # fmt: skip

    def specs(self) -> tuple[TensorSpec, ...]:
        """The inputs: the standard ones, then those of the positions and augmenters."""
        return self._specs

    def _make_specs(self) -> tuple[TensorSpec, ...]:
        dims, kind = self.plan.dims, self.plan.scope.kind
        row = ("batch", "length")
        standard = (
            (True, TensorSpec(
                name="input_ids", dtype="int64", dims=row, high=dims.vocabulary, meaning="Token ids.",
                largest={"length": dims.max_length},
            )),
            (True, TensorSpec(
                name="attention_mask", dtype="bool", dims=row, required=False, default=True, masks="length",
                meaning="True at real tokens, false at padding.",
            )),
            (dims.token_types > 0, TensorSpec(
                name="token_type_ids", dtype="int64", dims=row, required=False, default=0, high=dims.token_types,
                meaning="Which of the joined sequences a token belongs to.",
            )),
            (kind == "prefix", TensorSpec(
                name="prefix_length", dtype="int64", dims=("batch",),
                meaning="How many of the first tokens see each other both ways.",
            )),
            (kind == "relation", TensorSpec(
                name="relation", dtype="bool", dims=("batch", "length", "length"),
                meaning="Whether the first token may attend to the second.",
            )),
        )  # fmt: skip
        planned = (*self.plan.positions, *self.plan.augmenters)
        parts = cast(Iterable[Position | Augmenter], (*self.positions, *self.augmenters))
        declared = [(each.name, part.inputs()) for each, part in zip(planned, parts, strict=True)]
        return merge_specs([("the model", [spec for wanted, spec in standard if wanted]), *declared])

    def tokens(self, inputs: Mapping[str, Tensor], before: int | None = None) -> Tokens:
        """The batch as parts see it: positions are counted over real tokens, on whichever side the padding is, or over
        all where the spec says so.

        Args:
            inputs: what is known of every token.
            before: how many tokens stand before the rows; None when every token is a row.
        """
        ids = inputs["input_ids"]
        length = ids.shape[1]
        real = inputs.get("attention_mask") if self.plan.scope.mask_padding else None
        if real is not None and _all_true(real):
            real = None
        if real is None or self.plan.scope.count_padding:
            index = torch.arange(length, device=ids.device).unsqueeze(0)
        else:
            index = (real.long().cumsum(1) - 1).clamp_min(0)
        tokens = Tokens(inputs, real, index, length, before)
        for position in cast(Iterable[ScopePosition], self._by_place["scope"]):
            tokens = replace(tokens, index=self._call_part(position, position.index, tokens))
        return tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """What is cached of the inputs: all that have a value for each token, or one for the text."""
        return tuple(
            evolve(
                spec,
                name=_cache_name(spec.name),
                dims=tuple("past" if dim == "length" else dim for dim in spec.dims),
                masks=None if spec.masks is None else "past",
                largest={"past": spec.largest["length"] - 1} if "length" in spec.largest else {},
                required=True,
                default=None,
                meaning=f"`{spec.name}` of the tokens before." if "length" in spec.dims else spec.meaning,
            )
            for spec in (*(spec for spec, _ in self._token_inputs), *self._text_inputs)
        )

    def following(self, inputs: Mapping[str, Tensor], cache: CachedState) -> tuple[Tokens, dict[str, Tensor]]:
        """The cached tokens and the new ones, which are the rows; and what to cache of both.

        Args:
            inputs: the inputs of the new tokens; with an empty cache, those of a full pass.
            cache: the tokens before, as this method returned them; empty at first.

        Raises:
            InputError: an input without a default is missing for the new tokens, or a position depends on the length.
        """
        ids = inputs["input_ids"]
        joined, new_cache = dict(inputs), {}
        for spec, axis in self._token_inputs:
            new = inputs[spec.name] if spec.name in inputs else self._default_tensor(spec, ids)
            past = cache.get(_cache_name(spec.name))
            joined[spec.name] = new_cache[_cache_name(spec.name)] = (
                new if past is None else torch.cat([past, new], axis)
            )
        for spec in self._text_inputs:
            name = _cache_name(spec.name)
            given = cache.get(name, inputs.get(spec.name))
            value = self._default_tensor(spec, ids) if given is None else given
            joined[spec.name] = new_cache[name] = value
        before = cache[_cache_name("input_ids")].shape[1] if cache else None
        tokens = self.tokens(joined, before)
        for position in cast(Iterable[Position], self.positions) if cache else ():
            if position.reuses_cache(1, self.plan.dims.max_length):
                continue
            old, new_length = (int(each.max()) + 1 for each in (tokens.index[:, :before], tokens.index))
            if not position.reuses_cache(old, new_length):
                raise InputError(
                    f"position {position.name!r} depends on the length, so that what is cached of {old} tokens does "
                    f"not serve a text of {new_length}; read the whole text again, with an empty cache"
                )
        return tokens, new_cache

    def scope(self, tokens: Tokens) -> Scope:
        """The scope that the spec asks for, restricted by the positions that hold in every layer.

        Rows that follow others see what is before them: a prefix is among the first rows, whole.
        """
        scope = Scope.padding(tokens.real, tokens.before)
        kind = self.plan.scope.kind
        if tokens.before is not None and _is_one_row(tokens):
            pass  # the last token sees all that are before it
        elif kind == "causal" or tokens.before is not None:
            scope = scope & Scope.past(tokens.length, tokens.index.device, tokens.before)
        elif kind == "prefix":
            scope = scope & Scope.prefix(tokens.inputs["prefix_length"], tokens.index)
        elif kind == "relation":
            scope = scope & Scope.relation(tokens.inputs["relation"])
        for position, holds in self._scope_positions():
            if all(holds):
                scope = scope & Scope.relation(self._call_part(position, position.scope, tokens))
        return scope.at(tokens.rows(tokens.index), tokens.index)

    def scopes(self, tokens: Tokens, scope: Scope) -> list[Scope]:
        """The scope of each layer: `scope`, restricted by the positions that hold in some layers alone."""
        scopes = [scope for _ in range(self.plan.dims.layers)]
        for position, holds in self._scope_positions():
            if not all(holds):
                restriction = Scope.relation(self._call_part(position, position.scope, tokens))
                scopes = [
                    each & restriction if own else each for each, own in zip(scopes, holds, strict=True)
                ]
        return scopes

    def _scope_positions(self) -> list[tuple[ScopePosition, list[bool]]]:
        """The positions that restrict the scope, and in which layers each of them does."""
        positions = cast(Iterable[ScopePosition], self._by_place["scope"])
        layers = range(self.plan.dims.layers)
        return [(position, [position.holds_in(layer) for layer in layers]) for position in positions]

    def unary(self, tokens: Tokens) -> Tensor:
        """[b, x, d1]: augmented embeddings, token types and unary positions, before any norm."""
        atoms = self.embedding(tokens.rows(tokens.inputs["input_ids"]))
        if self.scale != 1.0:
            atoms = atoms * self.scale
        for augmenter in cast(Iterable[Augmenter], self.augmenters):
            atoms = self._call_part(
                augmenter, lambda a=augmenter, before=atoms: a.open_gate(before, a(before, tokens))
            )
        if self.token_type is not None:
            types = tokens.inputs.get("token_type_ids")
            atoms = atoms + (
                self.token_type.weight[0] if types is None else self.token_type(tokens.rows(types))
            )
        for position in cast(Iterable[UnaryPosition], self._by_place["unary"]):
            atoms = self._call_part(position, lambda p=position, a=atoms: a + p.unary(tokens))
        return atoms

    def words(self) -> Tensor:
        """[v, d1]: the word embeddings that heads tie to, as the augmenters change them."""
        words = self.embedding.weight
        for augmenter in cast(Iterable[Augmenter], self.augmenters):
            words = self._call_part(
                augmenter, lambda a=augmenter, before=words: a.open_gate(before, a.words(before))
            )
        return words

    def binary(self, tokens: Tokens) -> Tensor:
        """[b, x, y, d2]: the sum of the binary positions, zero without any, before any norm."""
        batch = tokens.inputs["input_ids"].shape[0]
        rows = tokens.rows(tokens.index).shape[1]
        atoms = [
            self._call_part(p, p.binary, tokens)
            for p in cast(Iterable[BinaryPosition], self._by_place["binary"])
        ]
        if not atoms:
            return self.embedding.weight.new_zeros(batch, rows, tokens.length, self.plan.dims.binary)
        first, *rest = atoms
        return sum(rest, first).expand(batch, -1, -1, -1)

    def pairs(self, tokens: Tokens) -> list[tuple[PairTerm | Rotation, ...]]:
        """What positions do inside the attention of each layer: rotations of its rows, then pair terms."""
        terms = [
            self._call_part(p, p.pairs, tokens) for p in cast(Iterable[PairPosition], self._by_place["pair"])
        ]
        pair_terms = [tuple(term[layer] for term in terms) for layer in range(self.plan.dims.layers)]
        return [(*turns, *pairs) for turns, pairs in zip(self.rotations(tokens), pair_terms, strict=True)]

    def rotations(self, tokens: Tokens) -> list[tuple[Rotation, ...]]:
        """The rotations of each layer, of the rows."""
        positions = cast(Iterable[RotaryPosition], self._by_place["rotary"])
        turns = [self._call_part(p, p.rotations, tokens) for p in positions]
        return [
            tuple(cast(Rotation, turn[layer]) for turn in turns if turn[layer] is not None)
            for layer in range(self.plan.dims.layers)
        ]

    def _default_tensor(self, spec: TensorSpec, ids: Tensor) -> Tensor:
        """The default of an absent optional input, for tokens `ids` [b, x]."""
        if spec.default is None:
            raise InputError(
                f"generation cannot provide {spec.name!r} for new tokens, of which only the ids are known; leave out "
                "the part that needs it"
            )
        sizes = {"batch": ids.shape[0], "length": ids.shape[1]}
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in spec.dims]
        dtypes = {"int64": torch.int64, "bool": torch.bool, "float": self.embedding.weight.dtype}
        return ids.new_full(shape, spec.default, dtype=dtypes[spec.dtype])

    def _call_part(self, part: nn.Module, method: Callable[..., T], *arguments: object) -> T:
        """Call a method of a position or an augmenter; an error gets a note with the part's name."""
        kind = "augmenter" if isinstance(part, Augmenter) else "position"
        return call_named(f"{kind} {part.name!r}", method, *arguments)


def _all_true(mask: Tensor) -> bool:
    """Whether a mask is known to mask nothing.

    Its values are read on a CPU alone: reading them would stall a GPU, and a traced graph must not depend on them.
    """
    plain = type(mask) is Tensor and mask.is_cpu and not torch.compiler.is_compiling()
    return plain and bool(mask.all())


def _is_one_row(tokens: Tokens) -> bool:
    """Whether one token alone follows those before it, in a pass that is not traced."""
    return not torch.compiler.is_compiling() and tokens.length - (tokens.before or 0) == 1


def _cache_name(name: str) -> str:
    """The name of an input in the cached state."""
    return f"memory_{name}"

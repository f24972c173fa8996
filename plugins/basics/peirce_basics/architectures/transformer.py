"""The transformer: FOLNet's algebra on one branch, where relations live inside a layer only; BERT, GPT-2, Llama."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import Literal, cast

import torch
import torch.nn.functional as F
from attrs import evolve, field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import NORM_EPS, Attended, Norm, Predicates, RMSNorm, Scope
from peirce.errors import PlanError
from peirce.kernels import FusedLinear, PairTerm, Rotation, rotate
from peirce.networks import (
    CachedState,
    Mixing,
    Pooler,
    Projections,
    Recurrence,
    TokenInput,
    UnaryNorm,
    cached_state_specs,
    pooled_output,
    read_terms,
    run_layers,
    unary_output,
)
from peirce.parts import (
    Encoded,
    GenerativeArchitecture,
    Plan,
    PlannedOperator,
    Reader,
    StateOperator,
    TensorSpec,
    Tokens,
)
from peirce_basics.operators.attention import why_not_divisible

QUERY, KEY, VALUE = "query", "key", "value"
"""The names of attention's channels."""


@frozen(kw_only=True)
class TransformerDims:
    """The sizes of a single-branch network; every one is a count.

    Args:
        layers: blocks of attention and feedforward.
        unary: width of the atoms.
        heads: attention heads.
        head_size: channels within a head; unary / heads if 0.
        kv_heads: heads of keys and values; as many as `heads` if 0. With fewer, each serves a group of queries that
            stand side by side; 1 is multi-query attention.
        feedforward: hidden width of the feed-forward networks; 4 * unary if 0.
        embedding: width of the embeddings, which a map then widens, as in ALBERT and ELECTRA; unary if 0.
    """

    layers: int = field(validator=validators.ge(1))
    unary: int = field(validator=validators.ge(1))
    heads: int = field(validator=validators.ge(1))
    head_size: int = field(default=0, validator=validators.ge(0))
    kv_heads: int = field(default=0, validator=validators.ge(0))
    feedforward: int = field(default=0, validator=validators.ge(0))
    embedding: int = field(default=0, validator=validators.ge(0))


@frozen(kw_only=True)
class TransformerOptions:
    """How the layers are wired.

    Args:
        norm: `post` normalises after each residual sum, as BERT does; `pre` before each stage, with a final norm, as
            GPT-2 and Llama do; `both` before each stage and what it adds, with a final norm, as Gemma 2 does; `after`
            what each stage adds alone, with a final norm, as OLMo 2 does.
        norm_kind: `layer` or `rms`.
        norm_offset: whether a weight of the kind `rms` is kept as what is added to one, as Gemma's.
        epsilon: added to the variance, or to the mean square, by each norm.
        affine_norm: whether norms have a weight, and a bias where `norm_bias` says so.
        norm_bias: whether affine norms of the kind `layer` have a bias.
        first_norm: whether the first stage of all reads normalised atoms too; with `pre`, and ModernBERT's does not.
        embedding_norm: whether the embeddings are normalised; if absent they are with `post`.
        scale_embeddings: whether word embeddings are multiplied by sqrt(unary) as they are read, as in Vaswani et al.
            (2017), Section 3.4; heads tie to them without it.
        bias: whether the maps of attention have biases.
        output_bias: whether its last one has; as the others if absent.
        query_norm: `head` normalises each head's queries and keys, as Qwen 3 does; `all` those of all heads together,
            as OLMo 2 does. Norms are of `norm_kind`, and come before positions turn anything.
        score_scale: times each score; 1 / sqrt(head_size) if absent.
        score_cap: scores s become c tanh(s / c) before the softmax, as in Gemma 2; 0 leaves them.
        share: whether all layers are one, as in ALBERT.
        parallel: whether attention and the feed-forward network read the same atoms, each by its own norm, as in
            GPT-NeoX; with `norm` at `pre`.
        pooler: whether there is a pooled output.
    """

    norm: Literal["post", "pre", "both", "after"] = field(
        default="post", validator=validators.in_(("post", "pre", "both", "after"))
    )
    norm_kind: Literal["layer", "rms"] = field(default="layer", validator=validators.in_(("layer", "rms")))
    epsilon: float = field(default=NORM_EPS, validator=validators.gt(0))
    affine_norm: bool = True
    norm_bias: bool = True
    norm_offset: bool = False
    first_norm: bool = True
    embedding_norm: bool | None = None
    scale_embeddings: bool = False
    bias: bool = True
    output_bias: bool | None = None
    query_norm: Literal["none", "head", "all"] = field(
        default="none", validator=validators.in_(("none", "head", "all"))
    )
    score_scale: float | None = field(default=None, validator=validators.optional(validators.gt(0)))
    score_cap: float = field(default=0.0, validator=validators.ge(0))
    share: bool = False
    parallel: bool = False
    pooler: bool = True

    def new_norm(self, width: int) -> nn.Module:
        """A norm of this many channels."""
        if self.norm_kind == "rms":
            offset = 1.0 if self.norm_offset else 0.0
            return RMSNorm(width, affine=self.affine_norm, epsilon=self.epsilon, offset=offset)
        return Norm(width, affine=self.affine_norm, bias=self.norm_bias, epsilon=self.epsilon)


class Transformer(GenerativeArchitecture):
    """Assoc scores pairs, their softmax over the scope weighs join's sum, and a feed-forward network follows.

    No relation is kept. The network is `bool`, or what the spec's `state` names.
    """

    name = "transformer"
    source = "FOLNet (Chen, 2023), Appendix A.2 and Fig. 3; TEGA (Zheng et al., 2025), Section 6"
    Dims = TransformerDims
    Options = TransformerOptions
    places = frozenset({"unary", "pair", "rotary", "scope"})
    branches = "U"
    layer = "j.a"
    state = ("bool",)
    heterogeneous = True

    @classmethod
    def sizes(cls, options: TransformerOptions, dims: TransformerDims) -> Mapping[str, int]:
        """One branch; the head size defaults to an even share of the width."""
        return {
            "layers": dims.layers,
            "unary": dims.unary,
            "heads": dims.heads,
            "head_size": dims.head_size or dims.unary // dims.heads,
            "recurrent": dims.unary,
            "embedding": dims.embedding,
            "feedforward_unary": dims.feedforward or 4 * dims.unary,
        }

    @classmethod
    def check(cls, options: TransformerOptions, dims: TransformerDims) -> str | None:
        """Heads share the width evenly where `head_size` does not say how wide they are, and groups have one size."""
        if not dims.head_size and dims.unary % dims.heads:
            return (
                f"heads * head_size must equal unary, and {dims.heads} heads do not divide {dims.unary}; choose heads "
                "that do, or give head_size"
            )
        if options.share and not options.first_norm:
            return "first_norm = false is of one layer, and with `share` all are one; leave one of them out"
        if options.parallel and options.norm != "pre":
            return f'parallel stages read normalised atoms; set norm = "pre", not {options.norm!r}'
        return why_not_divisible(dims.kv_heads, dims.heads)

    @classmethod
    def check_layer(cls, operators: Sequence[PlannedOperator]) -> tuple[PlannedOperator, str] | None:
        """Relations live inside attention only: one operator scores pairs, and one sums values by the scores."""
        if sorted(str(planned.part.pair) for planned in operators if planned.operator) == ["score", "value"]:
            return None
        for planned in operators:
            if "B" in planned.branches:
                return planned, (
                    f"relations live inside attention in {cls.name!r}: a layer is assoc and join together (`j.a`), "
                    "or operators of unary atoms alone, or a recurrent operator"
                )
        return None

    @classmethod
    def gives(cls, options: TransformerOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """A pooled output with a pooler."""
        return frozenset({"pooled"} if options.pooler else ())

    def __init__(self, options: TransformerOptions, plan: Plan, given: TokenInput | None = None) -> None:
        super().__init__(options, plan)
        dims = plan.dims
        self.plan = plan
        width = dims.embedding
        self.input = new_input(options, plan, self.places) if given is None else given
        begins = options.norm == "post" if options.embedding_norm is None else options.embedding_norm
        self.input_norm = options.new_norm(width) if begins else None
        self.input_map = nn.Linear(width, dims.unary) if width != dims.unary else None
        count = 1 if options.share else dims.layers
        self.layers = nn.ModuleList(Layer(plan.layer(i), options, first=i == 0) for i in range(count))
        self.final_norm = None if options.norm == "post" else options.new_norm(dims.unary)
        self.pooler = Pooler(dims.unary) if options.pooler else None

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, mask, token types, and what the parts add."""
        return self.input.specs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms, and the pooled output."""
        pooled = (pooled_output(self.plan.dims.unary),) if self.pooler is not None else ()
        return (unary_output(self.plan.dims.unary), *pooled)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, attend layer by layer, pool."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        scopes, begun = self.input.scopes(tokens, scope), self.begin_atoms(tokens, scope)
        atoms, _ = run_layers(self.rounds(), begun, scopes, self.input.pairs(tokens))
        return self.end_atoms(atoms, tokens, scope), tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """The tokens before, and each layer's keys and values."""
        return (*self.input.cached_state(), *cached_state_specs(self.rounds()))

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """Infer the atoms of tokens that follow others, O(T) each."""
        tokens, kept = self.input.following(inputs, cache)
        scope = self.input.scope(tokens)
        scopes, begun = self.input.scopes(tokens, scope), self.begin_atoms(tokens, scope)
        atoms, layer_cache = run_layers(self.rounds(), begun, scopes, self.input.pairs(tokens), cache)
        return self.end_atoms(atoms, tokens, scope), tokens, kept | layer_cache

    def rounds(self) -> list[nn.Module]:
        """The layers that atoms go through."""
        return [self.layers[i % len(self.layers)] for i in range(self.plan.dims.layers)]

    def begin_atoms(self, tokens: Tokens, scope: Scope) -> Tensor:
        """The initial atoms [b, x, d1], dropped out."""
        atoms = self.input.unary(tokens)
        if self.input_norm is not None:
            atoms = self.input_norm(atoms)
        if self.input_map is not None:
            atoms = self.input_map(atoms)
        return F.dropout(scope.zero_unary(atoms), self.plan.dims.dropout, self.training)

    def end_atoms(self, atoms: Tensor, tokens: Tokens, scope: Scope) -> Encoded:
        """The final atoms of the rows, pooled."""
        if self.final_norm is not None:
            atoms = self.final_norm(atoms)
        atoms = scope.zero_unary(atoms)
        real = None if tokens.real is None else tokens.rows(tokens.real)
        pooled = self.pooler(atoms, real) if self.pooler is not None else None
        return Encoded(atoms, None, pooled, scope, self.input.words())


def new_input(options: TransformerOptions, plan: Plan, places: Collection[str]) -> TokenInput:
    """What embeds tokens, in the width of the embeddings, and asks positions for what they give at some places."""
    width = plan.dims.embedding
    scale = math.sqrt(width) if options.scale_embeddings else 1.0
    return TokenInput(evolve(plan, dims=evolve(plan.dims, unary=width)), sorted(places), scale=scale)


class Layer(nn.Module):
    """Attention, then the state operators, each with a residual sum and a norm. The operators own their parameters."""

    def __init__(self, plan: Plan, options: TransformerOptions, *, first: bool) -> None:
        super().__init__()
        dims = plan.dims
        by_pair = {p.part.pair: p for p in plan.mixing if p.operator}
        mixed: Sequence[tuple[PlannedOperator, nn.Module]]
        self.attention: Attention | None = None
        self.mixing: Mixing | Recurrence | None = None
        if {*by_pair} == {"score", "value"} and not any(p.weights for p in plan.mixing):
            kv_heads = plan.model_dims.kv_heads or dims.heads
            score, value = (_with_options(by_pair[role], kv_heads, options) for role in ("score", "value"))
            scoring = Projections(dims, score.readings)
            role, reader = list(value.readings.items())[1]
            summing = Projections(dims, {role: reader}, value.output)
            mixed = [(score, scoring), (value, summing)]
            self.attention = Attention(plan, options, score, value, scoring, summing)
        elif options.query_norm != "none" or options.score_cap or options.score_scale is not None:
            raise PlanError(
                "query_norm, score_cap and score_scale are of attention that is assoc and join; leave them "
                "out, or leave out this layer's operators"
            )
        elif by_pair:
            projections = [Projections.of(p, dims) for p in plan.mixing]
            mixed = list(zip(plan.mixing, projections, strict=True))
            self.mixing = Mixing(plan, projections)
        else:
            mixed = [(plan.mixing[0], operator := plan.mixing[0].build(dims))]
            self.mixing = Recurrence(plan, operator)
        states: list[StateOperator] = [p.build(dims) for p in plan.state]
        named = [*mixed, *zip(plan.state, states, strict=True)]
        self.operators = nn.ModuleList(nn.ModuleDict({p.name: module}) for p, module in named)
        self._states = tuple(states)
        stages = range(1 + len(states))
        bare = {*stages} if options.norm == "after" else {0} if first and not options.first_norm else set()
        self.norms = nn.ModuleList(
            nn.Identity() if stage in bare else options.new_norm(dims.unary) for stage in stages
        )
        self.after_norms = nn.ModuleList(
            options.new_norm(dims.unary) for _ in stages if options.norm in ("both", "after")
        )
        # Each stage's norm, and the norm of what it adds.
        self._norms = tuple(zip_longest(self.norms, self.after_norms))
        self.pre = options.norm != "post"
        self.parallel = options.parallel
        self.rate = dims.dropout

    def forward(
        self,
        atoms: Tensor,
        scope: Scope,
        terms: Sequence[PairTerm | Rotation],
        cache: CachedState | None = None,
        scores: list[Tensor] | None = None,
    ) -> tuple[Tensor, CachedState]:
        """[b, x, d1] -> [b, x, d1], and the keys and values for later tokens; scores of attention go into `scores`."""
        (first, after), *others = self._norms
        before, kept = atoms, cast(CachedState, {})
        if self.attention is not None:
            given = first(atoms) if self.pre else atoms
            increment, kept = self.attention(given, scope, terms, cache or {}, scores)
            atoms = self._add(atoms, increment, first, after)
        else:
            assert self.mixing is not None
            normal = first(atoms) if self.pre else atoms
            # Of normalised atoms and zeros, what is added comes back by itself, for the norm after it.
            state = Predicates(atoms if after is None else torch.zeros_like(atoms))
            normal_of = UnaryNorm(cast(nn.Module, lambda _: normal))
            state, kept = self.mixing(state, normal_of, scope, terms, cache)
            atoms = state.unary if after is None else atoms + after(state.unary)
            atoms = atoms if self.pre else first(atoms)
        for (norm, after), operator in zip(others, self._states, strict=True):
            read = before if self.parallel else atoms
            increment = operator(Predicates(norm(read) if self.pre else read), scope).unary
            atoms = self._add(atoms, increment, norm, after)
        return atoms, kept

    def cached_channels(self) -> dict[str, tuple[str | None, tuple[str | int, ...]]]:
        """The keys and values, by name: read from the unary atoms, and their channels; or a recurrent state."""
        if self.attention is None:
            assert self.mixing is not None
            return dict(self.mixing.cached_channels())
        shapes = self.attention.shapes
        return {name: ("U", (heads, "past", size)) for name in (KEY, VALUE) for heads, size in [shapes[name]]}

    def _add(self, atoms: Tensor, increment: Tensor, norm: nn.Module, after: nn.Module | None) -> Tensor:
        if after is not None:
            increment = after(increment)
        if self.training:
            increment = F.dropout(increment, self.rate)
        atoms = atoms + increment
        return atoms if self.pre else norm(atoms)


class Attention(nn.Module):
    """Assoc, a softmax over the scope, join: one product reads query, key and value, one writes the result."""

    def __init__(
        self,
        plan: Plan,
        options: TransformerOptions,
        score: PlannedOperator,
        value: PlannedOperator,
        scoring: Projections,
        summing: Projections,
    ) -> None:
        super().__init__()
        self.score, self.value = score, value
        self._scoring = (scoring,)  # a tuple, since the layer owns it
        self.rate = plan.dims.dropout
        _, values = value.readings.values()
        readers = dict(zip((QUERY, KEY, VALUE), (*score.readings.values(), values), strict=True))
        self.shapes = {name: tuple(each.shape.values()) for name, each in readers.items()}
        self.group = self.shapes[QUERY][0] // self.shapes[KEY][0]
        maps = [*((scoring, name) for name, _ in scoring.named_children())]  # in the order of the readers
        maps.append((summing, next(summing.named_children())[0]))
        scaled = [(*each, reader.scale) for each, reader in zip(maps, readers.values(), strict=True)]
        self.reader = FusedLinear(scaled, "outputs", fuse=plan.fuse)
        self.writer = FusedLinear([(summing, "output", 1.0)], "inputs", fuse=plan.fuse)
        self.attended = Attended()
        self.cap, self.together = options.score_cap, options.query_norm == "all"
        self.query_norm: nn.Module | None = None
        self.key_norm: nn.Module | None = None
        if options.query_norm != "none":
            heads, size = self.shapes[QUERY]
            groups = self.shapes[KEY][0]
            self.scale = size**-0.5 if options.score_scale is None else options.score_scale
            self.query_norm = options.new_norm(heads * size if self.together else size)
            self.key_norm = options.new_norm(groups * size if self.together else size)

    def forward(
        self,
        atoms: Tensor,
        scope: Scope,
        terms: Sequence[PairTerm | Rotation],
        cache: CachedState,
        kept_scores: list[Tensor] | None = None,
    ) -> tuple[Tensor, CachedState]:
        """[b, x, d1] -> [b, x, d1], and the keys and values of all tokens.

        Args:
            atoms: of the rows.
            scope: who may attend to whom.
            terms: what positions do here.
            cache: turned keys and values of the tokens before, [b, h, a, s]: products by head need no copy of them.
            kept_scores: where the scores [b, x, a, h] go, zero outside the scope; None where nobody reads them.
        """
        rows = atoms.shape[:2]
        query, key, values = (
            piece.view(*rows, *shape)
            for piece, shape in zip(self.reader.read(atoms), self.shapes.values(), strict=True)
        )
        if self.query_norm is not None and self.key_norm is not None:
            query = self._normalise(self.query_norm, query) * self.scale
            key = self._normalise(self.key_norm, key)
        query, key = rotate(query, terms), rotate(key, terms)
        terms = read_terms(terms, self.score, self._scoring[0])
        kept = {KEY: key.transpose(1, 2), VALUE: values.transpose(1, 2)}
        if cache:
            kept = {name: torch.cat([cache[name], own], 2) for name, own in kept.items()}
        serving = [
            each.repeat_interleave(self.group, 1) if self.group > 1 else each for each in kept.values()
        ]
        key, values = (each.transpose(1, 2) for each in serving)
        scores = self.score.deduce([query, key], scope, terms)
        if self.cap:
            scores = self.cap * (scores / self.cap).tanh()
        if kept_scores is not None:
            kept_scores.append(scope.zero_binary(scores))
        if self.attended.is_read:
            self.attended(scope.zero_binary(scores), "scores", False)
        weights = self.attended(scope.softmax(scores))
        if self.training:
            weights = F.dropout(weights, self.rate)
        summed = self.value.deduce([weights, values], scope, terms)
        return self.writer.write_each([summed.flatten(2)]), kept

    def _normalise(self, norm: nn.Module, channels: Tensor) -> Tensor:
        """[b, x, h, s] -> [b, x, h, s], each head by itself or all together."""
        found = norm(channels.flatten(2)).view(channels.shape) if self.together else norm(channels)
        return cast(Tensor, found)


def _with_options(planned: PlannedOperator, kv_heads: int, options: TransformerOptions) -> PlannedOperator:
    """The operator with `kv_heads` heads of keys and values, and the biases and the scale that the options say."""

    def change(reader: Reader) -> Reader:
        shape = {**reader.shape, "h": kv_heads} if reader.cached and "h" in reader.shape else reader.shape
        scale = reader.scale
        if scale != 1.0 and options.query_norm != "none":
            scale = 1.0  # which a norm would take off: it comes after that
        elif scale != 1.0 and options.score_scale is not None:
            scale = math.sqrt(options.score_scale)
        return evolve(reader, shape=shape, bias=reader.bias and options.bias, scale=scale)

    assert planned.output is not None
    readings = {role: change(reader) for role, reader in planned.readings.items()}
    bias = options.bias if options.output_bias is None else options.output_bias
    return evolve(
        planned, readings=readings, output=evolve(planned.output, bias=planned.output.bias and bias)
    )

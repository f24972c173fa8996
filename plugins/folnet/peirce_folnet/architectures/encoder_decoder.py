"""FOLNet with two stacks: an encoder of the source, and a decoder whose rows are the target's tokens alone.

The decoder's relations are those of target tokens with source tokens, then with target tokens up to themselves: its
columns are the source and the target, its rows the target. The keys and values of source tokens are read once, from
the encoder's final atoms. They become part of the decoder's cached state, in front of those of its own past.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.errors import PlanError
from peirce.kernels import Rotation
from peirce.networks import CachedState, Norms, cached_state_specs, flatten_layer_cache, run_layers
from peirce.parts import Dtype, Encoded, GenerativeArchitecture, Plan, TensorSpec, Tokens
from peirce_folnet.architectures.folnet import FolNet, FolNetDims, FolNetOptions, Layer

IDS, MASK, TYPES, TARGET = "input_ids", "attention_mask", "token_type_ids", "target"
"""What is known of each column: its id, whether it is real, its sequence, and whether it is the target's."""


@frozen(kw_only=True)
class EncoderDecoderOptions:
    """How the two stacks are wired.

    Args:
        decoder_layers: layers of the decoder; as many as the encoder's if 0.
        wiring: `cascaded` or `parallel`, as in `folnet`.
        affine_norm: whether norms have a weight and a bias.
    """

    decoder_layers: int = field(default=0, validator=validators.ge(0))
    wiring: Literal["cascaded", "parallel"] = field(
        default="cascaded", validator=validators.in_(("cascaded", "parallel"))
    )
    affine_norm: bool = False


class FolNetEncoderDecoder(GenerativeArchitecture):
    """An encoder as `folnet`, and a decoder of the same layers over relations of target x (source + target).

    The two share word embeddings, token types and positions. A target's relation to the source begins as one between
    different sequences. bool sees zeros where such a relation has no converse.

    A rotary position turns queries and keys of the target by the target's own count, and keys of the source by the
    source's: the score of the i-th token of the one and the j-th of the other depends on i - j, as if the texts stood
    side by side. Decoder layers that the encoder does not have take the rotation of its last.
    """

    name = "folnet_encoder_decoder"
    expected_failures: ClassVar = {
        "places": "its relations are those of target tokens to source and target tokens, which `gives` does not offer"
    }
    source = "FOLNet (Chen, 2023), Appendix A.5 and Fig. 4(c,d)"
    Dims = FolNetDims
    Options = EncoderDecoderOptions
    places = frozenset({"unary", "binary", "rotary"})
    branches = "UB"
    layer = "jmc.atp"
    state = ("bool",)
    heterogeneous = True
    scope = "encoder-decoder"
    rows = "target_length"
    generated = "decoder_input_ids"

    @classmethod
    def sizes(cls, options: EncoderDecoderOptions, dims: FolNetDims) -> Mapping[str, int]:
        """As in `folnet`."""
        return FolNet.sizes(FolNetOptions(), dims)

    @classmethod
    def gives(cls, options: EncoderDecoderOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """No token of a target sees the next one."""
        return frozenset({"past"})

    def __init__(self, options: EncoderDecoderOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        dims = plan.dims
        self.plan = plan
        wiring = FolNetOptions(wiring=options.wiring, affine_norm=options.affine_norm, pooler=False)
        self.encoder = FolNet(wiring, plan)
        self.input_norm = Norms(plan.dims, affine=options.affine_norm)
        count = options.decoder_layers or dims.layers
        self.layers = nn.ModuleList(Layer(plan.layer(i), wiring, source=True) for i in range(count))
        self.final_norm = Norms(plan.dims, affine=options.affine_norm)
        if all(cast(Layer, layer).source is None for layer in self.layers):
            raise PlanError(
                f"{plan.spec.at('model.operators')}: every layer of the decoder is recurrent, and reads the target's "
                "tokens alone: the source would have no effect; add a layer such as j.a"
            )
        unknown = [spec.name for spec in self.encoder.inputs() if spec.name not in (IDS, MASK, TYPES)]
        if unknown:
            raise PlanError(
                f"{plan.spec.at('model')}: architecture {self.name!r} knows only the ids of a target's tokens, and a "
                f"position or augmenter of the spec needs {', '.join(unknown)}; leave it out"
            )

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The source, as an encoder's, and the target."""
        row = ("batch", self.rows)
        return (
            *self.encoder.inputs(),
            TensorSpec(
                name=self.generated, dtype="int64", dims=row, high=self.plan.dims.vocabulary,
                meaning="Token ids of the target, beginning with its first given token.",
                largest={self.rows: self.plan.dims.max_length},
            ),
            TensorSpec(
                name="decoder_attention_mask", dtype="bool", dims=row, required=False, default=True,
                masks=self.rows,
                meaning="True at real tokens of the target, false at padding.",
            ),
        )  # fmt: skip

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The final atoms of the target, whose relations are with the source's tokens and then with its own."""
        row, dims = ("batch", self.rows), self.plan.dims
        return (
            TensorSpec(
                name="unary", dtype="float", dims=(*row, dims.unary),
                meaning="Final properties of each token of the target.",
            ),
            TensorSpec(
                name="binary", dtype="float", dims=(*row, f"length + {self.rows}", dims.binary),
                meaning="Final relations of the target's tokens with those of the source and of the target.",
            ),
        )  # fmt: skip

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Encode the source, then infer the whole target."""
        encoded, tokens, _ = self.advance(inputs, {})
        return encoded, tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """Source and target so far: their tokens, and each layer's keys and values."""
        row = ("batch", "past")
        columns: tuple[tuple[str, Dtype, int | None, str], ...] = (
            (IDS, "int64", self.plan.dims.vocabulary, "Ids"),
            (MASK, "bool", None, "True at the real ones"),
            (TYPES, "int64", max(self.plan.dims.token_types, 1), "Sequences"),
            (TARGET, "bool", None, "True at the target's ones"),
        )
        known = [
            TensorSpec(
                name=_cache_name(name),
                dtype=dtype,
                dims=row,
                high=high,
                meaning=f"{meaning} of the tokens before.",
                masks="past" if name == MASK else None,
                largest={"past": self.plan.dims.max_length - 1} if name == IDS else {},
            )
            for name, dtype, high, meaning in columns
        ]
        return (*known, *cached_state_specs(self.layers))

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """The target's next tokens; with an empty cache, encode the source first."""
        if not cache:
            cache = self._encode(inputs)
        ids = inputs[self.generated]
        new = {
            IDS: ids,
            MASK: inputs.get("decoder_attention_mask", torch.ones_like(ids, dtype=torch.bool)),
            TYPES: torch.zeros_like(ids),
            TARGET: torch.ones_like(ids, dtype=torch.bool),
        }
        kept = {
            _cache_name(name): torch.cat([cache[_cache_name(name)], value], 1) for name, value in new.items()
        }
        before = cache[_cache_name(IDS)].shape[1]
        tokens = self._tokens(kept, before)
        scope = Scope.padding(tokens.real, before) & Scope.past(tokens.length, ids.device, before)
        scope = scope.at(tokens.rows(tokens.index), tokens.index)
        begun = self._begin(tokens, kept, scope)
        scopes = [scope] * len(self.layers)
        state, layer_cache = run_layers(self.layers, begun, scopes, self._rotations(tokens), cache)
        unary, binary = self.final_norm(state, scope)
        return Encoded(unary, binary, None, scope, self.encoder.input.words()), tokens, kept | layer_cache

    def _encode(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The cached state before the target's first token: every layer's keys and values of the source tokens."""
        names = {spec.name for spec in self.encoder.inputs()}
        encoded, tokens = self.encoder({name: value for name, value in inputs.items() if name in names})
        ids = tokens.inputs[IDS]
        cache = {
            _cache_name(IDS): ids,
            _cache_name(MASK): tokens.inputs.get(MASK, torch.ones_like(ids, dtype=torch.bool)),
            _cache_name(TYPES): tokens.inputs.get(TYPES, torch.zeros_like(ids)),
            _cache_name(TARGET): torch.zeros_like(ids, dtype=torch.bool),
        }
        source = Predicates(encoded.unary, encoded.binary)
        for i, (layer, turns) in enumerate(zip(self.layers, self._rotations(tokens), strict=True)):
            cache |= flatten_layer_cache(i, cast(Layer, layer).read_source(source, encoded.scope, turns))
        return cache

    def _rotations(self, tokens: Tokens) -> list[tuple[Rotation, ...]]:
        """Those of the rows, in each layer of the decoder."""
        known = self.encoder.input.rotations(tokens)
        return [known[min(i, len(known) - 1)] for i in range(len(self.layers))]

    def _tokens(self, known: CachedState, before: int) -> Tokens:
        """Source and target, each counted by itself over its real tokens; the rows are the target's new ones."""
        real, target = known[_cache_name(MASK)], known[_cache_name(TARGET)]
        masked = self.plan.scope.mask_padding
        counted = real if masked and not self.plan.scope.count_padding else torch.ones_like(real)
        index = torch.where(target, (counted & target).long().cumsum(1), (counted & ~target).long().cumsum(1))
        inputs = {IDS: known[_cache_name(IDS)], MASK: real}
        return Tokens(inputs, real if masked else None, (index - 1).clamp_min(0), target.shape[1], before)

    def _begin(self, tokens: Tokens, known: CachedState, scope: Scope) -> Predicates:
        """The initial atoms of the rows, normalised and dropped out."""
        target = known[_cache_name(TARGET)]
        # A sequence that no token of the source can be in, and no token in the place of a [CLS].
        sequences = torch.where(target, self.plan.dims.token_types, known[_cache_name(TYPES)])
        apart = Tokens(
            {**tokens.inputs, TYPES: sequences}, tokens.real, tokens.index + 1, tokens.length, tokens.before
        )
        shared = self.encoder.input
        state = self.input_norm(Predicates(shared.unary(tokens), shared.binary(apart)), scope)
        rate = self.plan.dims.dropout
        return Predicates(*(F.dropout(atoms, rate, self.training) for atoms in state))


def _cache_name(name: str) -> str:
    """The name that a per-token input of the source has in the cached state."""
    return f"memory_{name}"

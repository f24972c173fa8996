"""pretrained: an encoder of `transformers`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import ClassVar, Literal, cast

import torch
from attrs import frozen
from torch import Tensor, nn

from peirce.networks import Pooler, pooled_output, unary_output
from peirce.parts import Encoded, Plan, TensorSpec, Tokens, one_of
from peirce_hf.pretrained.architecture import HeadOptions, WithHeads
from peirce_hf.pretrained.packing import Packing, assume_for_tracing


@frozen(kw_only=True)
class PretrainedOptions(HeadOptions):
    """Which model, where its weights come from, and what it gives.

    Args:
        source: as for an encoder-decoder. config: likewise.
        original_heads: as for a decoder.
        pooler: whether there is a pooled output.
        pool: what it is: the model's own where it has one, else a new one of Peirce's; or the `mean` of the final
            atoms, as sentence encoders are trained to give it.
    """

    pooler: bool = True
    pool: Literal["own", "mean"] = one_of("own", "mean")


class Pretrained(WithHeads):
    """An encoder of `transformers`, such as BERT, RoBERTa, ALBERT, DeBERTa or ELECTRA.

    Its word embeddings go through the spec's augmenters and then into it as `inputs_embeds`; everything after them,
    positions and token types included, is its own.
    """

    name = "pretrained"
    scope = "bidirectional"
    Options = PretrainedOptions
    options: PretrainedOptions
    example: ClassVar = {
        "config": {
            "model_type": "bert", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 12,
        }
    }  # fmt: skip

    @classmethod
    def gives(cls, options: PretrainedOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """A pooled output with a pooler."""
        return frozenset({"pooled"} if options.pooler else ())

    def __init__(self, options: PretrainedOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self._pooled = options.pooler
        self._mean = options.pooler and options.pool == "mean"
        wanted, has_pooler = options.pooler and not self._mean, getattr(self.body, "pooler", None) is not None
        self.body.pooler = self.body.pooler if has_pooler and wanted else None
        self.pooler = Pooler(plan.dims.unary) if wanted and not has_pooler else None
        self._types = "token_type_ids" in inspect.signature(self.body.forward).parameters

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms, and the pooled output."""
        width = self.plan.dims.unary
        return (unary_output(width), *((pooled_output(width),) if self._pooled else ()))

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, augment, encode, pool."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        packing = Packing(tokens.real)
        given: dict[str, Tensor] = {}
        if self._types and "token_type_ids" in inputs:
            given["token_type_ids"] = packing.pack(inputs["token_type_ids"])
        with assume_for_tracing(inputs["input_ids"]):
            found = self.body(
                inputs_embeds=packing.pack(scope.zero_unary(self.input.unary(tokens))),
                attention_mask=packing.mask(inputs["input_ids"]),
                return_dict=True,
                **given,
            )
        atoms = scope.zero_unary(packing.unpack(found.last_hidden_state))
        pooled = None
        if self._mean:
            there = scope.zero_unary(torch.ones_like(atoms[..., :1]))
            pooled = atoms.sum(1) / there.sum(1).clamp_min(1)
        elif self.pooler is not None:
            pooled = self.pooler(atoms, tokens.real)
        elif self.body.pooler is not None:
            pooled = self._own_pooled(packing.pack(atoms)[:, :1])
        return Encoded(atoms, None, pooled, scope, self._words()), tokens

    def _own_pooled(self, first: Tensor) -> Tensor:
        """[b, 1, d1] -> [b, d1]: the model's own pooler on the first real token; zero where there is none."""
        pooler = self.body.pooler
        if isinstance(pooler, nn.Linear):  # ALBERT's is the map alone
            return cast(Tensor, self.body.pooler_activation(pooler(first[:, 0])))
        return cast(Tensor, pooler(first))

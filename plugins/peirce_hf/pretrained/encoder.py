"""pretrained: an encoder of `transformers`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import ClassVar, Literal, cast

from attrs import frozen
from peirce.errors import PlanError
from peirce.networks import Pooler, pooled_output, unary_output
from peirce.parts import Encoded, Head, Plan, PlannedHead, TensorSpec, Tokens
from torch import Tensor, nn

from peirce_hf.pretrained.architecture import NoDims, PretrainedArchitecture, SourceOptions
from peirce_hf.pretrained.configuration import configuration
from peirce_hf.pretrained.heads import OriginalHead, why_no_head
from peirce_hf.pretrained.packing import Packing, without_choices


@frozen(kw_only=True)
class PretrainedOptions(SourceOptions):
    """Which model, where its weights come from, and what it gives.

    Args:
        source: as for an encoder-decoder. config: likewise.
        pooler: whether there is a pooled output: the model's own where it has one, else a new one of Peirce's.
        original_heads: which of the spec's heads are the model's own, with its weights: `mlm`, `classification`,
            `token_classification`. The others are new ones of Peirce's.
    """

    pooler: bool = True
    original_heads: tuple[str, ...] = ()


class Pretrained(PretrainedArchitecture):
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

    @classmethod
    def check(cls, options: SourceOptions, dims: NoDims) -> str | None:
        """The model must have the heads that are wanted of it."""
        heads = cast(PretrainedOptions, options).original_heads
        return super().check(options, dims) or why_no_head(configuration(options.config), heads)

    def __init__(self, options: PretrainedOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        heads = [planned.name for planned in plan.heads]
        for name in options.original_heads:
            if name not in heads:
                raise PlanError(
                    f"{plan.spec.at('model.options')}: original_heads names {name!r}, and the model has no such head; "
                    f'add [[model.heads]] use = "{name}"'
                )
        self._pooled = options.pooler
        own = getattr(self.body, "pooler", None) is not None
        self.body.pooler = self.body.pooler if own and options.pooler else None
        self.pooler = Pooler(plan.dims.unary) if options.pooler and not own else None
        self._types = "token_type_ids" in inspect.signature(self.body.forward).parameters

    def own_head(self, planned: PlannedHead) -> Head | None:
        """The original's, where the options say so."""
        if planned.name not in self.options.original_heads:
            return None
        return OriginalHead(
            planned, self.plan.dims, self.body.config, self.options.source, self.input.embedding
        )

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
        with without_choices(inputs["input_ids"]):
            found = self.body(
                inputs_embeds=packing.pack(scope.zero_unary(self.input.unary(tokens))),
                attention_mask=packing.mask(inputs["input_ids"]),
                return_dict=True,
                **given,
            )
        atoms = scope.zero_unary(packing.unpack(found.last_hidden_state))
        pooled = None
        if self.pooler is not None:
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

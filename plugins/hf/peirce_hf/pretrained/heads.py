"""Heads of the models of `transformers` themselves, in the place of Peirce's, whose outputs and losses they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import Any, cast

import attrs
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peirce.errors import PlanError
from peirce.parts import Encoded, Head, PlannedHead, TensorSpec, Tokens
from peirce_hf.pretrained.configuration import published
from peirce_hf.pretrained.packing import Packing

CLASSES = {
    "mlm": "AutoModelForMaskedLM",
    "classification": "AutoModelForSequenceClassification",
    "token_classification": "AutoModelForTokenClassification",
    "causal_lm": "AutoModelForCausalLM",
}
"""Peirce's head, and what `transformers` calls a model with its own."""


def why_no_head(config: Any, names: Sequence[str]) -> str | None:
    """Why a model of `transformers` has not these heads of its own; None where it has them."""
    for name in names:
        if name not in CLASSES:
            return (
                f"there is no head {name!r} to take from the original; it may be one of {', '.join(CLASSES)}"
            )
        if type(config) not in _auto(name)._model_mapping:
            return (
                f"a model of type {config.model_type!r} has no head {name!r} of its own; take it out of "
                "'original_heads' for Peirce's"
            )
    return None


class OriginalHead(Head):
    """A model of `transformers` without its body, which reads final atoms and ties to the words of the architecture.

    Args:
        planned: the head that it stands for.
        dims: the sizes that parts see.
        config: the model's configuration, with the spec's dropout.
        source: where a new one takes its weights from; None leaves them random.
        words: the word embeddings, which stay the architecture's.
    """

    def __init__(
        self, planned: PlannedHead, dims: Any, config: Any, source: str | None, words: nn.Embedding
    ) -> None:
        super().__init__(planned.options, dims)
        with torch.device("meta"):
            stands_for = cast(Head, planned.build(dims))
        self.needs = stands_for.needs  # type: ignore[misc]
        self.labels = stands_for.labels  # type: ignore[misc]
        self._for = (stands_for,)  # its outputs and loss alone, so no module of this one
        self._auto, self._source, self._name = _auto(planned.name), source, planned.name
        config = deepcopy(config)
        (logits,) = stands_for.outputs()
        self._rows = "length" in logits.dims
        if "classes" in attrs.fields_dict(type(planned.options)):
            config.num_labels = logits.dims[-1]
        self.model = self._auto.from_config(config, trust_remote_code=False)
        self._take_body_out(words)

    def _take_body_out(self, words: nn.Embedding) -> None:
        from transformers import PreTrainedModel

        model, decoder = self.model, self.model.get_output_embeddings()
        # By names: within `from_pretrained` of the classes for `transformers` nothing is tied yet.
        name = next((name for name, module in model.named_modules() if module is decoder), "")
        tied = model._tied_weights_keys or {}
        if f"{name}.weight" in tied and getattr(model.config, "tie_word_embeddings", True):
            model.set_output_embeddings(_Words(words, decoder.bias))
            if twice := tied.get(f"{name}.bias"):
                model.get_submodule(twice.rpartition(".")[0]).bias = None
        body = next(name for name, child in model.named_children() if isinstance(child, PreTrainedModel))
        setattr(model, body, _PassThrough(words))

    def begin(self) -> None:
        """The weights of the source's head.

        Raises:
            PlanError: the source has no such head, or one of other sizes.
        """
        if self._source is None:
            return
        what = f"the head {self._name!r}"
        loaded, info = published(
            self._auto, self._source, self.model.config, what, ignore_mismatched_sizes=True
        )
        current, given = self.model.state_dict(), loaded.state_dict()
        for name, theirs, ours in sorted(info["mismatched_keys"]):
            if name in current:
                raise PlanError(
                    f"{self._source!r} has a head {self._name!r} of other sizes: {name} {list(theirs)}, and the spec's "
                    f"has {list(ours)}; give the head of the spec as many classes"
                )
        if lacking := sorted(set(info["missing_keys"]) & set(current)):
            raise PlanError(
                f"{self._source!r} lacks weights of its head {self._name!r}: {', '.join(lacking[:5])}; take it out of "
                "'original_heads' for a new one of Peirce's"
            )
        words, decoder = loaded.get_input_embeddings(), loaded.get_output_embeddings()
        tied = any(isinstance(module, _Words) for module in self.model.modules())
        if tied and not torch.equal(words.weight, decoder.weight):
            raise PlanError(
                f"the head {self._name!r} of {self._source!r} has a map to the words of its own, and the configuration "
                "ties them; add config = { tie_word_embeddings = false } to the options"
            )
        with torch.no_grad():
            for name, value in current.items():
                value.copy_(given[name])

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs of the head that it stands for."""
        return self._for[0].outputs()

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] and [b, p] -> logits; zero at padding."""
        from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions

        packing = Packing(None if tokens.real is None else tokens.rows(tokens.real))
        found = BaseModelOutputWithPoolingAndCrossAttentions(
            last_hidden_state=packing.pack(encoded.unary), pooler_output=encoded.pooled
        )
        # Heads of models with experts, or with global attention, pass these on; one compares the shape with that of
        # the embeddings.
        found.router_logits = found.shared_kv_states = found.global_attentions = None
        found.shape = encoded.unary.shape
        logits = self.model(inputs_embeds=found, return_dict=True).logits
        return {"logits": encoded.scope.zero_unary(packing.unpack(logits)) if self._rows else logits}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """The loss of the head that it stands for."""
        return self._for[0].loss(outputs, labels)


class _Words(nn.Module):
    """The word embeddings as a decoder, with a bias of its own."""

    def __init__(self, words: nn.Embedding, bias: nn.Parameter | None) -> None:
        super().__init__()
        self._words = (words,)  # a parameter of the architecture
        self.bias = bias

    def forward(self, hidden: Tensor) -> Tensor:
        """[b, x, e] -> [b, x, v]."""
        return F.linear(hidden, self._words[0].weight, self.bias)


class _PassThrough(nn.Module):
    """Stands where the body was, and gives what it is given as its embeddings: what the body gave."""

    def __init__(self, words: nn.Embedding) -> None:
        super().__init__()
        self.embeddings = SimpleNamespace(word_embeddings=words)  # where DeBERTa's head looks for them

    @property
    def decoder(self) -> _PassThrough:
        """Itself, where OPT's head looks for its body."""
        return self

    def forward(self, *inputs: Any, inputs_embeds: Any, **named: Any) -> Any:
        """The body's output."""
        return inputs_embeds


def _auto(name: str) -> Any:
    import transformers

    return getattr(transformers, CLASSES[name])

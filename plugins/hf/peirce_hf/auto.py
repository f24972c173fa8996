"""Which class suits which model: for the `Auto` classes of `transformers`, and for a Peirce model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import transformers
from transformers import AutoConfig

from peirce.model import Model
from peirce_hf.base import PeircePreTrainedModel
from peirce_hf.config import PeirceConfig
from peirce_hf.generating import (
    PeirceForCausalLM,
    PeirceForConditionalGeneration,
    PeirceGenerator,
    has_decoder,
)
from peirce_hf.models import (
    PeirceForMaskedLM,
    PeirceForMultipleChoice,
    PeirceForPreTraining,
    PeirceForQuestionAnswering,
    PeirceForSequenceClassification,
    PeirceForTokenClassification,
    PeirceModel,
)

if TYPE_CHECKING:
    from peirce.registry import Registry

AUTO_CLASSES: dict[str, type[PeircePreTrainedModel]] = {
    "AutoModel": PeirceModel,
    "AutoModelForPreTraining": PeirceForPreTraining,
    "AutoModelForMaskedLM": PeirceForMaskedLM,
    "AutoModelForCausalLM": PeirceForCausalLM,
    "AutoModelForSeq2SeqLM": PeirceForConditionalGeneration,
    "AutoModelForSequenceClassification": PeirceForSequenceClassification,
    "AutoModelForTokenClassification": PeirceForTokenClassification,
    "AutoModelForQuestionAnswering": PeirceForQuestionAnswering,
    "AutoModelForMultipleChoice": PeirceForMultipleChoice,
}
"""What each `Auto` class makes of a configuration of Peirce's."""


def register() -> None:
    """Make the `Auto` classes and `pipeline` know configurations of the model type `peirce`; again does no harm."""
    AutoConfig.register(PeirceConfig.model_type, PeirceConfig, exist_ok=True)
    for auto, model in AUTO_CLASSES.items():
        getattr(transformers, auto).register(PeirceConfig, model, exist_ok=True)


def from_peirce(model: Model, registry: Registry | None = None, **settings: Any) -> PeircePreTrainedModel:
    """A model of `transformers` with copies of a Peirce model's parameters and all of its heads.

    Args:
        model: the Peirce model.
        registry: where parts are looked up; the default registry if None.
        settings: settings of the configuration, such as `id2label`.

    Returns:
        A model of the class for its one head; a `PeirceForPreTraining` if there are several, or one that `transformers`
        has no class for; a `PeirceModel` without a head. `to_peirce` of it gives the same model, to the bit.
    """
    return class_of(model).from_peirce(model, registry=registry, **settings)


def class_of(model: Model) -> type[PeircePreTrainedModel]:
    """The class that has all the heads of a model and no other."""
    heads = model.spec.heads
    if len(heads) != 1:
        return PeirceForPreTraining if heads else PeirceModel
    use = heads[0].use
    if has_decoder(model.plan.architecture.part) and use in PeirceForConditionalGeneration.uses:
        return PeirceForConditionalGeneration
    if model.spec.scope.kind in ("causal", "prefix") and use in PeirceForCausalLM.uses:
        return PeirceForCausalLM
    others = (cls for cls in AUTO_CLASSES.values() if not issubclass(cls, PeirceGenerator))
    return next((cls for cls in others if use in cls.uses), PeirceForPreTraining)

"""From a Peirce model to the class of `transformers` that suits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peirce.model import Model

from peirce_hf.base import PeircePreTrainedModel
from peirce_hf.generating import PeirceForCausalLM, PeirceForConditionalGeneration, has_decoder
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

_WITH_ONE_HEAD: tuple[type[PeircePreTrainedModel], ...] = (
    PeirceForMaskedLM,
    PeirceForSequenceClassification,
    PeirceForTokenClassification,
    PeirceForQuestionAnswering,
    PeirceForMultipleChoice,
)


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
    if not heads:
        return PeirceModel
    if len(heads) > 1:
        return PeirceForPreTraining
    use = heads[0].use
    if has_decoder(model.plan.architecture.part) and use in PeirceForConditionalGeneration.uses:
        return PeirceForConditionalGeneration
    if model.spec.scope.kind in ("causal", "prefix") and use in PeirceForCausalLM.uses:
        return PeirceForCausalLM
    return next((cls for cls in _WITH_ONE_HEAD if use in cls.uses), PeirceForPreTraining)

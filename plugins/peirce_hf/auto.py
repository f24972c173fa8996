"""Registration with the `Auto` classes of `transformers`."""

from __future__ import annotations

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from peirce_hf.config import PeirceConfig
from peirce_hf.generating import PeirceForCausalLM, PeirceForConditionalGeneration
from peirce_hf.models import (
    PeirceForMaskedLM,
    PeirceForMultipleChoice,
    PeirceForPreTraining,
    PeirceForQuestionAnswering,
    PeirceForSequenceClassification,
    PeirceForTokenClassification,
    PeirceModel,
)

_CLASSES = (
    (AutoModel, PeirceModel),
    (AutoModelForPreTraining, PeirceForPreTraining),
    (AutoModelForMaskedLM, PeirceForMaskedLM),
    (AutoModelForCausalLM, PeirceForCausalLM),
    (AutoModelForSeq2SeqLM, PeirceForConditionalGeneration),
    (AutoModelForSequenceClassification, PeirceForSequenceClassification),
    (AutoModelForTokenClassification, PeirceForTokenClassification),
    (AutoModelForQuestionAnswering, PeirceForQuestionAnswering),
    (AutoModelForMultipleChoice, PeirceForMultipleChoice),
)


def register() -> None:
    """Make the `Auto` classes and `pipeline` know configurations of the model type `peirce`; again does no harm."""
    AutoConfig.register(PeirceConfig.model_type, PeirceConfig, exist_ok=True)
    for auto, model in _CLASSES:
        auto.register(PeirceConfig, model, exist_ok=True)

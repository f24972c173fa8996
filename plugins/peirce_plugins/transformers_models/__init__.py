"""Peirce's models as models of the package `transformers`, and back.

`from peirce_plugins.transformers_models import register; register()` makes `AutoModel...` and `pipeline` know them.
Needs the extra `transformers`; nothing else in Peirce imports this package.
"""

from peirce_plugins.transformers_models.absent import MissingTransformersError
from peirce_plugins.transformers_models.auto import register
from peirce_plugins.transformers_models.base import PeircePreTrainedModel
from peirce_plugins.transformers_models.config import PeirceConfig
from peirce_plugins.transformers_models.conversion import from_peirce
from peirce_plugins.transformers_models.generating import PeirceForCausalLM, PeirceForConditionalGeneration
from peirce_plugins.transformers_models.memory import PeirceMemory
from peirce_plugins.transformers_models.models import (
    PeirceForMaskedLM,
    PeirceForMultipleChoice,
    PeirceForPreTraining,
    PeirceForQuestionAnswering,
    PeirceForSequenceClassification,
    PeirceForTokenClassification,
    PeirceModel,
)
from peirce_plugins.transformers_models.outputs import PeirceForPreTrainingOutput, PeirceModelOutput
from peirce_plugins.transformers_models.tokenizer import tokenizer_for

__all__ = [
    "MissingTransformersError",
    "PeirceConfig",
    "PeirceForCausalLM",
    "PeirceForConditionalGeneration",
    "PeirceForMaskedLM",
    "PeirceForMultipleChoice",
    "PeirceForPreTraining",
    "PeirceForPreTrainingOutput",
    "PeirceForQuestionAnswering",
    "PeirceForSequenceClassification",
    "PeirceForTokenClassification",
    "PeirceMemory",
    "PeirceModel",
    "PeirceModelOutput",
    "PeircePreTrainedModel",
    "from_peirce",
    "register",
    "tokenizer_for",
]

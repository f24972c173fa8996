"""Peirce's models as models of the package `transformers`, and back.

`from peirce_hf import register; register()` makes `AutoModel...` and `pipeline` know them.
Needs the extra `transformers`; nothing else in Peirce imports this package.
"""

from peirce_hf.absent import MissingTransformersError
from peirce_hf.auto import register
from peirce_hf.base import PeircePreTrainedModel
from peirce_hf.config import PeirceConfig
from peirce_hf.conversion import from_peirce
from peirce_hf.generating import PeirceForCausalLM, PeirceForConditionalGeneration
from peirce_hf.memory import PeirceMemory
from peirce_hf.models import (
    PeirceForMaskedLM,
    PeirceForMultipleChoice,
    PeirceForPreTraining,
    PeirceForQuestionAnswering,
    PeirceForSequenceClassification,
    PeirceForTokenClassification,
    PeirceModel,
)
from peirce_hf.outputs import PeirceForPreTrainingOutput, PeirceModelOutput
from peirce_hf.tokenizer import tokenizer_for

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

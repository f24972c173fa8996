"""Predictions from atoms."""

import peirce

from peirce_plugins.heads.causal_lm import CausalLanguageModel
from peirce_plugins.heads.classification import Classification
from peirce_plugins.heads.contrastive import Contrastive
from peirce_plugins.heads.cqd import BeamSearch, ContinuousSearch
from peirce_plugins.heads.entities import Entities
from peirce_plugins.heads.mlm import MaskedLanguageModel
from peirce_plugins.heads.multiple_choice import MultipleChoice
from peirce_plugins.heads.pair import SentencePair
from peirce_plugins.heads.relation import Relation, Swap
from peirce_plugins.heads.sets import BetaRanking, ConeRanking, CosineRanking
from peirce_plugins.heads.span import Span
from peirce_plugins.heads.token_classification import TokenClassification

__all__ = [
    "BeamSearch",
    "BetaRanking",
    "CausalLanguageModel",
    "Classification",
    "ConeRanking",
    "ContinuousSearch",
    "Contrastive",
    "CosineRanking",
    "Entities",
    "MaskedLanguageModel",
    "MultipleChoice",
    "Relation",
    "SentencePair",
    "Span",
    "Swap",
    "TokenClassification",
    "register_heads",
]


@peirce.hookimpl
def register_heads() -> list[type]:
    """The heads that ship with Peirce: on the whole input, on answer sets, on tokens, on pairs of tokens."""
    whole = [SentencePair, Classification, MultipleChoice, Contrastive, Entities]
    sets = [BetaRanking, ConeRanking, CosineRanking, BeamSearch, ContinuousSearch]
    return [
        *whole,
        *sets,
        CausalLanguageModel,
        MaskedLanguageModel,
        TokenClassification,
        Span,
        Relation,
        Swap,
    ]

"""Predictions from atoms."""

import peirce

from peirce_plugins.heads.classification import Classification
from peirce_plugins.heads.contrastive import Contrastive
from peirce_plugins.heads.entities import Entities
from peirce_plugins.heads.mlm import MaskedLanguageModel
from peirce_plugins.heads.pair import SentencePair

__all__ = [
    "Classification",
    "Contrastive",
    "Entities",
    "MaskedLanguageModel",
    "SentencePair",
    "register_heads",
]


@peirce.hookimpl
def register_heads() -> list[type]:
    """The heads that ship with Peirce."""
    return [MaskedLanguageModel, SentencePair, Classification, Contrastive, Entities]

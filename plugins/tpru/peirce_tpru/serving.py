"""Pairs of propositions to a served model: whether the one entails the other, without torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from peirce.parts import Signature
from peirce_export import Field, Say
from peirce_text import ClassificationPipeline
from peirce_tpru.entailment.formulas import SIGNS, check_proposition

IDS, SCORES, CLASSES = "input_ids", "matching_logits", 2
VOCABULARY = 5 + len(SIGNS)
"""Special tokens, and a token for each character."""


class EntailmentPipeline(ClassificationPipeline):
    """Whether a proposition entails another; other texts are refused."""

    question = (
        Field(name="text", kind="text", meaning="A proposition, such as ((p&q)>r)."),
        Field(name="pair", kind="text", meaning="Another one."),
    )

    @classmethod
    def answers(cls, signature: Signature, assets: Collection[str], generates: bool) -> bool:
        """Whether the task `entailment` trained the model: two classes of pairs of texts of single characters."""
        scored = any((each.name, each.dims[-1]) == (SCORES, CLASSES) for each in signature.outputs)
        return (
            super().answers(signature, assets, generates)
            and scored
            and signature.input(IDS).high == VOCABULARY
        )

    def example(self) -> Mapping[str, Any]:
        """A conjunction and a member of it."""
        return {"text": "(p&q)", "pair": "p"}

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Score both classes."""
        for field in self.question:
            check_proposition(question[field.name])
        super().ask(question, say)

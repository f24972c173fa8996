"""ROUGE of summaries by the package `rouge-score`, as tables of summarisation have it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

MEASURES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def rouge(written: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1 of each measure: the mean over a text's references, then over texts.

    Words are stemmed. For `rougeLsum` a text is divided into sentences after `.`, `!` and `?`.

    Args:
        written: a summary for each text.
        references: of each text.

    Returns:
        By the names of `MEASURES`, from 0 to 1.

    Source: ROUGE (Lin, 2004); Logical Transformers, Table 3.
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(MEASURES, use_stemmer=True)
    found: Mapping[str, list[float]] = {measure: [] for measure in MEASURES}
    for text, given in zip(written, references, strict=True):
        scores = [scorer.score(_lines(reference), _lines(text)) for reference in given]
        for measure in MEASURES:
            found[measure].append(float(np.mean([score[measure].fmeasure for score in scores])))
    return {measure: float(np.mean(values)) for measure, values in found.items()}


def _lines(text: str) -> str:
    return "\n".join(_SENTENCE.split(text))

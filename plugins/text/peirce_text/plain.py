"""What the `reference` of tasks on texts is written with: small files, ids, shares and ranks, by plain Python."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from peirce_text.text.tokenizer import Shorten, Tokenizer


def plain_table(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a small .jsonl, .csv or .tsv file with a header."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        if Path(path).suffix == ".jsonl":
            return [json.loads(line) for line in file]
        return list(csv.DictReader(file, delimiter="\t" if Path(path).suffix == ".tsv" else ","))


def plain_ids(tokenizer: Tokenizer, *texts: str, length: int, shorten: Shorten = "longest") -> dict[str, Any]:
    """What a model reads of a text, or of a pair."""
    encoding = tokenizer.encode(*texts, length=length, shorten=shorten)
    return {
        "input_ids": encoding.ids, "token_type_ids": encoding.types, "attention_mask": [True] * len(encoding.ids),
    }  # fmt: skip


def plain_best(scores: Sequence[float]) -> int:
    """The place of the largest."""
    return max(range(len(scores)), key=lambda i: scores[i])


def plain_mean(values: Sequence[float]) -> float:
    """The mean."""
    return sum(map(float, values)) / len(values)


def plain_f1(right: Sequence[Any], given: Sequence[Any]) -> float:
    """F1 of what is true in both, twice over what is true in either."""
    both = sum(bool(a and b) for a, b in zip(right, given, strict=True))
    return 2 * both / max(1, sum(map(bool, right)) + sum(map(bool, given)))


def plain_spans(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """The spans of tags B-kind, I-kind and O; one begins where a kind does."""
    found, start = set(), 0
    for i, tag in enumerate(tags):
        if tag != "O" and (tag[0] == "B" or i == 0 or tags[i - 1][1:] != tag[1:]):
            start = i
        following = tags[i + 1] if i + 1 < len(tags) else "O"
        if tag != "O" and (following[0] == "B" or following[1:] != tag[1:]):
            found.add((start, i + 1, tag[2:]))
    return found


def plain_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's."""
    a, b = ([each - plain_mean(values) for each in values] for values in (one, other))
    both = sum(x * y for x, y in zip(a, b, strict=True))
    return float(both / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5)


def plain_ranks(values: Sequence[float]) -> list[float]:
    """The place of each value, from 1; equal ones share the mean of theirs."""
    return [1 + sum(b < a for b in values) + (sum(b == a for b in values) - 1) / 2 for a in values]


def plain_accuracy(guesses: Iterable[tuple[int, Sequence[float]]]) -> float:
    """The share of labels, each beside the scores of its classes, whose score is the largest."""
    return plain_mean([plain_best(scores) == label for label, scores in guesses])

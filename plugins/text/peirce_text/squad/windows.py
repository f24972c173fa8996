"""A question and as much of its context as fits, in windows that overlap; and the best spans over all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Window = tuple[int, int]
"""The first token of the context, and the one after the last."""


def windows(count: int, room: int, stride: int) -> list[Window]:
    """How a context is divided.

    Args:
        count: its tokens.
        room: the most tokens in a window.
        stride: how many tokens further each window starts; none is left out if it is more than `room`.
    """
    found = [(0, min(room, count))]
    while found[-1][1] < count:
        start = found[-1][0] + min(room, stride)
        found.append((start, min(start + room, count)))
    return found


def best_windows(parts: Sequence[Window], count: int) -> Ints:
    """For each token of a context, the window that shows most of what stands around it (BERT's published code).

    That is the one with the most tokens on the poorer side; of equals, the longest, then the first.
    """
    token = np.arange(count)
    scores = np.full((len(parts), count), -np.inf)
    for i, (start, end) in enumerate(parts):
        around = np.minimum(token[start:end] - start, end - 1 - token[start:end])
        scores[i, start:end] = around + 0.01 * (end - start)
    return scores.argmax(0) if count else np.zeros(0, dtype=np.int64)


def token_span(answer: Window, offsets: Ints) -> Window | None:
    """The tokens that hold an answer: its first and its last.

    Args:
        answer: the character it starts at, and the one after its last.
        offsets: int64 [tokens, 2], where each token starts and ends, in characters.

    Returns:
        None where no token holds it.
    """
    inside = np.flatnonzero((offsets[:, 1] > answer[0]) & (offsets[:, 0] < answer[1]))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


@frozen
class Candidate:
    """A span of the context: its first and last token, and the sum of their scores."""

    score: float
    first: int
    last: int


def candidates(
    logits: Floats, window: Window, owner: Ints, index: int, *, n_best: int, longest: int
) -> list[Candidate]:
    """The best spans of one window.

    Args:
        logits: [tokens of the window, 2], the scores of each as the first and as the last.
        window: which tokens of the context they are.
        owner: which window each token of the context is judged in, as its first.
        index: which window this is.
        n_best: how many firsts and lasts are combined.
        longest: the most tokens of an answer.
    """
    start = window[0]
    here = owner[window[0] : window[1]] == index
    firsts, lasts = np.argsort(-logits, axis=0, kind="stable")[:n_best].T.tolist()
    return [
        Candidate(float(logits[i, 0]) + float(logits[j, 1]), start + i, start + j)
        for i in firsts
        for j in lasts
        if here[i] and i <= j < i + longest
    ]

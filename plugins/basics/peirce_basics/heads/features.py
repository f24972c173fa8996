"""What a head on a whole input scores linearly, beside the pooled output: n-grams of tokens; and the scores' start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peirce.algebra import at_least_float32
from peirce.extras import require
from peirce.parts import Encoded, Tokens

STRENGTH = 10.0
"""Scikit-learn's C. On 200 and 1,000 rows of CR, MR, SUBJ and TREC, 5, 10 and 20 differ by less than a point; 1, its
default, is up to 20 points lower."""
_FACTOR = 1_000_003
Batch: TypeAlias = tuple[Encoded, Tokens, Tensor, Tensor | None]
"""What a head reads, the labels, and the weights of the examples, if they have any."""


class NGrams(nn.Module):
    """Scores of n-grams: sum_g i[g] s[g] / |i|, over the n-grams g that end at a token, with the norm of their i[g].

    N-grams are numbers below `buckets`, a hash of their tokens; those of one token have its id's remainder, so that no
    two tokens meet where there are as many buckets as tokens.

    Args:
        longest: how many tokens an n-gram has at most.
        buckets: how many numbers there are.
        classes: the scores of each.
    """

    def __init__(self, longest: int, buckets: int, classes: int) -> None:
        super().__init__()
        self.longest = longest
        self.importance = nn.Parameter(torch.ones(buckets))
        self.scores = nn.Parameter(torch.zeros(buckets, classes))

    def numbers(self, ids: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """int64 [b, n, x], the number of the n-gram of each length that ends at each token; bool, whether it is one."""
        buckets = len(self.importance)
        there = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        number = ids % buckets
        numbers, whole = [number], [there]
        for _ in range(1, self.longest):
            number = (F.pad(number[:, :-1], (1, 0)) * _FACTOR + ids + 1) % buckets
            there = F.pad(there[:, :-1], (1, 0)) & whole[0]
            numbers.append(number)
            whole.append(there)
        return torch.stack(numbers, 1), torch.stack(whole, 1)

    def forward(self, ids: Tensor, real: Tensor | None) -> Tensor:
        """int64 [b, x], bool [b, x] or None -> [b, classes]; zero where nothing is."""
        numbers, whole = (each.flatten(1) for each in self.numbers(ids, real))
        importance = at_least_float32(self.importance[numbers]) * whole
        norm = importance.square().sum(1, keepdim=True).clamp_min(1e-12).sqrt()  # float16 has no such number
        return torch.einsum("bg,bgc->bc", (importance / norm).to(self.scores.dtype), self.scores[numbers])

    def fit(self, examples: Iterable[Batch]) -> tuple[Any, Any]:
        """Set importance and scores: idf, and the weights of a logistic regression on what they weigh.

        An n-gram of several tokens that one text alone has counts for nothing.

        Args:
            examples: what the head reads of each batch, as `Head.fit` is given it.

        Returns:
            The classes that there are, and their intercepts.
        """
        from scipy import sparse

        buckets = len(self.importance)
        rows, columns, right, single, count = [], [], [], np.zeros(buckets, bool), 0
        for _, tokens, labels, weights in examples:
            numbers, whole = (
                each.cpu().numpy() for each in self.numbers(tokens.inputs["input_ids"], tokens.real)
            )
            single[numbers[:, 0][whole[:, 0]]] = True
            row, *_ = found = np.nonzero(whole)
            rows.append(row + count)
            columns.append(numbers[found])
            right.append((labels, weights))
            count += len(labels)
        row, column = np.concatenate(rows), np.concatenate(columns)
        counts = sparse.csr_matrix((np.ones(len(row)), (row, column)), (count, buckets))
        texts = np.bincount(counts.indices, minlength=buckets)
        weight = np.where((texts > 1) | (single & (texts > 0)), np.log((1 + count) / (1 + texts)) + 1, 0.0)
        used = np.flatnonzero(weight)
        counts, weight = counts[:, used], weight[used]
        norms = np.sqrt(counts @ np.square(weight))
        scaled = sparse.diags(1 / np.maximum(norms, 1e-6)) @ counts @ sparse.diags(weight)
        classes, scores, intercepts = logistic_regression(scaled, right)
        with torch.no_grad():
            self.importance.zero_()[used] = like(weight, self.importance)
            self.scores.zero_()
            self.scores[np.ix_(used, classes)] = like(scores.T, self.scores)
        return classes, intercepts


def plain_ngrams(
    ids: Sequence[int], longest: int, importance: Sequence[float], scores: Sequence[Sequence[float]]
) -> Any:
    """What `NGrams` computes of one text, n-gram by n-gram: for `reference`."""
    found = []
    for first in range(len(ids)):
        number = ids[first] % len(importance)
        found.append(number)
        for each in ids[first + 1 : first + longest]:
            number = (number * _FACTOR + each + 1) % len(importance)
            found.append(number)
    norm = max(1e-6, sum(importance[number] ** 2 for number in found) ** 0.5)
    return sum(importance[number] / norm * np.array(scores[number]) for number in found)


def logistic_regression(inputs: Any, right: Sequence[tuple[Tensor, Tensor | None]]) -> tuple[Any, Any, Any]:
    """The classes that there are, and scores [classes, d] and intercepts [classes] of a logistic regression.

    Args:
        inputs: float [n, d], sparse or not.
        right: the labels of each batch, and the weights of its examples, which are all 1 if None.

    Raises:
        TaskError: scikit-learn is not installed.
    """
    require('a head with begin = "regression"', "sklearn", extra="peirce-basics[regression]")
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    labels = torch.cat([each for each, _ in right]).cpu().numpy()
    weights = torch.cat([torch.ones(len(a)) if b is None else b.cpu() for a, b in right]).numpy()
    with threadpool_limits(1):  # several threads took 20 times as long where other processes compute
        found = LogisticRegression(C=STRENGTH, max_iter=300).fit(inputs, labels, weights)
    scores, intercepts = found.coef_, found.intercept_
    if len(found.classes_) == 2:  # one score, of the second against the first
        scores, intercepts = (np.concatenate([-each / 2, each / 2]) for each in (scores, intercepts))
    return found.classes_, scores, intercepts


def like(values: Any, parameter: Tensor) -> Tensor:
    """Values as a tensor of the dtype and on the device of a parameter."""
    return torch.as_tensor(values, dtype=parameter.dtype, device=parameter.device)

"""How SentEval measures: logistic regression chosen by cross validation, relatedness as a distribution, similarity."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from peirce.errors import TaskError
from peirce_text import with_progress

Features = NDArray[np.float32]
Labels = NDArray[np.int64]
Scores = NDArray[np.float64]

SEED = 1111
"""SentEval's own."""
GRID = tuple(2.0**power for power in range(-2, 4))
"""The inverse strengths of L2 regularisation that are tried, where there is no test set or one for choosing."""
WIDER = tuple(2.0**power for power in range(-1, 6))
"""The inverse strengths that are tried where training and test sets are given."""
_MORE = "take a file with more examples, or raise --limit"
RATINGS = np.arange(1.0, 6.0)
BATCH, EPOCHS, MOST_EPOCHS, PATIENCE = 64, 50, 1000, 4
"""How relatedness is trained: rows a step, passes between two evaluations, and when it stops."""


def pair_features(u: Features, v: Features) -> Features:
    """[|u - v|; u * v], what classifiers of pairs read."""
    return np.concatenate([np.abs(u - v), u * v], axis=1)


def cross_validate(features: Features, labels: Labels, folds: int, what: str = "folds") -> float:
    """Accuracy over folds, with the strength chosen for each by folds of its training part.

    Args:
        features: [n, d].
        labels: [n].
        folds: how many.
        what: what they are, for the progress bar.
    """
    parts = list(_folds(features, labels, folds))
    scores = [
        score_on_test_set((features[train], labels[train]), (features[test], labels[test]), folds, GRID)[0]
        for train, test in with_progress(parts, what, len(parts), 2)
    ]
    return float(sum(scores) / len(parts))


def score_on_test_set(
    train: tuple[Features, Labels], test: tuple[Features, Labels], folds: int, grid: Sequence[float] = WIDER
) -> tuple[float, Labels]:
    """Accuracy on a test set and the labels given, with the strength chosen by folds of the training set.

    The strength is the one with the highest mean accuracy over the folds, the smallest of those that are alike.
    """
    features, labels = train
    parts = list(_folds(features, labels, folds))
    means = [
        np.mean([_fit(features[a], labels[a], strength).score(features[b], labels[b]) for a, b in parts])
        for strength in grid
    ]
    model = _fit(*train, grid[int(np.argmax(np.round(100 * np.array(means), 2)))])
    return float(model.score(*test)), model.predict(test[0])


def choose_and_test(
    train: tuple[Features, Labels], valid: tuple[Features, Labels], test: tuple[Features, Labels]
) -> float:
    """Accuracy on a test set, with the strength chosen by the set for choosing."""
    models = [_fit(*train, strength) for strength in GRID]
    scores = [round(100 * model.score(*valid), 2) for model in models]
    return float(models[int(np.argmax(scores))].score(*test))


def relatedness(
    train: tuple[Features, Scores], valid: tuple[Features, Scores], test: tuple[Features, Scores]
) -> dict[str, float]:
    """Relatedness from 1 to 5 as the expectation of a softmax over these five, trained on the squared error to a
    distribution with that expectation (Tai et al., 2015); the best by Pearson's correlation on the set for choosing.

    Returns:
        Pearson's and Spearman's correlation on the test set.
    """
    generator = torch.Generator().manual_seed(SEED)
    given, wanted = torch.from_numpy(train[0]), torch.from_numpy(_rating_distribution(train[1]))
    model = nn.Sequential(nn.Linear(given.shape[1], len(RATINGS)), nn.Softmax(dim=-1))
    with torch.no_grad():
        bound = given.shape[1] ** -0.5
        for parameter in model.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    optimizer = torch.optim.Adam(model.parameters())

    def rate(features: Features) -> Scores:
        with torch.no_grad():
            return np.asarray(model(torch.from_numpy(features)).numpy() @ RATINGS)

    best, answer, worse = -2.0, rate(test[0]), 0
    for _ in range(0, MOST_EPOCHS, EPOCHS):
        for _ in range(EPOCHS):
            order = torch.randperm(len(given), generator=generator)
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                loss = nn.functional.mse_loss(model(given[rows]), wanted[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        score = correlations(rate(valid[0]), valid[1])["pearson"]
        if score > best:
            best, answer = score, rate(test[0])
        else:
            worse += 1
            if worse == PATIENCE:
                break
    return correlations(answer, test[1])


def similarity(pairs: Mapping[str, tuple[Features, Features, Scores]]) -> dict[str, float]:
    """Correlations of the cosine of two vectors with the scores of people.

    Args:
        pairs: by set, both vectors of each pair and its score.

    Returns:
        `pearson` and `spearman`, means of the sets' weighted by their pairs; `pearson_mean` and `spearman_mean`, not
        weighted; `spearman_all`, of all pairs of the year together; and each set's, `spearman/images`.
    """
    found = {name: (cosines(u, v), scores) for name, (u, v, scores) in pairs.items()}
    by_set = {name: correlations(*both) for name, both in found.items()}
    weights = [len(scores) for _, scores in found.values()]
    result: dict[str, float] = {}
    for kind in ("pearson", "spearman"):
        values = [figures[kind] for figures in by_set.values()]
        result[kind] = float(np.average(values, weights=weights))
        result[f"{kind}_mean"] = float(np.mean(values))
    together = [np.concatenate(arrays) for arrays in zip(*found.values(), strict=True)]
    result["spearman_all"] = correlations(*together)["spearman"]
    for kind in ("pearson", "spearman"):
        result |= {f"{kind}/{name}": figures[kind] for name, figures in by_set.items()}
    return result


def cosines(u: Features, v: Features) -> Scores:
    """The cosine of each row of u with that of v; 0 where one is zero."""
    one, other = u.astype(np.float64), v.astype(np.float64)
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray((one * other).sum(1) / np.where(norms > 0, norms, 1))


def correlations(given: Scores, wanted: Scores) -> dict[str, float]:
    """Pearson's and Spearman's; 0 where what is given is constant.

    Raises:
        TaskError: the wanted scores are constant, so that there is no correlation with them.
    """
    from scipy.stats import pearsonr, spearmanr

    check_scores(wanted)
    if np.ptp(given) == 0:
        return {"pearson": 0.0, "spearman": 0.0}
    return {
        "pearson": float(pearsonr(given, wanted).statistic),
        "spearman": float(spearmanr(given, wanted).statistic),
    }


def check_scores(wanted: Scores | Labels) -> None:
    """Refuse scores that are all alike with a `TaskError`, since there is no correlation with them."""
    if np.ptp(wanted) == 0:
        raise TaskError(f"the scores of its {len(wanted)} pairs are all alike; take a file with other scores")


def check_classes(labels: Labels | Scores, folds: int, nested: bool = False) -> None:
    """Refuse labels with a `TaskError` that have no two classes, or a class too small for folds.

    Args:
        labels: [n].
        folds: how many; 0 for none.
        nested: whether all but one fold are divided by folds again, which lack up to two of the class.
    """
    counts = np.unique(labels, return_counts=True)[1]
    if len(counts) < 2:
        raise TaskError(
            f"all {len(labels)} examples have one class, so there is nothing to tell apart; {_MORE}"
        )
    if (fewest := int(counts.min())) < folds + 2 * nested:
        raise TaskError(
            f"of one class there are only {fewest}, too few for {folds} folds; lower --folds, or {_MORE}"
        )


def _rating_distribution(scores: Scores) -> Features:
    """A distribution over the ratings with each score as its expectation, on the two nearest: [n] -> [n, 5]."""
    return np.clip(1 - np.abs(scores[:, None] - RATINGS), 0, 1).astype(np.float32)


def _folds(features: Features, labels: Labels, folds: int) -> Any:
    from sklearn.model_selection import StratifiedKFold

    check_classes(labels, folds)
    return StratifiedKFold(folds, shuffle=True, random_state=SEED).split(features, labels)


def _fit(features: Features, labels: Labels, strength: float) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        # As in SentEval, whose classifiers end after 100 steps.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=strength, random_state=SEED).fit(features, labels)

"""Training the classifiers of senses, their cross-validated accuracy, and Fig. 2's picture."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.errors import InputError, escape_controls
from peirce.extras import check_picture
from peirce.files import write_whole
from peirce_logic.senses.classifiers import Classifier, Senses
from peirce_logic.senses.sentences import NONE, LabelledSentence
from peirce_logic.senses.vectors import Vectors

PENALTY = 0.01
"""C of the support vector machine, on vectors of mean 0 and variance 1."""
FOLDS, REPEATS = 10, 5


@frozen(kw_only=True)
class Scores:
    """How well senses of one keyword are found.

    Args:
        sentences: how many there are.
        accuracy: the share whose sense is found; of cross-validation, the mean over its repetitions.
        spread: the standard deviation over them; 0 where there is one.
        most_frequent: the share of the most frequent sense.
        recalls: the share of each sense's sentences that are found.
    """

    sentences: int
    accuracy: float
    spread: float
    most_frequent: float
    recalls: Mapping[str, float]


Given = Mapping[str, tuple[NDArray[np.float32], list[str]]]
"""By keyword: the vectors of its sentences, float32 [n, width], and their senses."""


def encode_keywords(vectors: Vectors, sentences: Sequence[LabelledSentence]) -> Given:
    """The vectors of labelled keywords, with their senses."""
    found = vectors.of([each.text for each in sentences], [each.place for each in sentences])
    words = dict.fromkeys(each.keyword for each in sentences)
    rows = {word: [i for i, each in enumerate(sentences) if each.keyword == word] for word in words}
    return {word: (found[places], [sentences[i].relation for i in places]) for word, places in rows.items()}


def train(vectors: Vectors, given: Given) -> Senses:
    """A linear support vector machine for each keyword.

    Raises:
        InputError: the sentences of a keyword all have one sense.

    Source: Logical Transformers, Section 3.1.
    """
    found = {word: _fit(word, *each) for word, each in given.items()}
    return Senses(vectors.encoder, vectors.digest, found)


def cross_validate(given: Given, folds: int = FOLDS, repeats: int = REPEATS) -> dict[str, Scores]:
    """How well senses are found in sentences left out of the training.

    Args:
        given: vectors and senses by keyword.
        folds: parts of the sentences, each with the senses' shares; fewer where a sense has fewer sentences.
        repeats: how often they are divided anew.

    Raises:
        InputError: a sense has a single sentence.
    """
    from sklearn.model_selection import StratifiedKFold

    scores = {}
    for word, (vectors, senses) in given.items():
        rarest, fewest = Counter(senses).most_common()[-1]
        if fewest < 2:
            raise InputError(f"{word!r} has one sentence of the sense {rarest!r}; cross-validation needs two")
        truth, rounds = np.array(senses), []
        for seed in range(repeats):
            predicted = truth.copy()
            parts = StratifiedKFold(min(folds, fewest), shuffle=True, random_state=seed)
            for kept, left in parts.split(vectors, truth):
                predicted[left] = _fit(word, vectors[kept], truth[kept].tolist()).of(vectors[left])
            rounds.append(predicted)
        scores[word] = score(senses, rounds)
    return scores


def score(senses: Sequence[str], rounds: Sequence[Sequence[str] | NDArray[np.str_]]) -> Scores:
    """Compare the predicted senses, of one prediction or several, with those of the sentences."""
    truth = np.array(senses)
    right = np.array([np.array(predicted) == truth for predicted in rounds])
    each = right.mean(1)
    return Scores(
        sentences=len(truth),
        accuracy=float(each.mean()),
        spread=float(each.std(ddof=1)) if len(each) > 1 else 0.0,
        most_frequent=max(Counter(senses).values()) / len(truth),
        recalls={sense: float(right[:, truth == sense].mean()) for sense in sorted(set(senses))},
    )


def draw(given: Given, path: Path) -> None:
    """Draw the vectors of each keyword on their first two principal components, coloured by sense.

    Raises:
        TaskError: as `check_picture`.

    Source: Logical Transformers, Fig. 2.
    """
    check_picture(path, extra="train")
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from sklearn.decomposition import PCA

    form, picture = path.suffix.lower()[1:], io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "peirce"}):
        figure = Figure(figsize=(3.6 * len(given), 3.6), layout="constrained")
        panels = figure.subplots(1, len(given), squeeze=False)[0]
        for panel, (word, (vectors, senses)) in zip(panels, given.items(), strict=True):
            flat, truth = PCA(2, random_state=0).fit_transform(vectors), np.array(senses)
            for sense in sorted(set(senses)):
                points = flat[truth == sense]
                colour, mark = ("black", "x") if sense == NONE else (None, "o")  # None is the next colour
                panel.scatter(points[:, 0], points[:, 1], s=14, color=colour, marker=mark, label=sense)
            panel.set_title(escape_controls(word), parse_math=False)
            panel.set_xticks([])
            panel.set_yticks([])
            panel.legend(fontsize=8)
        dates: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure.savefig(picture, format=form, dpi=150, metadata=dates)
    write_whole(path, picture.getvalue())


def _fit(word: str, vectors: NDArray[np.float32], senses: Sequence[str]) -> Classifier:
    from sklearn.svm import LinearSVC

    if len(set(senses)) < 2:
        raise InputError(
            f"all sentences of {word!r} have the sense {senses[0]!r}; label some that have another"
        )
    mean, deviation = vectors.mean(0), vectors.std(0) + 1e-6
    machine = LinearSVC(C=PENALTY, class_weight="balanced", random_state=0, max_iter=20_000)
    machine.fit((vectors - mean) / deviation, senses)
    weight, bias = machine.coef_, machine.intercept_
    if len(weight) == 1:  # of two senses, the score of the second
        weight, bias = np.concatenate([-weight, weight]), np.concatenate([-bias, bias])
    weight = weight / deviation
    return Classifier(
        tuple(map(str, machine.classes_)),
        weight.astype(np.float32),
        (bias - weight @ mean).astype(np.float32),
    )

"""What a classifier must beat: the most frequent class, and logistic regression on a bag of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peirce_text.reading import Example
from peirce_text.tabular.columns import shown
from peirce_text.tabular.measures import Confusion
from peirce_text.text.encoding import Ints

FOLDS = 5
"""Parts of the rows in turn left out."""
CHARACTERS = 2000
"""The characters of a row that are read, about as many as 512 tokens have."""
MOST_WORK = 1 << 26
"""The most words and pairs of words, times classes, that are learned from: about two minutes of one core."""
_WEIGHTS = 1 << 22
"""The most weights: 32 MB."""
Floats = NDArray[np.float64]


def is_too_much(rows: Sequence[Sequence[str]], classes: int) -> bool:
    """Whether a bag of words would take too long to learn, of the texts of rows in classes."""
    words = sum(len(" ".join(texts)[:CHARACTERS].split()) for texts in rows)
    return 2 * words * classes > MOST_WORK or len(rows) * classes > MOST_WORK


def count_ngrams(rows: Sequence[Sequence[str]], classes: int) -> Any:
    """How often words and pairs of words are in the texts of rows: a sparse matrix [rows, hashed n-grams]."""
    from sklearn.feature_extraction.text import HashingVectorizer

    sizes: Any = {"ngram_range": (1, 2), "n_features": _WEIGHTS // classes}
    vectorizer = HashingVectorizer(token_pattern=r"\S+", alternate_sign=False, norm=None, **sizes)
    return vectorizer.transform([" \n ".join(texts)[:CHARACTERS] for texts in rows])


def class_probabilities(counts: Any, labels: Ints, seen: Ints, left_out: Ints, classes: int) -> Floats:
    """Probabilities of the classes of some rows, by logistic regression on TF-IDF of others.

    Args:
        counts: what `count_ngrams` gives of all rows.
        labels: int64 [rows], the class of each.
        seen: the rows that are learned from.
        left_out: the rows that are predicted.
        classes: how many classes there are.

    Returns:
        float64 [left_out, classes].
    """
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    shares = np.zeros((len(left_out), classes))
    known = counts[:, counts[seen].getnnz(0) > 0]  # others have no weight, and would take part in the norm
    if len(np.unique(labels[seen])) < 2 or not known.shape[1]:
        shares[:, np.bincount(labels[seen]).argmax()] = 1.0
        return shares
    vectors = TfidfTransformer(sublinear_tf=True).fit(known[seen]).transform(known)
    model = OneVsRestClassifier(LogisticRegression(C=10.0, solver="liblinear"))
    model.fit(vectors[seen], labels[seen])
    shares[:, model.classes_] = model.predict_proba(vectors[left_out])
    return shares


def left_out_probabilities(rows: Sequence[Sequence[str]], labels: Ints, classes: int) -> Floats:
    """Probabilities of the classes of rows, float64 [rows, classes], each learned from four fifths of the others.

    Rows with equal texts are always left out together.
    """
    numbers: dict[Sequence[str], int] = {}
    groups = np.array([numbers.setdefault(texts, len(numbers)) for texts in rows])
    folds = np.random.default_rng(0).permutation(len(numbers))[groups] % FOLDS
    counts, shares = count_ngrams(rows, classes), np.zeros((len(rows), classes))
    for fold in np.unique(folds) if len(numbers) > 1 else ():
        seen, left_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        shares[left_out] = class_probabilities(counts, labels, seen, left_out, classes)
    return shares


def baseline_sentences(train: Sequence[Example], tested: Sequence[Example]) -> Iterator[str]:
    """How often the most frequent class of the training rows is right, and logistic regression on a bag of words.

    Args:
        train: the examples to learn from, each with the name of its class as the note.
        tested: those to predict.
    """
    right = [each.note for each in tested]
    counts = Counter(each.note for each in train)
    if not right or len(counts) < 2:
        return
    majority, _ = counts.most_common(1)[0]
    yield (
        f"for comparison, {shown(majority)} for every row, the most frequent class in training: accuracy "
        f"{right.count(majority) / len(right):.4f}"
    )
    rows = [each.texts for each in (*train, *tested)]
    names = sorted({*counts, *right})
    if is_too_much(rows, len(names)):
        return
    numbers = {name: number for number, name in enumerate(names)}
    labels = np.array([numbers[each.note] for each in (*train, *tested)])
    seen, left_out = np.split(np.arange(len(rows)), [len(train)])
    shares = class_probabilities(count_ngrams(rows, len(names)), labels, seen, left_out, len(names))
    scores = Confusion.of(names, labels[left_out], shares.argmax(-1)).scores
    yield (
        f"for comparison, logistic regression on TF-IDF of words and pairs of words of {len(train):,} training rows: "
        f"accuracy {scores['accuracy']:.4f}, macro F1 {scores['macro_f1']:.4f}"
    )

"""What a classifier must beat: the most frequent class, and a bag of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from peirce_text.reading import Example
from peirce_text.tabular.columns import shown


def baseline_sentences(train: Sequence[Example], tested: Sequence[Example]) -> Iterator[str]:
    """How often the most frequent class of the training rows is right, and TF-IDF with a logistic regression.

    Both have the settings that scikit-learn gives them.

    Args:
        train: the examples to learn from, each with the name of its class as the note.
        tested: those to predict.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score
    from sklearn.pipeline import make_pipeline
    from threadpoolctl import threadpool_limits

    right = [each.note for each in tested]
    counts = Counter(each.note for each in train)
    if not right or len(counts) < 2:
        return
    majority, _ = counts.most_common(1)[0]
    yield (
        f"for comparison, {shown(majority)} for every row, the most frequent class in training: accuracy "
        f"{right.count(majority) / len(right):.4f}"
    )
    texts, known = (["\n".join(each.texts) for each in rows] for rows in (tested, train))
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    try:
        with threadpool_limits(1):  # several threads took 20 times as long where other processes compute
            found = model.fit(known, [each.note for each in train]).predict(texts)
    except ValueError:  # no text has a word
        return
    accuracy = sum(a == b for a, b in zip(found, right, strict=True)) / len(right)
    names = sorted({*counts, *right})
    mean = f1_score(right, found, labels=names, average="macro", zero_division=0)
    yield (
        f"for comparison, TF-IDF with logistic regression on {len(train):,} training rows: accuracy "
        f"{accuracy:.4f}, macro F1 {mean:.4f}"
    )

"""A diagnosis as one HTML page that needs no network: `report.html` of a training, and what `peirce explain` writes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from peirce.errors import TaskError
from peirce.files import write_whole
from peirce_show import Markup, element, observe, page
from peirce_text.tabular.checks import Labelled
from peirce_text.tabular.columns import shown
from peirce_text.tabular.diagnosis import Diagnosis, Finding
from peirce_text.tabular.predictor import LocalPredictor, TorchRunner
from peirce_text.tabular.scores import f1_of
from peirce_text.text.encoding import encode

MOST_ERRORS, MOST_DOUBTS, MOST_CLASSES = 20, 50, 25
"""The most errors and doubtful labels that are listed, and the most classes of a matrix."""
LONGEST = 1500
"""The most characters of a text that are shown."""
Weights = Sequence[tuple[int, int, float]]
"""Stretches of a text, from and to a character, with the share of the largest weight there."""


def write_report(
    path: Path,
    found: Diagnosis,
    predictor: LocalPredictor,
    *,
    title: str,
    where: str,
    checks: Iterable[str] = (),
    curves: Path,
) -> None:
    """Write the page.

    Args:
        path: where it goes.
        found: the diagnosis.
        predictor: the model; a saved one in torch shows what it attends to.
        title: the page's heading.
        where: which rows are measured, in a few words.
        checks: what the data lack, a sentence each.
        curves: a PNG of the learning curves, which need not be there.
    """
    judged, scores = found.judged, found.judged.confusion.scores
    measured = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in scores.items())
    most = np.bincount(judged.labels, minlength=len(judged.classes))
    beside = f"always {shown(judged.classes[int(most.argmax())])}: {most.max() / len(judged.labels):.3f}"
    if found.baseline is not None:
        beside += f"; logistic regression on a bag of words: {found.baseline.mean():.3f}"
    steps = found.next_steps()
    sections = [
        element("p", f"{len(judged.labels):,} {'words' if judged.tags else 'rows'} of {where}: {measured}."),
        element("p", f"Accuracy of {beside}.", class_="muted"),
        *_section(
            "What to try next",
            element("ol", *(element("li", step) for step in steps))
            if steps
            else element("p", "No figure on this page points to one cause."),
        ),
        *_section("What the data lack", *_list(checks)),
        *_section("Curves", *_picture(curves)),
        *_section("Scores by class", _class_table(found)),
        *_section("What is taken for what", *_matrix(found)),
        *_section("The surest errors", *_errors(found, predictor)),
        *_section("Labels that look wrong", *_doubts(found)),
        *_section("Calibration", *_calibration(found)),
        *_section("Scores by length", _length_table(found)),
    ]
    style = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    write_whole(path, page(title, *sections, style=style).encode())


def _section(title: str, *content: Markup) -> list[Markup]:
    """A heading and what follows it; nothing where there is nothing."""
    return [element("h2", title), *content] if content else []


def _list(sentences: Iterable[str]) -> list[Markup]:
    items = [element("li", sentence) for sentence in sentences]
    return [element("ul", *items)] if items else []


def _picture(path: Path) -> list[Markup]:
    if not path.is_file():
        return []
    source = f"data:image/png;base64,{b64encode(path.read_bytes()).decode()}"
    return [element("img", src=source, alt="Loss and metrics of training and validation over steps")]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], **attributes: object) -> Markup:
    """A table whose first column names its rows."""
    return element(
        "table",
        element("thead", element("tr", *(element("th", cell, scope="col") for cell in head))),
        element("tbody", *(
            element("tr", element("th", first, scope="row"), *(
                each if isinstance(each, Markup) else element("td", each) for each in rest
            ))
            for first, *rest in rows
        )),
        **attributes,
    )  # fmt: skip


def _class_table(found: Diagnosis) -> Markup:
    judged, matrix = found.judged, found.judged.matrix
    there, guessed, hit = matrix.sum(-1), matrix.sum(0), matrix.diagonal()
    f1 = f1_of(there, guessed, hit)
    wrong = matrix - np.diag(hit)
    rows: list[tuple[str, ...]] = []
    for i in map(int, np.lexsort((-there, f1))):
        name, worst = judged.classes[i], int(wrong[i].argmax())
        taken = f"{shown(judged.classes[worst])} ({wrong[i, worst]:,})" if wrong[i, worst] else ""
        rates = [f"{hit[i] / max(1, guessed[i]):.3f}", f"{hit[i] / max(1, there[i]):.3f}", f"{f1[i]:.3f}"]
        other = [f"{found.counts.get(name, 0):,}"] if found.counts else []
        rates = rates if there[i] else ["not measured", "", ""]
        rows.append((shown(name), *other, f"{there[i]:,}", *rates, taken))
    other = ["other rows"] if found.counts else []
    return _table(["class", *other, "support", "precision", "recall", "F1", "most often taken for"], rows)


def _matrix(found: Diagnosis) -> list[Markup]:
    judged, matrix = found.judged, found.judged.matrix
    chosen = np.flatnonzero(matrix.sum(0) + matrix.sum(-1))
    names = list(map(shown, judged.classes))
    if len(chosen) > MOST_CLASSES:
        wrong = matrix - np.diag(matrix.diagonal())
        pairs = (divmod(int(at), len(names)) for at in np.argsort(-wrong, axis=None)[:MOST_CLASSES])
        worst = [(names[a], names[b], f"{wrong[a, b]:,}") for a, b in pairs if wrong[a, b]]
        return [_table(["class", "taken for", "how often"], worst)]
    rows: list[tuple[object, ...]] = []
    for i in chosen:
        total = max(1, int(matrix[i].sum()))
        cells = []
        for j in chosen:
            share, role = matrix[i, j] / total, "unary" if i == j else "binary"
            colour = f"background: color-mix(in srgb, var(--{role}) {60 * share:.0f}%, transparent)"
            cells.append(element("td", f"{matrix[i, j]:,}", style=colour))
        rows.append((names[i], *cells))
    legend = element(
        "p", "A row has the items of one class, a column what they are taken for.", class_="muted"
    )
    return [legend, _table(["", *(names[i] for i in chosen)], rows, class_="matrix")]


def _errors(found: Diagnosis, predictor: LocalPredictor) -> list[Markup]:
    errors = found.judged.errors(MOST_ERRORS)
    weights = [() if found.judged.tags else attention(predictor, each.row) for each in errors]
    articles = [_article(*each, "predicted") for each in zip(errors, weights, strict=True)]
    if any(each for texts in weights for each in texts):
        note = "Deeper colour: the last layer attends more to it. Weights say what was summed, not why."
        articles.insert(0, element("p", note, class_="muted"))
    return articles or [element("p", "No row is predicted wrongly.")]


def _article(found: Finding, weights: Sequence[Weights], other: str) -> Markup:
    """A row with its label, and another class."""
    row, word, texts = found.row, found.word, found.row.texts
    if word is not None:
        start = len(" ".join(texts[:word])) + bool(word)
        texts, weights = (" ".join(texts),), [[(start, start + len(texts[word]), 1.0)]]
    place = f"row {row.number}: " if row.number else ""
    classes = f"labelled {shown(found.label)}, {other} {shown(found.other)} ({found.probability:.3f})"
    return element(
        "article",
        *map(_text, texts, weights or [()] * len(texts)),
        element("p", place + classes, class_="muted"),
    )


def _text(text: str, weights: Weights = ()) -> Markup:
    """A text, cut where it is very long, with its stretches on a colour as deep as their weight."""
    parts, at = list[object](), 0
    for start, end, share in weights:
        parts += [text[at:start], element("mark", text[start:end], style=f"--share: {55 * share:.0f}%")]
        at = end
    rest = text[at:]
    parts.append(rest if len(text) <= LONGEST else f"{rest[: max(0, LONGEST - at)]}…")
    return element("p", *parts)


def attention(predictor: LocalPredictor, row: Labelled) -> list[Weights]:
    """What the first token attends to in the last layer, in the mean of its heads; empty where that is not there.

    It is the token that a head of classes reads.
    """
    nothing: list[Weights] = [() for _ in row.texts]
    runner, scorer = predictor.runner, predictor.scorer
    if not isinstance(runner, TorchRunner):
        return nothing
    encoding = scorer.tokenizer.encode(*row.texts, length=scorer.longest, shorten=scorer.tokenizer.shorten)
    texts = encode(
        scorer.tokenizer, [[text] for text in row.texts], scorer.longest, shorten=scorer.tokenizer.shorten
    )
    inputs = scorer.feeds(predictor.input_columns.feed(texts, [row.inputs]), np.array([0]))
    try:
        matrices = observe(runner.model, inputs, list(map(str, encoding.ids)), channels=0)
    except TaskError:  # more tokens than are looked at
        return nothing
    shares = [each for each in matrices if each.share and len(each.columns) == len(encoding.ids)]
    if not shares:
        return nothing
    last = [each.values[0][0] for each in shares if each.layer == shares[-1].layer]
    weights = np.mean(last, axis=0) * [text is not None for text in encoding.sequence_ids]
    weights = weights / max(float(weights.max(initial=0.0)), 1e-12)
    found: list[list[tuple[int, int, float]]] = [[] for _ in row.texts]
    for text, (start, end), weight in zip(
        encoding.sequence_ids, encoding.offsets, weights.tolist(), strict=True
    ):
        if text is not None:
            found[text].append((start, end, weight))
    return [sorted(each) for each in found]


def _doubts(found: Diagnosis) -> list[Markup]:
    if not found.looked_at:
        return []
    how = f"Confident learning from the probabilities of {found.doubted_by}, on {found.looked_at:,} labels, finds"
    articles = (_article(each, (), "perhaps") for each in found.doubts[:MOST_DOUBTS])
    return [element("p", f"{how} {len(found.doubts):,}.", class_="muted"), *articles]


def _calibration(found: Diagnosis) -> list[Markup]:
    bands = found.judged.calibration()
    total = sum(count for _, _, count, _, _ in bands)
    error = sum(count * abs(sure - right) for _, _, count, sure, right in bands) / max(1, total)
    rows = [
        (f"{low:.1f} to {high:.1f}", f"{count:,}", f"{sure:.3f}", f"{right:.3f}", element("td", _bar(right)))
        for low, high, count, sure, right in bands
    ]
    line = f"Probabilities are off by {error:.3f} in the mean (expected calibration error)."
    return [element("p", line), _table(["probability", "items", "mean", "right", ""], rows)]


def _bar(share: float) -> Markup:
    return element("span", class_="bar", style=f"width: {6 * share:.2f}rem")


def _length_table(found: Diagnosis) -> Markup:
    rows = [
        (f"{low:,} to {high:,}", f"{count:,}", f"{right:.3f}", element("td", _bar(right)))
        for low, high, count, right in found.judged.by_length()
    ]
    return _table(["words" if found.judged.tags else "tokens", "items", "right", ""], rows)

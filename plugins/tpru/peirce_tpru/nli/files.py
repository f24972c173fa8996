"""Pairs of premise and hypothesis: SNLI's and MNLI's JSON lines, SICK's tables, and the columns of their data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from peirce.errors import TaskError
from peirce_text import Example, Row, read_dataset, read_rows

LABELS = ("entailment", "neutral", "contradiction")
"""The classes, in the order of SNLI's and MNLI's data sets."""
TRAIN, VALID, TEST = "train", "valid", "test"
MISMATCHED = "_mismatched"
"""What the splits of MNLI end in whose genres are not those of its training pairs."""
FILES: Mapping[str, tuple[str, ...]] = {
    TRAIN: ("multinli_1.0_train.jsonl", "snli_1.0_train.jsonl", "SICK_train.tsv", "SICK_train.txt"),
    VALID: ("multinli_1.0_dev_matched.jsonl", "snli_1.0_dev.jsonl", "SICK_trial.tsv", "SICK_trial.txt"),
    VALID + MISMATCHED: ("multinli_1.0_dev_mismatched.jsonl",),
    TEST: ("snli_1.0_test.jsonl", "SICK_test_annotated.tsv", "SICK_test_annotated.txt"),
}
"""The published files of each split, of which a folder has those of one data set."""
HUB_SPLITS: Mapping[str, str] = {
    "train": TRAIN, "validation": VALID, "validation_matched": VALID, "validation_mismatched": VALID + MISMATCHED,
    "dev": VALID, "test": TEST, "test_matched": TEST, "test_mismatched": TEST + MISMATCHED,
}  # fmt: skip
_TEXTS = (("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_A", "sentence_B"))
_LABEL = ("gold_label", "entailment_judgment", "entailment_label", "label")
_NONE = ("-", "", "-1")
"""What stands where annotators did not agree, or where no label is published."""
_NUMBERS = tuple(str(place) for place in range(len(LABELS)))


def read_folder(folder: Path) -> dict[str, Iterable[Row]]:
    """The rows of the splits whose published files are in a folder, gzipped or not.

    Raises:
        TaskError: there are none, those of several data sets are there, or one is not in its format.
    """
    found: dict[str, Iterable[Row]] = {}
    for split, names in FILES.items():
        there = [path for name in names for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if len({path.name.partition("_")[0] for path in there}) > 1:
            raise TaskError(
                f"{folder} has {' and '.join(path.name for path in there)}; put each data set into a folder of its "
                "own, and name the second with task.more"
            )
        if there:
            found[split] = read_rows(there[0], quotes=False)  # SICK's .txt is a table with tabs as well
    if not found:
        raise TaskError(
            f"{folder} has no published file of SNLI, MNLI or SICK, such as {', '.join(FILES[TRAIN][:3])}, gzipped or "
            "not; set task.folder to the folder that has them"
        )
    return found


def read_hub(name: str) -> dict[str, Iterable[Row]]:
    """The rows of the splits of a data set of the library `datasets`.

    Raises:
        TaskError: it cannot be loaded, or has no such splits.
    """
    found: dict[str, Iterable[Row]] = {}
    for theirs, rows in read_dataset(name).items():
        if theirs in HUB_SPLITS:
            found.setdefault(HUB_SPLITS[theirs], rows)
    if not found:
        raise TaskError(
            f"data set {name!r} has none of the splits {', '.join(HUB_SPLITS)}; choose another data set"
        )
    return found


def pair(row: Row) -> Example | str:
    """Premise, hypothesis and the number of the label, on the hub perhaps as it stands; or that there is none.

    Raises:
        TaskError: the row is not in a published format.
    """
    one, other, label = _columns(row)
    name = str(row.value(label)).lower()
    name = LABELS[int(name)] if isinstance(row.file, str) and name in _NUMBERS else name
    if name in _NONE:
        return "annotators do not agree on its label, or none is published"
    if name not in LABELS:
        raise TaskError(
            f"{row.where}: column {label!r} holds {name[:40]!r}; it must be one of {', '.join(LABELS)}, or "
            "'-' for none"
        )
    return Example((row.text(one), row.text(other)), LABELS.index(name))


def _columns(row: Row) -> tuple[str, str, str]:
    """The columns of premise, hypothesis and label."""
    texts = next((pair for pair in _TEXTS if set(pair) <= set(row.values)), None)
    label = next((name for name in _LABEL if name in row.values), None)
    if texts is None or label is None:
        raise TaskError(
            f"{row.where}: the columns {', '.join(map(str, row.values))} are not those of SNLI, MNLI or SICK: "
            f"{' or '.join(' and '.join(pair) for pair in _TEXTS)}, and one of {', '.join(_LABEL)}"
        )
    return (*texts, label)

"""Pairs of premise and hypothesis: SNLI's and MNLI's JSON lines, SICK's tables, and the columns of their data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import frozen
from peirce.errors import TaskError
from peirce_text import Row, read_dataset, read_rows

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


@frozen(eq=False)
class Examples:
    """The pairs of a split.

    Args:
        premises: the first texts.
        hypotheses: the second ones.
        labels: the place of each pair's label in `LABELS`.
        unlabelled: how many pairs were left out because annotators did not agree.
    """

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: tuple[int, ...]
    unlabelled: int

    def __len__(self) -> int:
        return len(self.labels)

    def first(self, count: int) -> Examples:
        """The first pairs alone; all if 0."""
        end = count or len(self)
        return Examples(self.premises[:end], self.hypotheses[:end], self.labels[:end], self.unlabelled)

    def __add__(self, more: Examples) -> Examples:
        return Examples(
            self.premises + more.premises,
            self.hypotheses + more.hypotheses,
            self.labels + more.labels,
            self.unlabelled + more.unlabelled,
        )


def read_folder(folder: Path) -> dict[str, Examples]:
    """The splits whose published files are in a folder, gzipped or not.

    Raises:
        TaskError: there are none, those of several data sets are there, or one is not in its format.
    """
    found = {}
    for split, names in FILES.items():
        there = [path for name in names for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if len({path.name.partition("_")[0] for path in there}) > 1:
            raise TaskError(
                f"{folder} has {' and '.join(path.name for path in there)}; put each data set into a folder of its "
                "own, and name the second with task.more"
            )
        if there:
            found[split] = _examples(_table(there[0]), str(there[0]))
    if not found:
        raise TaskError(
            f"{folder} has no published file of SNLI, MNLI or SICK, such as {', '.join(FILES[TRAIN][:3])}, gzipped or "
            "not; task.folder is where they lie"
        )
    return found


def read_hub(name: str) -> dict[str, Examples]:
    """The splits of a data set of the library `datasets` that have labels.

    Raises:
        TaskError: it cannot be loaded, or its columns are no pairs with labels.
    """
    found: dict[str, Examples] = {}
    for theirs, rows in read_dataset(name).items():
        split = HUB_SPLITS.get(theirs)
        if split is None or split in found:
            continue
        examples = _examples(rows, f"data set {name}, {theirs}", hub=True)
        if len(examples):
            found[split] = examples
    if not found:
        raise TaskError(f"data set {name!r} has no split with labels; {', '.join(HUB_SPLITS)} are looked for")
    return found


def _table(path: Path) -> Iterable[Row]:
    """The rows of a published file; SICK's .txt is a table with tabs as well."""
    return read_rows(path, quotes=False)


def _examples(rows: Iterable[Row], where: str, hub: bool = False) -> Examples:
    """The pairs with labels; on the hub a label may be its place in `LABELS`, and a split may have none."""
    premises, hypotheses, labels, unlabelled = [], [], [], 0
    columns: tuple[str, str, str] | None = None
    for row in rows:
        columns = columns or _columns(row)
        one, other, label = columns
        said = str(row.value(label)).lower()
        said = LABELS[int(said)] if hub and said in _NUMBERS else said
        if said in _NONE:
            unlabelled += 1
            continue
        if said not in LABELS:
            raise TaskError(
                f"{row.where}: column {label!r} holds {said[:40]!r}, where one of {', '.join(LABELS)} must stand, or "
                "'-' for none"
            )
        premises.append(row.text(one))
        hypotheses.append(row.text(other))
        labels.append(LABELS.index(said))
    if not labels and not hub:
        raise TaskError(f"{where}: it has no pair with a label; fetch the file again")
    return Examples(tuple(premises), tuple(hypotheses), tuple(labels), unlabelled)


def _columns(row: Row) -> tuple[str, str, str]:
    """The columns of premise, hypothesis and label."""
    texts = next((pair for pair in _TEXTS if set(pair) <= set(row.values)), None)
    label = next((name for name in _LABEL if name in row.values), None)
    if texts is None or label is None:
        raise TaskError(
            f"{row.where}: the columns {', '.join(map(str, row.values))} are none of SNLI, MNLI or SICK, which have "
            f"{' or '.join(' and '.join(pair) for pair in _TEXTS)}, and one of {', '.join(_LABEL)}"
        )
    return (*texts, label)

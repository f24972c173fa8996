"""The task `folio`: premises and a conclusion as a pair of texts, in three classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.model import Model, PlainRows
from peirce_text.folio.problems import LABELS, find_files, problem
from peirce_text.plain import plain_best, plain_ids, plain_table
from peirce_text.reading import Example, Row, read_rows, read_splits
from peirce_text.samples import sentence, write_json_lines
from peirce_text.tasks import FolderOptions, TextClassData, TextClasses, at_least


@frozen(kw_only=True)
class FolioOptions(FolderOptions):
    """What is read, and how it is put to the model.

    Args:
        folder: holds the published files `train.jsonl` and `validation.jsonl`, gzipped or not; the published
            validation file also stands for a test file that is not there.
        dataset: in place of a folder, a data set of the library `datasets`, such as `yale-nlp/FOLIO`.
        length: the most tokens of premises and conclusion; longer premises are cut at their end.
    """

    vocabulary: int = at_least(0, 8000)
    length: int = at_least(8, 512)
    batch_size: int = at_least(1, 16)


class Folio(TextClasses[FolioOptions]):
    """Premises and a conclusion: does it follow, is it false, or is neither known?"""

    name = "folio"
    source = "FOLNet (Chen, 2023), Appendix B and Table 9; FOLIO (Han et al., 2022)"
    Options = FolioOptions
    nouns = "problems"
    examples = ("data", "yale-nlp/FOLIO")
    packages = ("sklearn",)
    classes = LABELS
    shorten = "first"
    valid_for_test = True

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A few problems: what the premises say, its contrary, and what they leave open."""
        for name, numbers in (("train", range(12)), ("validation", range(12, 18))):
            rows = []
            for i in numbers:
                conclusion = (sentence(i), f"No, not {sentence(i)}", sentence(i + 5))[i % 3]
                rows.append({"premises": [sentence(i)], "conclusion": conclusion, "label": LABELS[i % 3]})
            write_json_lines(folder / f"{name}.jsonl", rows)
        return {"folder": str(folder), "vocabulary": 120, "length": 40, "batch_size": 4}

    def reference(self, data: TextClassData, split: str) -> list[dict[str, Any]]:
        """Premises and conclusion; the validation file stands for a test file."""
        name = "train" if split == "train" else "validation"
        return [
            {
                **plain_ids(
                    data.tokenizer, " ".join(row["premises"]), row["conclusion"],
                    length=self.options.length, shorten="first",
                ),
                "labels": LABELS.index(row["label"]),
            }
            for row in plain_table(Path(self.options.folder) / f"{name}.jsonl")
        ]  # fmt: skip

    def reference_settings(self, data: TextClassData) -> Mapping[str, Any]:
        """Two token types, and a head for three classes of pairs."""
        head = {"use": "classification", "classes": 3, "problem": "pair"}
        return {**super().reference_settings(data), "model.input.token_types": 2, "model.heads": [head]}

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """Accuracy, and how often each label was given for each."""
        pairs = [(label, plain_best(scores)) for label, scores in self.plain_guesses(rows, outputs)]
        counts = {
            f"confusion/{one}/{other}": float(pairs.count((i, j)))
            for i, one in enumerate(LABELS) for j, other in enumerate(LABELS)
        }  # fmt: skip
        return {**super().reference_metrics(data, split, rows, outputs), **counts}

    def rows(self) -> Mapping[str, Iterable[Row]]:
        """The rows of the files, or of the data set's splits."""
        if self.options.dataset:
            return read_splits(self.options.dataset, ("train", "valid"))
        return {split: read_rows(path) for split, path in find_files(Path(self.options.folder)).items()}

    def example_of(self, row: Row, split: str) -> Example:
        """Premises and a conclusion."""
        return problem(row)

    def metrics(self, model: Model, data: TextClassData, split: str) -> Mapping[str, float]:
        """Accuracy, and how many problems of each label got each label: `confusion/True/Unknown` counts those that
        are True and were called Unknown."""
        from sklearn.metrics import confusion_matrix

        labels, given = self.part(data, split).labels, self.predict(model, data, split)
        table = confusion_matrix(labels, given, labels=range(len(LABELS)))
        return {
            "accuracy": float((labels == given).mean()),
            **{
                f"confusion/{one}/{other}": float(table[i, j])
                for i, one in enumerate(LABELS)
                for j, other in enumerate(LABELS)
            },
        }

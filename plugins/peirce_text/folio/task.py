"""The task `folio`: premises and a conclusion as a pair of texts, in three classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import field, frozen, validators
from numpy.typing import NDArray
from peirce.errors import TaskError
from peirce.extras import require
from peirce.model import Model
from torch import Tensor

from peirce_text.folio.problems import LABELS, read_folder, read_hub
from peirce_text.small import sentence, write_json_lines
from peirce_text.tasks import SPLITS, TextTask, evaluating, of_split, of_vocabulary, outputs_of, say
from peirce_text.text.rows import collate
from peirce_text.text.tokenizer import Encoding, Tokenizer

HEAD = "classification"


@frozen(kw_only=True)
class FolioOptions:
    """What is read, and how it is put to the model.

    Args:
        folder: holds the published files `train.jsonl` and `validation.jsonl`, gzipped or not; the published
            validation file also stands for a test file that is not there.
        dataset: in place of a folder, a data set of the library `datasets`, such as `yale-nlp/FOLIO`.
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one; when empty, WordPiece is trained on the
            training file.
        vocabulary: how many entries it then has.
        length: the most tokens of premises and conclusion; longer premises are cut at their end.
        batch_size: how many problems are in a batch.
    """

    folder: str = ""
    dataset: str = ""
    tokenizer: str = ""
    vocabulary: int = field(default=8000, validator=validators.ge(1))
    length: int = field(default=512, validator=validators.ge(8))
    batch_size: int = field(default=16, validator=validators.ge(1))


@frozen(eq=False)
class FolioData:
    """The problems of each split as ids, with the numbers of their labels."""

    tokenizer: Tokenizer
    rows: Mapping[str, tuple[Encoding, ...]]
    labels: Mapping[str, NDArray[np.int64]]


class Folio(TextTask[FolioData]):
    """Premises and a conclusion: does it follow, is it false, or is neither known?"""

    name = "folio"
    source = "FOLNet (Chen, 2023), Appendix B and Table 9; FOLIO (Han et al., 2022)"
    Options = FolioOptions
    head = HEAD
    examples = ("data", "yale-nlp/FOLIO")

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A few problems: what the premises say, its contrary, and what they leave open."""
        for name, count in (("train", 12), ("validation", 6)):
            rows = []
            for i in range(count):
                label = LABELS[i % 3]
                conclusion = {"True": sentence(i), "False": f"No, not {sentence(i)}"}.get(
                    label, sentence(i + 5)
                )
                rows.append({"premises": [sentence(i)], "conclusion": conclusion, "label": label})
            write_json_lines(folder / f"{name}.jsonl", rows)
        return {"folder": str(folder), "vocabulary": 120, "length": 40, "batch_size": 4}

    def prepare(self) -> FolioData:
        """Read the files and encode every problem."""
        options: FolioOptions = self.options
        require("the task folio", "tokenizers", "sklearn", extra="text")
        self.check_source()
        read = read_folder(Path(options.folder)) if options.folder else read_hub(options.dataset)
        if "test" not in read:
            read["test"] = read["valid"]
            say("There is no test split; the validation split stands for it.")
        for split, problems in read.items():
            if not problems:
                raise TaskError(f"{options.folder or options.dataset}: the {split} split has no problems")
        tokenizer = self.tokenizer([f"{problem.premises} {problem.conclusion}" for problem in read["train"]])
        rows = {
            split: tuple(
                tokenizer.encode(p.premises, p.conclusion, length=options.length, shorten="first")
                for p in problems
            )
            for split, problems in read.items()
        }
        counts = ", ".join(f"{len(read[split]):,} {split}" for split in SPLITS)
        full = sum(len(row) == options.length for row in rows["train"])
        say(f"{counts} problems" + (f"; {full:,} train problems fill task.length" if full else ""))
        labels = {
            split: np.array([p.label for p in problems], dtype=np.int64) for split, problems in read.items()
        }
        return FolioData(tokenizer, rows, labels)

    def overrides(self, data: FolioData) -> Mapping[str, Any]:
        """The vocabulary's size, two token types, and a head for a pair in three classes."""
        return {
            **of_vocabulary(data.tokenizer),
            "model.input.token_types": 2,
            "model.heads": [{"use": HEAD, "classes": len(LABELS), "problem": "pair"}],
        }

    def batches(self, data: FolioData, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each as long as its longest problem.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; labels: int64 [b].
        """
        rows, labels = of_split(data.rows, split), data.labels[split]
        for chosen in self.order(len(rows), split, seed, epoch):
            batch = collate([rows[i] for i in chosen], data.tokenizer.pad_id)
            yield {**batch, "labels": torch.from_numpy(labels[chosen])}

    def metrics(self, model: Model, data: FolioData, split: str) -> Mapping[str, float]:
        """Accuracy, and how many problems of each label got each label: `confusion/True/Unknown` counts those that
        are True and were called Unknown."""
        from sklearn.metrics import accuracy_score, confusion_matrix

        right, given = self.labelled(model, data, split)
        table = confusion_matrix(right, given, labels=range(len(LABELS)))
        return {
            "accuracy": float(accuracy_score(right, given)),
            **{
                f"confusion/{one}/{other}": float(table[i, j])
                for i, one in enumerate(LABELS)
                for j, other in enumerate(LABELS)
            },
        }

    def labelled(
        self, model: Model, data: FolioData, split: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The labels of a split's problems, and those that a model gives them, by their numbers in `LABELS`."""
        found = []
        with evaluating(model) as moved:
            for batch in self.batches(data, split, 0, 0):
                scores = outputs_of(model, moved(batch))[f"{HEAD}_logits"]
                found.append((batch["labels"].numpy(), scores.argmax(-1).cpu().numpy()))
        right, given = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return right, given

    def assets(self, data: FolioData) -> Mapping[str, bytes]:
        """The tokenizer, and the names of the labels."""
        return {**super().assets(data), "labels.txt": ("\n".join(LABELS) + "\n").encode()}

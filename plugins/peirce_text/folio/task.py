"""The task `folio`: premises and a conclusion as a pair of texts, in three classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import field, frozen, validators
from numpy.typing import NDArray
from peirce.errors import TaskError, unknown
from peirce.extras import require
from peirce.model import Model, Task
from rich.console import Console
from torch import Tensor

from peirce_text.folio.problems import LABELS, read_folder, read_hub
from peirce_text.text.rows import collate
from peirce_text.text.tokenizer import Encoding, Tokenizer

SPLITS = ("train", "valid", "test")
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


class Folio(Task):
    """Premises and a conclusion: does it follow, is it false, or is neither known?"""

    name = "folio"
    source = "FOLNet (Chen, 2023), Appendix B and Table 9; FOLIO (Han et al., 2022)"
    Options = FolioOptions

    def prepare(self) -> FolioData:
        """Read the files and encode every problem."""
        options: FolioOptions = self.options
        require("the task folio", "tokenizers", "sklearn", extra="text")
        if bool(options.folder) == bool(options.dataset):
            raise TaskError(
                "folio needs either task.folder or task.dataset: the folder of the published files, such as "
                "--set folder=data, or a data set of the hub, such as --set dataset=yale-nlp/FOLIO"
            )
        read = read_folder(Path(options.folder)) if options.folder else read_hub(options.dataset)
        console = Console(stderr=True)
        if "test" not in read:
            read["test"] = read["valid"]
            console.print("There is no test split; the validation split stands for it.", highlight=False)
        for split, problems in read.items():
            if not problems:
                raise TaskError(f"{options.folder or options.dataset}: the {split} split has no problems")
        if options.tokenizer:
            tokenizer = Tokenizer.load(Path(options.tokenizer))
        else:
            texts = [f"{problem.premises} {problem.conclusion}" for problem in read["train"]]
            tokenizer = Tokenizer.train(texts, vocabulary=options.vocabulary)
        rows = {
            split: tuple(
                tokenizer.encode(p.premises, p.conclusion, length=options.length, shorten="first")
                for p in problems
            )
            for split, problems in read.items()
        }
        counts = ", ".join(f"{len(read[split]):,} {split}" for split in SPLITS)
        full = sum(len(row) == options.length for row in rows["train"])
        console.print(
            f"{counts} problems" + (f"; {full:,} train problems fill task.length" if full else ""),
            highlight=False,
        )
        labels = {
            split: np.array([p.label for p in problems], dtype=np.int64) for split, problems in read.items()
        }
        return FolioData(tokenizer, rows, labels)

    def overrides(self, data: FolioData) -> Mapping[str, Any]:
        """The vocabulary's size, two token types, and a head for a pair in three classes."""
        return {
            "model.input.vocabulary": data.tokenizer.vocabulary,
            "model.input.token_types": 2,
            "model.input.pad_id": data.tokenizer.pad_id,
            "model.heads": [{"use": HEAD, "classes": len(LABELS), "problem": "pair"}],
        }

    def batches(self, data: FolioData, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each as long as its longest problem.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; labels: int64 [b].
        """
        if split not in data.rows:
            raise TaskError(unknown("split", split, SPLITS))
        rows, labels = data.rows[split], data.labels[split]
        random = np.random.default_rng([seed, epoch, SPLITS.index(split)])
        order = random.permutation(len(rows)) if split == "train" else np.arange(len(rows))
        for start in range(0, len(order), self.options.batch_size):
            chosen = order[start : start + self.options.batch_size]
            batch = collate([rows[i] for i in chosen], data.tokenizer.pad_id)
            yield {**batch, "labels": torch.from_numpy(labels[chosen])}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy of the label."""
        return model.loss(HEAD, _run(model, batch), batch["labels"])

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The problems of a batch."""
        return {"loss": len(batch["labels"])}

    def metrics(self, model: Model, data: FolioData, split: str) -> Mapping[str, float]:
        """Accuracy, and how many problems of each label got each label: `confusion/True/Unknown` counts those that
        are True and were called Unknown."""
        from sklearn.metrics import accuracy_score, confusion_matrix  # type: ignore[import-untyped]

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
        device = next(model.parameters()).device
        found, training = [], model.training
        model.eval()
        try:
            with torch.inference_mode():
                for batch in self.batches(data, split, 0, 0):
                    scores = _run(model, {name: t.to(device) for name, t in batch.items()})[f"{HEAD}_logits"]
                    found.append((batch["labels"].numpy(), scores.argmax(-1).cpu().numpy()))
        finally:
            model.train(training)
        right, given = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return right, given

    def assets(self, data: FolioData) -> Mapping[str, bytes]:
        """The tokenizer, and the names of the labels."""
        return {"tokenizer.json": data.tokenizer.content, "labels.txt": ("\n".join(LABELS) + "\n").encode()}


def _run(model: Model, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return model(**{spec.name: batch[spec.name] for spec in model.signature.inputs if spec.name in batch})

"""labelled_lines: a classifier of one's own texts, a line each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from attrs import field, frozen, validators
from torch import Tensor

from peirce import Model, TaskError
from peirce.files import read_text
from peirce.model import Task

SPLITS = ("train", "valid", "test")
PAD, UNKNOWN = "[PAD]", "[UNK]"
"""The first two tokens of the vocabulary, ids 0 and 1."""


@frozen(kw_only=True)
class LabelledLinesOptions:
    """Where the lines are, and how they are batched.

    Args:
        folder: with train.tsv, valid.tsv and test.tsv, whose lines are a label, a tab and a text.
        batch_size: texts of a batch.
        rarest: how often a word of the training texts is seen to be known; rarer ones are unknown.
    """

    folder: str
    batch_size: int = field(default=32, validator=validators.ge(1))
    rarest: int = field(default=1, validator=validators.ge(1))


@frozen(kw_only=True)
class Lines:
    """The data.

    Args:
        words: the vocabulary, by id.
        labels: the labels, by class.
        splits: the ids of each text [length] and its class, by split.
    """

    words: tuple[str, ...]
    labels: tuple[str, ...]
    splits: Mapping[str, list[tuple[list[int], int]]]


class LabelledLines(Task[LabelledLinesOptions, Lines]):
    """Which label a text has; words are what blanks separate, in lower case."""

    name = "labelled_lines"
    source = "files of the user's own"
    Options = LabelledLinesOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Three small files."""
        for split in SPLITS:
            text = "good\tit is a good film\nbad\tit is not a good film at all\n" * 4
            (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
        return {"folder": str(folder), "batch_size": 4}

    def prepare(self) -> Lines:
        """Read the lines; vocabulary and labels are those of the training split.

        Raises:
            TaskError: a file is missing, a line is no label, tab and text, or a label is not in the training split.
        """
        read = {split: self._read(Path(self.options.folder) / f"{split}.tsv") for split in SPLITS}
        labels = tuple(sorted({label for label, _ in read["train"]}))
        if len(labels) < 2:
            raise TaskError(
                f"{self.options.folder}/train.tsv has the label {', '.join(labels) or 'of no line'} alone; "
                "give lines of two labels or more"
            )
        counts = Counter(word for _, words in read["train"] for word in words)
        known = sorted(word for word, count in counts.items() if count >= self.options.rarest)
        words = (PAD, UNKNOWN, *known)
        ids = {word: number for number, word in enumerate(words)}
        splits = {}
        for split, lines in read.items():
            if strange := sorted({label for label, _ in lines} - {*labels}):
                raise TaskError(
                    f"{self.options.folder}/{split}.tsv has the label {strange[0]!r}, which no line of train.tsv has; "
                    f"there are {', '.join(labels)}"
                )
            splits[split] = [
                ([ids.get(word, 1) for word in text], labels.index(label)) for label, text in lines
            ]
        return Lines(words=words, labels=labels, splits=splits)

    def _read(self, path: Path) -> list[tuple[str, list[str]]]:
        """The label and the words of each line."""
        try:
            lines = read_text(path).splitlines()
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise TaskError(
                f"{path} cannot be read: {reason}; name a folder with {', '.join(SPLITS)}.tsv"
            ) from error
        found = []
        for number, line in enumerate(lines, 1):
            label, tab, text = line.strip().partition("\t")
            if not tab or not text.split():
                raise TaskError(f"{path}:{number}: {line.strip()!r} is not a label, a tab and a text")
            found.append((label, text.lower().split()))
        if not found:
            raise TaskError(f"{path} is empty; give it a line for each text")
        return found

    def overrides(self, data: Lines) -> Mapping[str, Any]:
        """The vocabulary, the longest text, and a head with the classes."""
        longest = max(len(ids) for lines in data.splits.values() for ids, _ in lines)
        return {
            "model.input.vocabulary": len(data.words),
            "model.input.max_length": longest,
            "model.heads": [{"use": "classification", "classes": len(data.labels)}],
        }

    def batches(self, data: Lines, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """One pass, in an order of its own in each epoch."""
        generator = torch.Generator().manual_seed(1000 * seed + epoch)
        order = torch.randperm(len(data.splits[split]), generator=generator).tolist()
        yield from self._batched([data.splits[split][place] for place in order])

    def _batched(self, lines: list[tuple[list[int], int]]) -> Iterator[dict[str, Tensor]]:
        """Texts filled up to the longest of their batch, with the mask of their words."""
        for start in range(0, len(lines), self.options.batch_size):
            some = lines[start : start + self.options.batch_size]
            longest = max(len(ids) for ids, _ in some)
            ids = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids, _ in some])
            lengths = torch.tensor([len(ids) for ids, _ in some])
            yield {
                "input_ids": ids,
                "attention_mask": torch.arange(longest) < lengths.unsqueeze(1),
                "labels": torch.tensor([label for _, label in some]),
            }

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The head's own loss."""
        outputs = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        return model.loss("classification", outputs, batch["labels"])

    def metrics(self, model: Model, data: Lines, split: str) -> Mapping[str, float]:
        """The share of texts that get their label."""
        device, right = next(model.parameters()).device, 0
        for batch in self._batched(data.splits[split]):
            ids, mask = batch["input_ids"].to(device), batch["attention_mask"].to(device)
            guesses = model(input_ids=ids, attention_mask=mask)["classification_logits"].argmax(1).cpu()
            right += int((guesses == batch["labels"]).sum())
        return {"accuracy": right / len(data.splits[split])}

    def assets(self, data: Lines) -> Mapping[str, bytes]:
        """What ids and classes mean."""
        meaning = {"words": data.words, "labels": data.labels}
        return {"vocabulary.json": json.dumps(meaning, ensure_ascii=False, indent=1).encode()}

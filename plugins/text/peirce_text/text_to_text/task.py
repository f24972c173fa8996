"""The task `text_to_text`: of a source a model learns to write the target, with one stack or two.

A model with two stacks reads `[CLS] source [SEP]` and writes after `[CLS]`. One with a causal or prefix scope reads
both in one row, `[CLS] source [SEP] target [SEP]`, and what it says of the source does not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import InputError, TaskError
from peirce.model import Model, PlainRows
from peirce.parts import IGNORED
from peirce_text.plain import plain_accuracy, plain_ids, plain_mean, plain_table
from peirce_text.reading import read_rows, read_splits
from peirce_text.samples import WHO, sentence, write_tables
from peirce_text.tasks import (
    TRAIN,
    FileOptions,
    TextData,
    TextTask,
    at_least,
    evaluation_mode,
    vocabulary_settings,
)
from peirce_text.text.encoding import Ints, pad, tensors
from peirce_text.text.tokenizer import Tokenizer
from peirce_text.text.writer import DECODER, PREFIX

Texts = tuple[str, str]
"""A source and its target."""


@frozen(kw_only=True)
class TextToTextOptions(FileOptions):
    """What is read, and how it becomes rows.

    Args:
        source: the column of the text that is read.
        target: the column of the text that is written.
        length: the most tokens of a source, special ones included; longer ones are cut at their end.
        target_length: the most tokens of a target, the one that ends it included.
    """

    source: str = "source"
    target: str = "target"
    length: int = at_least(3, 256)
    target_length: int = at_least(2, 128)


class Pair(NamedTuple):
    """A source and its target as token ids, each with its special tokens: `[CLS] source [SEP]`, `target [SEP]`."""

    source: tuple[int, ...]
    target: tuple[int, ...]


@frozen(eq=False)
class EncodedPairs:
    """The pairs of a split.

    Args:
        pairs: the pairs.
        pad_id: what fills shorter rows.
        begin_id: what a target begins after in the model with two stacks.
        cut: how many pairs lost tokens.
    """

    pairs: Sequence[Pair]
    pad_id: int
    begin_id: int
    cut: int = 0

    @property
    def lengths(self) -> Ints:
        """The tokens of each pair."""
        return np.array([len(pair.source) + len(pair.target) for pair in self.pairs], np.int64)

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Some pairs as both kinds of models read them.

        Returns:
            source, source_mask [b, x], written, written_mask and written_labels [b, y]: for two stacks. joined,
            joined_mask and joined_labels [b, z], and prefix [b], the length of each source: for one. Ids and labels are
            int64, with -100 where nothing is to be written; masks are true at tokens.
        """
        pairs = [self.pairs[row] for row in rows]
        read = {
            "source": [pair.source for pair in pairs],
            "written": [(self.begin_id, *pair.target[:-1]) for pair in pairs],
            "joined": [pair.source + pair.target for pair in pairs],
        }
        labels = {
            "written_labels": [pair.target for pair in pairs],
            "joined_labels": [
                (*(IGNORED,) * (len(pair.source) - 1), *pair.target, IGNORED) for pair in pairs
            ],
        }
        arrays: dict[str, NDArray[Any]] = {n: pad(sequences, IGNORED)[0] for n, sequences in labels.items()}
        for name, sequences in read.items():
            arrays[name], arrays[f"{name}_mask"] = pad(sequences, self.pad_id)
        return tensors({**arrays, "prefix": np.array([len(pair.source) for pair in pairs])})


class TextToText(TextTask[TextToTextOptions, Texts, EncodedPairs]):
    """The model writes a target for each source: translation, summaries, answers in free text."""

    name = "text_to_text"
    source = "FOLNet (Chen, 2023), Appendix A.5"
    Options = TextToTextOptions
    head = "lm"
    nouns = "pairs"
    examples = ("train.jsonl", "OWNER/NAME")
    missing = "name a file with task.valid_data or task.test_data"
    valid_for_test = True

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Sentences, and who they are about."""
        rows = [{"source": sentence(i), "target": f"the {WHO[i % 4]}"} for i in range(26)]
        files = write_tables(folder, data=rows[:16], valid_data=rows[16:22], test_data=rows[22:])
        return {**files, "vocabulary": 120, "length": 16, "target_length": 8, "batch_size": 4}

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Other columns, targets and sources that are cut, and no test file."""
        rows = [{"from": sentence(i), "to": f"  the {WHO[i % 4]} is here "} for i in range(6)]
        file = write_tables(folder, named=rows)["named"]
        return [
            {"data": file, "valid_data": file, "test_data": "", "source": "from", "target": "to", "length": 5,
             "target_length": 3}
        ]  # fmt: skip

    def reference(self, data: TextData[EncodedPairs], split: str) -> list[dict[str, Any]] | None:
        """Sources and targets, apart and in one row, which a model reads that writes after its source."""
        options, tokenizer, found = self.options, data.tokenizer, []
        file = options.files.get(split) or (options.files.get("valid") if split == "test" else None)
        for row in plain_table(file) if file else ():
            source, target = row[options.source].strip(), row[options.target].strip()
            read = list(plain_ids(tokenizer, source, length=options.length)["input_ids"])
            wanted = [*tokenizer.pieces(target)[: options.target_length - 1], tokenizer.sep_id]
            labels, joined = [*[IGNORED] * (len(read) - 1), *wanted, IGNORED], [*read, *wanted]
            found.append(
                {"source": read, "source_mask": [True] * len(read), "written": [tokenizer.cls_id, *wanted[:-1]],
                 "written_mask": [True] * len(wanted), "written_labels": wanted, "joined": joined,
                 "joined_mask": [True] * len(joined), "joined_labels": labels, "prefix": len(read),
                 "input_ids": joined, "prefix_length": len(read)}
            )  # fmt: skip
        return found or None

    def reference_settings(self, data: TextData[EncodedPairs]) -> Mapping[str, Any]:
        """A head that predicts next tokens."""
        return {**super().reference_settings(data), "model.heads": [{"use": "causal_lm", "as": "lm"}]}

    def plain_guesses(self, rows: PlainRows, outputs: PlainRows) -> list[tuple[int, Any]]:
        """The tokens of the targets, each with the scores that a model of one stack gives there."""
        return super().plain_guesses([{"labels": row["joined_labels"]} for row in rows], outputs)

    def reference_metrics(
        self, data: TextData[EncodedPairs], split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """The loss of a token, e to that power, and the shares of tokens and of targets that are guessed."""
        loss = self.reference_loss(rows, outputs)
        shares = [
            plain_accuracy(self.plain_guesses([row], [each])) for row, each in zip(rows, outputs, strict=True)
        ]
        return {
            "loss": loss,
            "perplexity": math.exp(loss),
            "token_accuracy": plain_accuracy(self.plain_guesses(rows, outputs)),
            "exact": plain_mean([share == 1 for share in shares]),
        }

    def read(self) -> dict[str, list[Texts]]:
        """The texts of the files, or of the data set's splits."""
        options = self.options
        source, target = columns = options.source, options.target
        rows = (
            read_splits(options.dataset, (TRAIN,))
            if options.dataset
            else {split: read_rows(file, columns) for split, file in options.files.items()}
        )
        return {
            split: [(row.text(source).strip(), row.text(target).strip()) for row in split_rows]
            for split, split_rows in rows.items()
        }

    def texts_of(self, example: Texts) -> Iterable[str]:
        """Source and target."""
        return example

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Texts]) -> EncodedPairs:
        """Sources and targets as ids, cut at their ends."""
        whole = [tokenizer.pieces_of(texts) for texts in zip(*examples, strict=True)]
        room = (self.options.length - 2, self.options.target_length - 1)
        pairs, cut = [], 0
        for source, target in zip(*whole, strict=True):
            cut += len(source) > room[0] or len(target) > room[1]
            read = (tokenizer.cls_id, *source[: room[0]], tokenizer.sep_id)
            pairs.append(Pair(read, (*target[: room[1]], tokenizer.sep_id)))
        return EncodedPairs(pairs, tokenizer.pad_id, tokenizer.cls_id, cut)

    def overrides(self, data: TextData[EncodedPairs]) -> Mapping[str, Any]:
        """The vocabulary, and the head that predicts next tokens."""
        return {**vocabulary_settings(data.tokenizer), "model.heads": [{"use": "causal_lm", "as": self.head}]}

    def check(self, model: Model, data: TextData[EncodedPairs]) -> None:
        """Refuse a model that does not generate."""
        try:
            model.generation_names()
        except InputError as error:
            raise TaskError(f"the task {self.name!r} needs a model that generates: {error}") from error

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Mean cross-entropy of the targets' tokens, of the one that ends them too."""
        outputs, labels = _read(model, batch)
        return model.loss(self.head, outputs, labels)

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The targets' tokens."""
        return {"loss": int((batch["written_labels"] != IGNORED).sum())}

    def metrics(self, model: Model, data: TextData[EncodedPairs], split: str) -> Mapping[str, float]:
        """Loss and perplexity of a target's token, the part of tokens that are guessed right after the right ones, and
        `exact`, the part of targets that are all right: just those the model writes when it takes the most probable
        token each time."""
        loss, right, exact, tokens, count = 0.0, 0, 0, 0, 0
        with evaluation_mode(model) as moved:
            for batch in self.batches(data, split, 0, 0):
                outputs, labels = _read(model, moved(batch))
                wanted = self.targets(batch)["loss"]
                loss += float(model.loss(self.head, outputs, labels)) * wanted
                hit = (outputs[f"{self.head}_logits"].argmax(-1) == labels) | (labels == IGNORED)
                right += int((hit & (labels != IGNORED)).sum())
                exact += int(hit.all(1).sum())
                tokens, count = tokens + wanted, count + len(labels)
        mean = loss / tokens
        return {
            "loss": mean,
            "perplexity": math.exp(mean),
            "token_accuracy": right / tokens,
            "exact": exact / count,
        }


def _read(model: Model, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
    """What a model gives for a batch, and the labels that its outputs are held to."""
    names = {spec.name for spec in model.signature.inputs}
    if DECODER in names:
        outputs = model(
            input_ids=batch["source"],
            attention_mask=batch["source_mask"],
            decoder_input_ids=batch["written"],
            decoder_attention_mask=batch["written_mask"],
        )
        return outputs, batch["written_labels"]
    prefix = {PREFIX: batch["prefix"]} if PREFIX in names else {}
    outputs = model(input_ids=batch["joined"], attention_mask=batch["joined_mask"], **prefix)
    return outputs, batch["joined_labels"]

"""The task `summarise`: an encoder-decoder reads a text, and writes its summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import InputError, TaskError
from peirce.model import Model, PlainRows
from peirce.parts import IGNORED
from peirce_logic.input_texts import TextRow, assets_of, batch_of, row_of, start_in
from peirce_logic.summaries.rouge import rouge
from peirce_logic.summaries.texts import Example, examples_of
from peirce_logic.tasks import RelationOptions, check_levels, relations_of
from peirce_text import (
    FileOptions,
    Ints,
    TextData,
    TextTask,
    Tokenizer,
    at_least,
    evaluation_mode,
    pad,
    read_rows,
    read_splits,
    tensors,
    vocabulary_settings,
    write_json_lines,
)
from peirce_text.plain import plain_ids, plain_table

HEAD = "lm"
DECODER = "decoder_input_ids"


@frozen(kw_only=True)
class SummariseOptions(RelationOptions, FileOptions):
    """What is read, how it becomes tokens, and how summaries are written.

    Args:
        data: what to train on: a .jsonl, .csv or .tsv file of texts and summaries, gzipped or not.
        dataset: in place of files, a data set of the library `datasets`, such as `knkarthick/dialogsum`.
        text: the column of the text; when empty, `dialogue`, `document`, `article`, `text` or `source`.
        summary: that of its summary; when empty, `summary`, `highlights`, `abstract` or `target`, or several with
            numbers, such as `summary1`.
        length: the most tokens of a text, special ones included; longer ones are cut at their end.
        summary_length: the most tokens of a summary, the one that ends it included; and the most that are written.
        beams: how many partial summaries are followed.
        length_penalty: a summary is judged by its log-probability divided by its number of tokens to this power.
        examples: of how many texts summaries are written for ROUGE, the first ones; 0 for all.
    """

    text: str = ""
    summary: str = ""
    length: int = at_least(3, 512)
    summary_length: int = at_least(2, 64)
    batch_size: int = at_least(1, 8)
    beams: int = at_least(1, 4)
    length_penalty: float = 1.0
    examples: int = at_least(0, 0)


@frozen(eq=False)
class Summaries:
    """The texts of a split.

    Args:
        rows: of each text.
        summaries: ids of its first summary, int32 [y], ended by the separator.
        references: all of its summaries.
        tokenizer: what made the ids.
        cut: how many texts fill the length.
    """

    rows: Sequence[TextRow]
    summaries: Sequence[NDArray[np.int32]]
    references: Sequence[Sequence[str]]
    tokenizer: Tokenizer
    cut: int

    @property
    def lengths(self) -> Ints:
        """int64 [n], the tokens of each text."""
        return np.array([len(row.ids) for row in self.rows], np.int64)

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Some texts.

        Returns:
            input_ids: int64 [b, x]; attention_mask: bool [b, x]; logical_ids: int64 [b, K, x], where K > 0; labels:
            int64 [b, y], -100 behind a summary's end; cls: int64 [b, 1], the token that stands first.
        """
        batch = batch_of([self.rows[i] for i in rows], self.tokenizer.pad_id)
        del batch["token_type_ids"]
        labels, _ = pad([self.summaries[i] for i in rows], IGNORED)
        cls = np.full((len(rows), 1), self.tokenizer.cls_id, np.int64)
        return tensors({**batch, "labels": labels, "cls": cls})


SummaryData = TextData[Summaries]


class Summarise(TextTask[SummariseOptions, Example, Summaries]):
    """An encoder-decoder reads a text, and writes its summary, which ROUGE holds against those of people."""

    name = "summarise"
    source = "Logical Transformers (Wang et al., 2023), Section 5.2 and Table 3"
    Options = SummariseOptions
    head = HEAD
    nouns = "texts"
    examples = ("train.jsonl", "knkarthick/dialogsum")
    packages = ("rouge_score",)
    extra = "peirce-logic[summaries]"
    missing = "name a file with task.valid_data or task.test_data"
    valid_for_test = True

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A few dialogues, and who spoke of what; those of the test file have two summaries each."""
        who, what = ("Ann", "Bob"), ("rain", "snow", "sun")
        rows = [
            {
                "dialogue": f"{who[i % 2]}: I like {what[i % 3]}. Do you?\n{who[1 - i % 2]}: No.",
                "summary": f"{who[i % 2]} likes {what[i % 3]}.",
            }
            for i in range(12)
        ]
        valid = [{**row, "dialogue": row["dialogue"].replace("No", "Yes")} for row in rows[:4]]
        tests = [
            {"dialogue": f"{row['dialogue']} Yes.", "summary1": row["summary"], "summary2": row["summary"]}
            for row in rows[:4]
        ]
        files = {"data": rows, "valid_data": valid, "test_data": tests}
        named = {name: write_json_lines(folder / f"{name}.jsonl", some) for name, some in files.items()}
        sizes = {"vocabulary": 60, "length": 24, "summary_length": 8, "batch_size": 4}
        return {**named, **sizes, "beams": 2, "examples": 2}

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Other columns, and texts and summaries that are cut."""
        rows = [{"one": f"It is {word}.", "other": f"{word} and {word}"} for word in ("rain", "snow", "sun")]
        file = write_json_lines(folder / "named.jsonl", rows)
        named = {"data": file, "valid_data": file, "test_data": "", "text": "one", "summary": "other"}
        return [{**named, "length": 5, "summary_length": 3, "examples": 0}]

    def reference(self, data: SummaryData, split: str) -> list[dict[str, Any]] | None:
        """Texts, and their first summaries, which a decoder reads after the first token."""
        options, tokenizer, found = self.options, data.tokenizer, []
        file = options.files.get(split) or options.files["valid"]
        for row in plain_table(file) if not options.depth else ():
            text, summary = (row[name] for name in [*row][:2])
            ids = plain_ids(tokenizer, text, length=options.length)
            written = [*tokenizer.pieces(summary)[: options.summary_length - 1], tokenizer.sep_id]
            found.append(
                {"input_ids": ids["input_ids"], "attention_mask": ids["attention_mask"], "labels": written,
                 "cls": [tokenizer.cls_id], "decoder_input_ids": [tokenizer.cls_id, *written[:-1]]}
            )  # fmt: skip
        return found or None

    def reference_settings(self, data: SummaryData) -> Mapping[str, Any]:
        """A head that predicts next tokens."""
        return {**super().reference_settings(data), "model.heads": [{"use": "causal_lm", "as": "lm"}]}

    def reference_metrics(
        self, data: SummaryData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """The loss of a token."""
        return {} if split == "train" else {"loss": self.reference_loss(rows, outputs)}

    def read(self) -> dict[str, list[Example]]:
        """The texts of the files, or of the data set's splits."""
        options = self.options
        files = {split: read_rows(file) for split, file in options.files.items()}
        rows = read_splits(options.dataset, ()) if options.dataset else files
        return {
            split: examples_of(split_rows, (options.text, options.summary))
            for split, split_rows in rows.items()
        }

    def texts_of(self, example: Example) -> Iterable[str]:
        """The text and its summaries."""
        return (example.text, *example.summaries)

    def data_of(self, tokenizer: Tokenizer, read: Mapping[str, Sequence[Example]]) -> SummaryData:
        """All splits as ids; their relations are found at once."""
        found = relations_of(self.options, (each.text for examples in read.values() for each in examples))
        return TextData(
            tokenizer, {k: self._summaries(tokenizer, examples, found) for k, examples in read.items()}
        )

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Example]) -> Summaries:
        """The texts of one split as ids."""
        return self.data_of(tokenizer, {split: examples}).splits[split]

    def _summaries(
        self, tokenizer: Tokenizer, examples: Sequence[Example], found: Mapping[str, Any]
    ) -> Summaries:
        options = self.options
        encodings = [tokenizer.encode(each.text, length=options.length) for each in examples]
        rows = [
            row_of(encoding, [found[each.text]] if options.depth else [], options.depth, False)
            for each, encoding in zip(examples, encodings, strict=True)
        ]
        most = options.summary_length - 1
        written = [
            np.array([*tokenizer.pieces(each.summaries[0])[:most], tokenizer.sep_id], np.int32)
            for each in examples
        ]
        cut = sum(len(encoding.ids) == options.length for encoding in encodings)
        return Summaries(rows, written, [each.summaries for each in examples], tokenizer, cut)

    def overrides(self, data: SummaryData) -> Mapping[str, Any]:
        """The vocabulary, and the head that predicts next tokens."""
        return {**vocabulary_settings(data.tokenizer), "model.heads": [{"use": "causal_lm", "as": HEAD}]}

    def check(self, model: Model, data: SummaryData) -> None:
        """It must have a decoder, and as many levels of logical ids as there are."""
        try:
            generated, _ = model.generation_names()
        except InputError as error:
            raise TaskError(f"the task {self.name!r} needs a model that generates: {error}") from error
        if generated != DECODER:
            raise TaskError(
                f"the task {self.name!r} needs an encoder-decoder, and architecture "
                f"{model.plan.architecture.name!r} continues its own input; take pretrained_encoder_decoder or "
                "folnet_encoder_decoder"
            )
        check_levels(model, self.options.depth)

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The cross-entropy of the summaries' tokens, of the one that ends them too."""
        begun = _decoder_start(model, batch["cls"])
        labels, size = batch["labels"], begun.shape[1]
        target = torch.cat([begun, labels[:, :-1].clamp_min(0)], 1)
        outputs = model(**_source_of(model, batch), decoder_input_ids=target)
        expected = torch.cat([labels.new_full((len(labels), size - 1), IGNORED), labels], 1)
        return model.loss(HEAD, outputs, expected)

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The summaries' tokens."""
        return {"loss": int((batch["labels"] != IGNORED).sum())}

    def metrics(self, model: Model, data: SummaryData, split: str) -> Mapping[str, float]:
        """ROUGE of the summaries that the model writes, and the mean loss of a token of the first reference."""
        loss, tokens = 0.0, 0
        with evaluation_mode(model) as moved:
            for batch in self.batches(data, split, 0, 0) if split != "train" else ():
                count = self.targets(batch)["loss"]
                loss, tokens = loss + float(self.loss(model, moved(batch))) * count, tokens + count
        written = self.write(model, data, split)
        found = rouge(written, self.part(data, split).references[: len(written)])
        return {**found, **({"loss": loss / tokens} if tokens else {})}

    def write(self, model: Model, data: SummaryData, split: str) -> list[str]:
        """The summaries that a model writes of the first `examples` texts of a split, by a beam search."""
        options, part = self.options, self.part(data, split)
        first = np.arange(len(part.rows))[: options.examples or None]
        texts: list[str] = []
        with evaluation_mode(model) as moved:
            for start in range(0, len(first), options.batch_size):
                batch = moved(part.batch(first[start : start + options.batch_size]))
                generated = model.generate(
                    {**_source_of(model, batch), DECODER: _decoder_start(model, batch["cls"])},
                    max_new=options.summary_length,
                    eos_id=data.tokenizer.sep_id,
                    beams=options.beams,
                    length_penalty=options.length_penalty,
                )
                texts += [data.tokenizer.decode(each.tokens) for each in generated]
        return texts

    def assets(self, data: SummaryData) -> Mapping[str, bytes]:
        """The tokenizer, and how texts are read."""
        return assets_of(data.tokenizer, self.options)


def _decoder_start(model: Model, cls: Tensor) -> Tensor:
    """int64 [b, 1 or 2]: what a summary begins after: the token that a pretrained decoder starts with, and [CLS]."""
    start = start_in(model.spec.options)
    if start is None or start == int(cls[0, 0]):
        return cls
    return torch.cat([torch.full_like(cls, start), cls], 1)


def _source_of(model: Model, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inputs that tell of the text."""
    known = {spec.name for spec in model.signature.inputs if not spec.name.startswith("decoder_")}
    return {name: tensor for name, tensor in batch.items() if name in known}

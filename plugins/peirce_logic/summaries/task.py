"""The task `summarise`: an encoder-decoder reads a text, and writes its summary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import field, frozen, validators
from numpy.typing import NDArray
from peirce.errors import InputError, TaskError
from peirce.extras import require
from peirce.model import Model, Task
from peirce.parts import IGNORED
from peirce_text import Tokenizer
from torch import Tensor

from peirce_logic.detector import row_ids
from peirce_logic.input_texts import kept, start_in
from peirce_logic.summaries.rouge import rouge
from peirce_logic.summaries.texts import Example, read_files, read_hub
from peirce_logic.tasks import RelationOptions, check_levels, relations_of, say

HEAD = "lm"
DECODER = "decoder_input_ids"
SPLITS = ("train", "valid", "test")
Ints = NDArray[np.int64]


@frozen(kw_only=True)
class SummariseOptions(RelationOptions):
    """What is read, how it becomes tokens, and how summaries are written.

    Args:
        data: what to train on: a .jsonl, .csv or .tsv file of texts and summaries, gzipped or not.
        valid_data: what to choose by while training.
        test_data: what to evaluate on; that of `valid_data` if empty.
        dataset: in place of files, a data set of the library `datasets`, such as `knkarthick/dialogsum`.
        text: the column of the text; when empty, `dialogue`, `document`, `article`, `text` or `source`.
        summary: that of its summary; when empty, `summary`, `highlights`, `abstract` or `target`, or several with
            numbers, such as `summary1`.
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one; when empty, WordPiece is trained on the
            texts and summaries of the training file.
        vocabulary: how many entries it then has.
        length: the most tokens of a text, special ones included; longer ones are cut at their end.
        summary_length: the most tokens of a summary, the one that ends it included; and the most that are written.
        batch_size: how many texts are in a batch.
        beams: how many partial summaries are followed.
        length_penalty: a summary is judged by its log-probability divided by its number of tokens to this power.
        examples: of how many texts summaries are written for ROUGE, the first ones; 0 for all.
    """

    data: str = ""
    valid_data: str = ""
    test_data: str = ""
    dataset: str = ""
    text: str = ""
    summary: str = ""
    tokenizer: str = ""
    vocabulary: int = field(default=8000, validator=validators.ge(1))
    length: int = field(default=512, validator=validators.ge(3))
    summary_length: int = field(default=64, validator=validators.ge(2))
    batch_size: int = field(default=8, validator=validators.ge(1))
    beams: int = field(default=4, validator=validators.ge(1))
    length_penalty: float = 1.0
    examples: int = field(default=0, validator=validators.ge(0))


@frozen(eq=False)
class Split:
    """The texts of a split.

    Args:
        texts: ids of each, int32 [x]. logical: its `logical_ids`, int8 [K, x].
        summaries: ids of its first summary, int32 [y], ended by the separator.
        references: all of its summaries.
    """

    texts: Sequence[NDArray[np.int32]]
    logical: Sequence[NDArray[np.int8]]
    summaries: Sequence[NDArray[np.int32]]
    references: Sequence[Sequence[str]]


@frozen(eq=False)
class SummaryData:
    """The splits as ids."""

    tokenizer: Tokenizer
    splits: Mapping[str, Split]


class Summarise(Task[SummariseOptions, SummaryData]):
    """An encoder-decoder reads a text, and writes its summary, which ROUGE holds against those of people."""

    name = "summarise"
    source = "Logical Transformers (Wang et al., 2023), Section 5.2 and Table 3"
    Options = SummariseOptions

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
        tests = [
            {"dialogue": r["dialogue"], "summary1": r["summary"], "summary2": r["summary"]} for r in rows[:4]
        ]
        files = {"data": rows, "valid_data": rows[:4], "test_data": tests}
        for name, own in files.items():
            text = "".join(json.dumps(row) + "\n" for row in own)
            (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
        named = {name: str(folder / f"{name}.jsonl") for name in files}
        return {
            **named,
            "vocabulary": 60,
            "length": 24,
            "summary_length": 8,
            "batch_size": 4,
            "beams": 2,
            "examples": 2,
        }

    def prepare(self) -> SummaryData:
        """Read the files, and encode texts and summaries."""
        options = self.options
        require("the task summarise", "tokenizers", extra="text")
        require("the task summarise", "rouge_score", extra="logic")
        if bool(options.data) == bool(options.dataset):
            raise TaskError(
                "summarise needs either task.data or task.dataset: a file of texts and summaries, such as "
                "--set data=train.jsonl, or a data set of the hub, such as --set dataset=knkarthick/dialogsum"
            )
        columns = (options.text, options.summary)
        files = {"train": options.data, "valid": options.valid_data, "test": options.test_data}
        read = read_hub(options.dataset, columns) if options.dataset else read_files(files, columns)
        for split, found in read.items():
            if not found:
                raise TaskError(f"{options.dataset or files[split]}: the {split} split has no texts")
        if options.tokenizer:
            tokenizer = Tokenizer.load(options.tokenizer)
        elif "train" in read:
            texts = [text for each in read["train"] for text in (each.text, *each.summaries)]
            tokenizer = Tokenizer.train(texts, vocabulary=options.vocabulary)
        else:
            raise TaskError(
                "summarise has no training texts to train a tokenizer on; set task.tokenizer to the one that the model "
                "was trained with"
            )
        relations = relations_of(options, (each.text for found in read.values() for each in found))
        splits = {
            split: self._encoded(tokenizer, read[split], relations) for split in SPLITS if split in read
        }
        if "test" not in splits and "valid" in splits:
            splits["test"] = splits["valid"]
        say(", ".join(f"{len(read[split]):,} {split}" for split in SPLITS if split in read) + " texts")
        for split, of in splits.items():
            full = sum(len(ids) == options.length for ids in of.texts)
            if full and split in read:
                say(f"{full:,} {split} texts fill task.length = {options.length}, and lose their end")
        return SummaryData(tokenizer, splits)

    def _encoded(
        self, tokenizer: Tokenizer, examples: Sequence[Example], relations: Mapping[str, Any]
    ) -> Split:
        options = self.options
        encodings = [tokenizer.encode(each.text, length=options.length) for each in examples]
        logical = [
            row_ids([relations[each.text]] if options.depth else [], encoding, options.depth).astype(np.int8)
            for each, encoding in zip(examples, encodings, strict=True)
        ]
        summaries = [
            [*tokenizer.pieces(each.summaries[0])[: options.summary_length - 1], tokenizer.sep_id]
            for each in examples
        ]
        return Split(
            [np.array(encoding.ids, np.int32) for encoding in encodings],
            logical,
            [np.array(ids, np.int32) for ids in summaries],
            [each.summaries for each in examples],
        )

    def overrides(self, data: SummaryData) -> Mapping[str, Any]:
        """The vocabulary, and the head that predicts next tokens."""
        return {
            "model.input.vocabulary": data.tokenizer.vocabulary,
            "model.input.pad_id": data.tokenizer.pad_id,
            "model.heads": [{"use": "causal_lm", "as": HEAD}],
        }

    def check(self, model: Model, data: SummaryData) -> None:
        """It must have a decoder, and as many levels of logical ids as there are."""
        try:
            generated, _ = model.generates()
        except InputError as error:
            raise TaskError(f"the task {self.name!r} needs a model that generates: {error}") from error
        if generated != DECODER:
            raise TaskError(
                f"the task {self.name!r} needs an encoder-decoder, and architecture "
                f"{model.plan.architecture.name!r} goes on with its own input; take pretrained_encoder_decoder or "
                "folnet_encoder_decoder"
            )
        check_levels(model, self.options.depth)

    def batches(self, data: SummaryData, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each as long as its longest text.

        Yields:
            input_ids: int64 [b, x]; attention_mask: bool [b, x]; logical_ids: int64 [b, K, x], where task.depth is
            K > 0; labels: int64 [b, y], -100 behind a summary's end; cls: int64 [b, 1], the token that stands first.
        """
        found = _of(data, split)
        order = np.arange(len(found.texts))
        if split == "train":
            order = np.random.default_rng([seed, epoch]).permutation(order)
        for start in range(0, len(order), self.options.batch_size):
            yield self._batch(data, found, order[start : start + self.options.batch_size])

    def _batch(self, data: SummaryData, found: Split, chosen: Ints) -> dict[str, Tensor]:
        longest = max(len(found.texts[i]) for i in chosen)
        ids = np.full((len(chosen), longest), data.tokenizer.pad_id, np.int64)
        real = np.zeros(ids.shape, np.bool_)
        logical = np.zeros((len(chosen), self.options.depth, longest), np.int64)
        labels = np.full((len(chosen), max(len(found.summaries[i]) for i in chosen)), IGNORED, np.int64)
        for row, i in enumerate(chosen):
            text, summary = found.texts[i], found.summaries[i]
            ids[row, : len(text)], real[row, : len(text)] = text, True
            logical[row, :, : len(text)] = found.logical[i]
            labels[row, : len(summary)] = summary
        arrays: dict[str, NDArray[Any]] = {"input_ids": ids, "attention_mask": real, "labels": labels}
        if self.options.depth:
            arrays["logical_ids"] = logical
        arrays["cls"] = np.full((len(chosen), 1), data.tokenizer.cls_id, np.int64)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The cross-entropy of the summaries' tokens, of the one that ends them too."""
        begun = _begun(model, batch["cls"])
        labels, size = batch["labels"], begun.shape[1]
        given = {name: batch[name] for name in _source_of(model) if name in batch}
        target = torch.cat([begun, labels[:, :-1].clamp_min(0)], 1)
        outputs = model(**given, decoder_input_ids=target)
        expected = torch.cat([labels.new_full((len(labels), size - 1), IGNORED), labels], 1)
        return model.loss(HEAD, outputs, expected)

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The summaries' tokens."""
        return {"loss": int((batch["labels"] != IGNORED).sum())}

    def metrics(self, model: Model, data: SummaryData, split: str) -> Mapping[str, float]:
        """ROUGE of the summaries that the model writes, and the mean loss of a token of the first reference."""
        device, training = next(model.parameters()).device, model.training
        loss, tokens = 0.0, 0
        model.eval()
        try:
            with torch.inference_mode():
                for batch in self.batches(data, split, 0, 0) if split != "train" else ():
                    count = self.targets(batch)["loss"]
                    moved = {name: each.to(device) for name, each in batch.items()}
                    loss, tokens = loss + float(self.loss(model, moved)) * count, tokens + count
        finally:
            model.train(training)
        written = self.written(model, data, split)
        found = rouge(written, _of(data, split).references[: len(written)])
        return {**found, **({"loss": loss / tokens} if tokens else {})}

    def written(self, model: Model, data: SummaryData, split: str) -> list[str]:
        """The summaries that a model writes of the first `examples` texts of a split, by a beam search."""
        options = self.options
        found, device = _of(data, split), next(model.parameters()).device
        texts: list[str] = []
        for start in range(0, options.examples or len(found.texts), options.batch_size):
            chosen = np.arange(len(found.texts))[start : start + options.batch_size]
            if not len(chosen):
                break
            batch = {name: each.to(device) for name, each in self._batch(data, found, chosen).items()}
            given = {name: batch[name] for name in _source_of(model) if name in batch}
            given[DECODER] = _begun(model, batch["cls"])
            made = model.generate(
                given,
                max_new=options.summary_length,
                eos_id=data.tokenizer.sep_id,
                beams=options.beams,
                length_penalty=options.length_penalty,
            )
            texts += [data.tokenizer.decode(each.tokens) for each in made]
        return texts[: options.examples or None]

    def assets(self, data: SummaryData) -> Mapping[str, bytes]:
        """The tokenizer, and how texts are read."""
        return kept(data.tokenizer, self.options)


def _begun(model: Model, cls: Tensor) -> Tensor:
    """int64 [b, 1 or 2]: what a summary begins after: the token that a pretrained decoder starts with, and [CLS]."""
    start = start_in(model.spec.options)
    if start is None or start == int(cls[0, 0]):
        return cls
    return torch.cat([torch.full_like(cls, start), cls], 1)


def _source_of(model: Model) -> list[str]:
    """The inputs that tell of the text."""
    return [spec.name for spec in model.signature.inputs if not spec.name.startswith("decoder_")]


def _of(data: SummaryData, split: str) -> Split:
    if split in data.splits:
        return data.splits[split]
    raise TaskError(
        f"there is no split {split!r}; there is {' and '.join(data.splits)}: name a file with task.valid_data or "
        "task.test_data, or leave the evaluation out with train.test_split= and train.evaluate_every=0"
    )

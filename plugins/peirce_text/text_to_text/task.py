"""The task `text_to_text`: of a source a model learns to write the target, with one stack or two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen, validators
from peirce.errors import InputError, TaskError
from peirce.extras import require
from peirce.model import Model
from peirce.parts import IGNORED
from torch import Tensor

from peirce_text.small import WHO, sentence, write_json_lines
from peirce_text.tasks import SPLITS, TextTask, evaluating, of_split, of_vocabulary, say
from peirce_text.text.tokenizer import Tokenizer
from peirce_text.text.writer import DECODER, PREFIX
from peirce_text.text_to_text.pairs import Pair, batch_of, encoded, read_files, read_hub

HEAD = "lm"


@frozen(kw_only=True)
class TextToTextOptions:
    """What is read, and how it becomes rows.

    Args:
        data: the pairs to train on: a .csv, .tsv or .jsonl file, gzipped or not.
        valid_data: those to choose by while training.
        test_data: those to evaluate on; the ones of `valid_data` if empty.
        dataset: in place of files, a data set of the library `datasets`.
        source: the column of the text that is read.
        target: the column of the text that is written.
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one; when empty, WordPiece is trained on the
            training pairs.
        vocabulary: how many entries it then has.
        length: the most tokens of a source, special ones included; longer ones are cut at their end.
        target_length: the most tokens of a target, the one that ends it included.
        batch_size: how many pairs are in a batch.
    """

    data: str = ""
    valid_data: str = ""
    test_data: str = ""
    dataset: str = ""
    source: str = "source"
    target: str = "target"
    tokenizer: str = ""
    vocabulary: int = field(default=8000, validator=validators.ge(1))
    length: int = field(default=256, validator=validators.ge(3))
    target_length: int = field(default=128, validator=validators.ge(2))
    batch_size: int = field(default=32, validator=validators.ge(1))


@frozen(eq=False)
class TextToTextData:
    """The pairs of each split as ids."""

    tokenizer: Tokenizer
    pairs: Mapping[str, tuple[Pair, ...]]


class TextToText(TextTask[TextToTextData]):
    """Of a source the model writes the target: translation, summaries, answers in free text."""

    name = "text_to_text"
    source = "FOLNet (Chen, 2023), Appendix A.5"
    Options = TextToTextOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Sentences, and who they are about."""
        rows = [{"source": sentence(i), "target": f"the {WHO[i % 4]}"} for i in range(16)]
        files = {"data": rows, "valid_data": rows[:6], "test_data": rows[6:10]}
        named = {name: write_json_lines(folder / f"{name}.jsonl", own) for name, own in files.items()}
        return {**named, "vocabulary": 120, "length": 16, "target_length": 8, "batch_size": 4}

    def prepare(self) -> TextToTextData:
        """Read the pairs and encode them."""
        options: TextToTextOptions = self.options
        require("the task text_to_text", "tokenizers", extra="text")
        if bool(options.data) == bool(options.dataset):
            raise TaskError(
                "text_to_text needs either task.data or task.dataset: a file of pairs, such as --set data=train.jsonl, "
                "or a data set of the hub"
            )
        columns = (options.source, options.target)
        files = {"train": options.data, "valid": options.valid_data, "test": options.test_data}
        texts = read_hub(options.dataset, columns) if options.dataset else read_files(files, columns)
        for split, found in texts.items():
            if not found:
                raise TaskError(f"{options.dataset or files[split]}: the {split} split has no pairs")
        tokenizer = self.tokenizer([text for pair in texts["train"] for text in pair])
        lengths = (options.length, options.target_length)
        rows = {
            split: [encoded(tokenizer, source, target, lengths) for source, target in found]
            for split, found in texts.items()
        }
        counts = ", ".join(f"{len(rows[split]):,} {split}" for split in SPLITS if split in rows)
        cut = sum(was_cut for found in rows.values() for _, was_cut in found)
        said = f"; {cut:,} are cut to task.length or task.target_length" if cut else ""
        say(f"{counts} pairs{said}")
        pairs = {split: tuple(pair for pair, _ in found) for split, found in rows.items()}
        if "test" not in pairs and "valid" in pairs:
            pairs["test"] = pairs["valid"]
        return TextToTextData(tokenizer, pairs)

    def overrides(self, data: TextToTextData) -> Mapping[str, Any]:
        """The vocabulary, and the head that predicts next tokens."""
        return {**of_vocabulary(data.tokenizer), "model.heads": [{"use": "causal_lm", "as": HEAD}]}

    def check(self, model: Model, data: TextToTextData) -> None:
        """Refuse a model that does not generate."""
        try:
            model.generating()
        except InputError as error:
            raise TaskError(f"the task {self.name!r} needs a model that generates: {error}") from error

    def batches(
        self, data: TextToTextData, split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each as long as its longest pair.

        Yields:
            What `batch_of` gives.
        """
        hint = (
            f"there is no split {split!r} without task.valid_data or task.test_data; name a file, or leave the "
            "evaluation out with train.test_split= and train.evaluate_every=0"
        )
        pairs = of_split(data.pairs, split, hint=hint)
        for chosen in self.order(len(pairs), split, seed, epoch):
            yield batch_of([pairs[i] for i in chosen], data.tokenizer.pad_id, data.tokenizer.cls_id)

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Mean cross-entropy of the targets' tokens, of the one that ends them too."""
        outputs, labels = _read(model, batch)
        return model.loss(HEAD, outputs, labels)

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The targets' tokens."""
        return {"loss": int((batch["written_labels"] != IGNORED).sum())}

    def metrics(self, model: Model, data: TextToTextData, split: str) -> Mapping[str, float]:
        """Loss and perplexity of a target's token, the part of tokens that are guessed right after the right ones, and
        `exact`, the part of targets that are all right: just those the model writes when it takes the most probable
        token each time."""
        loss, right, exact, tokens, count = 0.0, 0, 0, 0, 0
        with evaluating(model) as moved:
            for batch in self.batches(data, split, 0, 0):
                outputs, labels = _read(model, moved(batch))
                wanted = self.targets(batch)["loss"]
                loss += float(model.loss(HEAD, outputs, labels)) * wanted
                hit = (outputs[f"{HEAD}_logits"].argmax(-1) == labels) | (labels == IGNORED)
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

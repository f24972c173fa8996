"""The task `zeroshot`: which label word does a masked language model put in a template's mask?

Nothing is trained for it. Given a file to train on, the same loss fine-tunes a model with the same prompts.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import evolve, field, frozen
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from peirce.errors import TaskError, unknown
from peirce.model import Model, PlainRows
from peirce.parts import plain_softmax
from peirce_text.glue.metrics import score
from peirce_text.glue.subtasks import Metric
from peirce_text.plain import plain_best, plain_correlation, plain_f1, plain_mean, plain_table
from peirce_text.reading import Row, read_rows
from peirce_text.samples import sentence, vocabulary
from peirce_text.tasks import TEST, TRAIN, VALID, TextClassData, TextOptions, TextTask, at_least, outputs_of
from peirce_text.text.encoding import EncodedTexts, Ints
from peirce_text.text.tokenizer import Tokenizer
from peirce_text.zeroshot.templates import PromptTemplate, label_ids

Floats = NDArray[np.float64]
NUMBERS = ("pearson", "spearman")
"""The metrics of numbers, which stand between those of two labels; all others are of classes."""
_NEEDED = {
    "tokenizer": "the model's tokenizer, such as the folder of the model",
    "data": "the file to evaluate on",
    "templates": "at least one template, or task.preset",
    "label": "the column with the label",
    "words": "the word of each label, such as --set words.1=great --set words.0=terrible",
}


@frozen(kw_only=True)
class ZeroShotOptions(TextOptions):
    """What is asked, and with which words.

    Args:
        tokenizer: the model's: a tokenizers JSON, a BERT vocab.txt, or a folder with one, such as the model's own.
        data: the file to evaluate on, .tsv, .csv or .jsonl, gzipped or not, in named columns.
        train_data: a file to train on, for fine-tuning with the same prompts.
        preset: templates, label column, words, header and metrics of a data set by name; what is set beside it wins.
        templates: texts with columns in braces and one mask, `{sentence} It was [MASK] .`; `[SEP]` begins a second
            text. Probabilities are averaged over templates.
        label: the column with the label.
        words: the label word of each label; labels with one word are one class.
        header: the columns of a file that does not begin with their names.
        metrics: what is reported of `accuracy`, `f1` (of the first label's class), `matthews`, `pearson` and
            `spearman`; the last two take the labels as numbers, and predict the mean of two labels' numbers.
        length: the most tokens of a prompt; the longest column is cut to fit.
        batch_size: how many prompts are in a batch.
    """

    data: str = ""
    train_data: str = ""
    preset: str = ""
    templates: tuple[str, ...] = ()
    label: str = ""
    words: Mapping[str, str] = field(factory=dict)
    header: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    length: int = at_least(8, 128)


class ZeroShot(TextTask[ZeroShotOptions, Row, EncodedTexts]):
    """Classes by the words that a masked language model prefers, without training."""

    name = "zeroshot"
    source = "FOLNet (Chen, 2023), Appendix C and Table 10; LM-BFF (Gao et al., 2021)"
    Options = ZeroShotOptions
    nouns = "rows"
    packages = ("sklearn",)
    missing = "set task.train_data for fine-tuning with prompts"

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Sentences, and whether somebody sat or ran."""
        for split, numbers in (("train", range(12)), ("test", range(12, 24))):
            rows = [f"{sentence(i)}\t{i // 4 % 2}\n" for i in numbers]
            (folder / f"{split}.tsv").write_text("sentence\tlabel\n" + "".join(rows), encoding="utf-8")
        return {
            "tokenizer": vocabulary(folder), "data": str(folder / "test.tsv"), "train_data": str(folder / "train.tsv"),
            "templates": ("{sentence} It was [MASK] .", "{sentence} [MASK] ."), "label": "label",
            "words": {"0": "good", "1": "bad"}, "length": 16, "batch_size": 4,
        }  # fmt: skip

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """One template, two labels with one word, labels between spaces, and every metric of classes."""
        rows = [f"{sentence(i)}\t {i // 4 % 2} \n" for i in range(6)]
        (folder / "spaces.tsv").write_text("sentence\tlabel\n" + "".join(rows), encoding="utf-8")
        return [
            {"templates": ("Was it [MASK] ? {sentence}",), "words": {"1": "bad", "0": "good", "2": "bad"},
             "metrics": ("accuracy", "f1", "matthews"), "train_data": "", "data": str(folder / "spaces.tsv")},
        ]  # fmt: skip

    def reference(self, data: TextClassData, split: str) -> list[dict[str, Any]] | None:
        """Each row in each template, word by word."""
        options, tokenizer = self.options, data.tokenizer
        file = options.train_data if split == TRAIN else options.data
        if not file or options.preset or NUMBERS[0] in options.metrics:
            return None
        words, found = list(dict.fromkeys(options.words.values())), []
        for template in options.templates:
            for row in plain_table(file):
                before, after = template.split("[MASK]")
                parts = [
                    tokenizer.pieces(text.replace("{sentence}", row["sentence"])) for text in (before, after)
                ]
                ids = [tokenizer.cls_id, *parts[0], tokenizer.mask_id, *parts[1], tokenizer.sep_id]
                if len(ids) > options.length:
                    return None
                found.append({
                    "input_ids": ids, "attention_mask": [True] * len(ids), "token_type_ids": [0] * len(ids),
                    "mask": 1 + len(parts[0]), "labels": words.index(options.words[row["label"].strip()]),
                })  # fmt: skip
        return found

    def reference_settings(self, data: TextClassData) -> Mapping[str, Any]:
        """None."""
        return {}

    def plain_guesses(self, rows: PlainRows, outputs: PlainRows) -> list[tuple[int, Any]]:
        """The label of each row with the scores of the words at its mask; their ids are lines of the vocabulary."""
        lines = Path(self.options.tokenizer).read_text(encoding="utf-8").split()
        ids = [lines.index(word) for word in dict.fromkeys(self.options.words.values())]
        masks = [each["mlm_logits"][row["mask"]] for row, each in zip(rows, outputs, strict=True)]
        return [(row["labels"], [scores[i] for i in ids]) for row, scores in zip(rows, masks, strict=True)]

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """Metrics of the mean probabilities over templates, and of each template where there are several."""
        shares = [plain_softmax(scores).tolist() for _, scores in self.plain_guesses(rows, outputs)]
        count = len(rows) // len(self.options.templates)
        each = [shares[start : start + count] for start in range(0, len(rows), count)]
        mean = [[plain_mean(some) for some in zip(*one, strict=True)] for one in zip(*each, strict=True)]
        right, found = [row["labels"] for row in rows[:count]], dict[str, float]()
        for name, some in {
            "": mean,
            **({f"template_{i}/": one for i, one in enumerate(each, 1)} if len(each) > 1 else {}),
        }.items():
            given = list(map(plain_best, some))
            measures = {
                "accuracy": plain_mean([a == b for a, b in zip(right, given, strict=True)]),
                "f1": plain_f1([not a for a in right], [not b for b in given]),
                "matthews": plain_correlation(right, given) if 0 < sum(given) < count else 0.0,
            }
            found |= {f"{name}{metric}": measures[metric] for metric in self.options.metrics or ("accuracy",)}
        return found

    @cached_property
    def resolved_options(self) -> ZeroShotOptions:
        """The options, with what the preset gives in place of what is not set."""
        if not self.options.preset:
            return self.options
        known = presets()
        if self.options.preset not in known:
            raise TaskError(f"task.preset: {unknown('preset', self.options.preset, known)}")
        preset = known[self.options.preset].items()
        given: Any = {
            n: tuple(v) if isinstance(v, list) else v for n, v in preset if not getattr(self.options, n)
        }
        return evolve(self.options, **given)

    @cached_property
    def templates(self) -> list[PromptTemplate]:
        """The templates."""
        return [PromptTemplate.parse(text) for text in self.resolved_options.templates]

    @property
    def words(self) -> list[str]:
        """The label words, one a class."""
        return list(dict.fromkeys(self.resolved_options.words.values()))

    @property
    def metric_names(self) -> tuple[Metric, ...]:
        """What is reported."""
        return self.resolved_options.metrics or ("accuracy",)

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """The number of each class, where a metric needs them."""
        words, of_numbers = self.resolved_options.words, set(self.metric_names) & set(NUMBERS)
        if not of_numbers:
            return ()
        if len(of_numbers) < len(self.metric_names):
            raise TaskError(
                f"task.metrics mixes those of numbers ({', '.join(NUMBERS)}) and of classes; give one kind"
            )
        if len(words) != len(self.words) or len(words) != 2:
            raise TaskError(
                'metrics of numbers need two labels with a word each, such as {5 = "Yes", 0 = "No"}'
            )
        try:
            return tuple(float(label) for label in words)
        except ValueError as error:
            raise TaskError(f"metrics of numbers need labels that are numbers: {error}") from error

    def check_source(self) -> None:
        """Refuse options that are not complete, or do not go together."""
        for name, what in _NEEDED.items():
            if not getattr(self.resolved_options, name):
                raise TaskError(f"task.{name} is not set; give {what}")
        _ = self.templates, self.numbers

    def read(self) -> dict[str, Sequence[Row]]:
        """The rows of the files; those to evaluate on are also those to choose by."""
        options = self.resolved_options
        columns = {options.label, *(name for template in self.templates for name in template.columns)}
        files = {TRAIN: options.train_data, VALID: options.data, TEST: options.data}
        return {
            split: list(read_rows(Path(file), columns, header=options.header))
            for split, file in files.items()
            if file
        }

    def source_of(self, split: str) -> str:
        """The file of a split."""
        return self.resolved_options.train_data if split == TRAIN else self.resolved_options.data

    def data_of(self, tokenizer: Tokenizer, read: Mapping[str, Sequence[Row]]) -> TextClassData:
        """All rows in all templates; the classes are the words."""
        label_ids(tokenizer, self.words)
        return TextClassData(tokenizer, super().data_of(tokenizer, read).splits, tuple(self.words))

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Row]) -> EncodedTexts:
        """Every row in the first template, then in the second, and so on; `notes` are the rows' labels."""
        prompts = [
            template.encode(tokenizer, row, self.resolved_options.length)
            for template in self.templates
            for row in examples
        ]
        texts = EncodedTexts.of([p.ids for p in prompts], [p.first for p in prompts], tokenizer.pad_id)
        labels = [self._label(row) for row in examples]
        places = (
            None if self.numbers else np.array(list(map(self._class, labels)) * len(self.templates), np.int64)
        )
        return texts.labelled(places, labels, mask=np.array([p.mask for p in prompts]))

    def _label(self, row: Row) -> str:
        label = str(row.value(self.resolved_options.label)).strip()
        if self.numbers:
            try:
                if math.isfinite(float(label)):
                    return label
            except ValueError:
                pass
            raise TaskError(f"{row.where}: label {label!r} is not a number")
        if label not in self.resolved_options.words:
            known = unknown("label", label, self.resolved_options.words)
            raise TaskError(f"{row.where}: {known}; task.words gives no word for it")
        return label

    def _class(self, label: str) -> int:
        return self.words.index(self.resolved_options.words[label])

    def overrides(self, data: TextClassData) -> Mapping[str, Any]:
        """None; the model is used as it is."""
        return {}

    def assets(self, data: TextClassData) -> Mapping[str, bytes]:
        """The tokenizer."""
        return super().assets(evolve(data, classes=()))

    def batches(
        self, data: TextClassData, split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The prompts of one pass, those of all templates.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; mask: int64 [b], where the mask
            stands; words: int64 [classes], the label words' tokens; labels: int64 [b], the class.
        """
        self.part(data, split)
        if self.numbers:
            raise TaskError(
                "labels between two words are only evaluated; give task.metrics of classes to train"
            )
        return super().batches(data, split, seed, epoch)

    def batch(
        self, data: TextClassData, split: str, rows: Ints, rng: np.random.Generator | None
    ) -> dict[str, Tensor]:
        """Some prompts, and the words' tokens."""
        words = torch.tensor(label_ids(data.tokenizer, self.words))
        return {**super().batch(data, split, rows, rng), "words": words}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy among the label words."""
        return F.cross_entropy(word_logits(model, batch, outputs_of(model, batch)), batch["labels"])

    def metrics(self, model: Model, data: TextClassData, split: str) -> Mapping[str, float]:
        """The metrics of the mean probabilities over templates; with several templates those of each, too
        (`template_1/accuracy`)."""
        labels = self.part(data, split).notes
        each = self.probabilities(model, data, split)
        found = self._scores(each.mean(0), labels)
        if len(each) > 1:
            for i, probabilities in enumerate(each, 1):
                scores = self._scores(probabilities, labels)
                found |= {f"template_{i}/{name}": value for name, value in scores.items()}
        return found

    def probabilities(self, model: Model, data: TextClassData, split: str) -> Floats:
        """[templates, rows, classes]: the softmax over the label words' logits at the mask."""
        if data.tokenizer.vocabulary > (model.spec.input.vocabulary or 0):
            raise TaskError(
                f"the tokenizer has {data.tokenizer.vocabulary:,} ids and the model {model.spec.input.vocabulary}; "
                "set task.tokenizer to the one that the model was trained with"
            )
        found = np.zeros((len(self.part(data, split)), len(data.classes)))
        for rows, batch, outputs in self.evaluate_batches(model, data, split):
            found[rows] = word_logits(model, batch, outputs).double().softmax(-1).cpu().numpy()
        return found.reshape(len(self.templates), -1, len(data.classes))

    def _scores(self, probabilities: Floats, labels: Sequence[str]) -> dict[str, float]:
        """The metrics of some probabilities [rows, classes]."""
        if self.numbers:
            right = np.array([float(label) for label in labels])
            given: NDArray[Any] = probabilities @ np.array(self.numbers)
        else:
            right, given = np.array([self._class(label) for label in labels]), probabilities.argmax(1)
        columns = {"f1": (right == 0, given == 0)}  # of the first label's class
        return {name: score(name, *columns.get(name, (right, given))) for name in self.metric_names}


def word_logits(model: Model, batch: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Tensor:
    """[b, classes]: the logits of the label words where the mask stands.

    Raises:
        TaskError: the model has no head that fills masks.
    """
    head = next((head.as_ for head in model.spec.heads if head.use == "mlm"), None)
    if head is None:
        raise TaskError(
            f"the model {model.spec.name!r} has no head 'mlm' to fill masks; take one pretrained by masked language "
            "modelling"
        )
    logits = outputs[f"{head}_logits"]
    rows = torch.arange(len(logits), device=logits.device)
    return logits[rows, batch["mask"]][:, batch["words"]].float()


def presets() -> Mapping[str, Mapping[str, Any]]:
    """Templates and label words by data set."""
    text = (resources.files(__package__) / "presets.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)

"""The task `zeroshot`: which label word does a masked language model put in a template's mask?

Nothing is trained for it. Given a file to train on, the same loss fine-tunes a model with the same prompts.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import evolve, field, frozen, validators
from numpy.typing import NDArray
from peirce.errors import TaskError, unknown
from peirce.extras import require
from peirce.model import Model
from torch import Tensor
from torch.nn import functional as F

from peirce_text.glue.metrics import score
from peirce_text.glue.subtasks import Metric
from peirce_text.small import sentence, vocabulary
from peirce_text.tables import Row, read_rows
from peirce_text.tasks import TextTask, evaluating, of_split, outputs_of
from peirce_text.text.rows import collate
from peirce_text.text.tokenizer import Tokenizer
from peirce_text.zeroshot.templates import Prompt, PromptTemplate, label_ids

Floats = NDArray[np.float64]
NUMBERS = ("pearson", "spearman")
"""The metrics of numbers, which stand between those of two labels; all others are of classes."""


@frozen(kw_only=True)
class ZeroShotOptions:
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

    tokenizer: str = ""
    data: str = ""
    train_data: str = ""
    preset: str = ""
    templates: tuple[str, ...] = ()
    label: str = ""
    words: Mapping[str, str] = field(factory=dict)
    header: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    length: int = field(default=128, validator=validators.ge(8))
    batch_size: int = field(default=32, validator=validators.ge(1))


@frozen(eq=False)
class ZeroShotData:
    """What was read.

    Args:
        tokenizer: the model's.
        templates: the templates.
        words: the label words, one a class.
        ids: the token of each word.
        classes: the class of each label.
        numbers: the labels as numbers, by class, where a metric needs them.
        metrics: what is reported.
        prompts: by split and template, the rows in order.
        labels: by split, the label of each row.
    """

    tokenizer: Tokenizer
    templates: tuple[PromptTemplate, ...]
    words: tuple[str, ...]
    ids: tuple[int, ...]
    classes: Mapping[str, int]
    numbers: tuple[float, ...]
    metrics: tuple[Metric, ...]
    prompts: Mapping[str, tuple[tuple[Prompt, ...], ...]]
    labels: Mapping[str, tuple[str, ...]]


class ZeroShot(TextTask[ZeroShotData]):
    """Classes by the words that a masked language model prefers, without training."""

    name = "zeroshot"
    source = "FOLNet (Chen, 2023), Appendix C and Table 10; LM-BFF (Gao et al., 2021)"
    Options = ZeroShotOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Sentences, and whether somebody sat or ran."""
        for split in ("train", "test"):
            rows = [f"{sentence(i)}\t{i // 4 % 2}\n" for i in range(12)]
            (folder / f"{split}.tsv").write_text("sentence\tlabel\n" + "".join(rows), encoding="utf-8")
        return {
            "tokenizer": vocabulary(folder), "data": str(folder / "test.tsv"), "train_data": str(folder / "train.tsv"),
            "templates": ("{sentence} It was [MASK] .", "{sentence} [MASK] ."), "label": "label",
            "words": {"0": "good", "1": "bad"}, "length": 16, "batch_size": 4,
        }  # fmt: skip

    def prepare(self) -> ZeroShotData:
        """Read the files and put every row into every template."""
        require("the task zeroshot", "tokenizers", "sklearn", extra="text")
        options = _completed(self.options)
        for name, what in (
            ("tokenizer", "the model's tokenizer, such as the folder of the model"),
            ("data", "the file to evaluate on"),
            ("templates", "at least one template, or task.preset"),
            ("label", "the column with the label"),
            ("words", "the word of each label, such as --set words.1=great --set words.0=terrible"),
        ):
            if not getattr(options, name):
                raise TaskError(f"task.{name} is not set; give {what}")
        tokenizer = Tokenizer.load(Path(options.tokenizer))
        templates = tuple(PromptTemplate.parse(text) for text in options.templates)
        words, ids = label_ids(tokenizer, options.words)
        classes = {label: words.index(word) for label, word in options.words.items()}
        metrics: tuple[Metric, ...] = options.metrics or ("accuracy",)
        numbers = _numbers(options.words, words) if set(metrics) & set(NUMBERS) else ()
        if numbers and len(metrics) > len(set(metrics) & set(NUMBERS)):
            raise TaskError(
                f"task.metrics mixes those of numbers ({', '.join(NUMBERS)}) and of classes; give one kind"
            )
        columns = {options.label, *(name for template in templates for name in template.columns)}
        prompts, labels = {}, {}
        for split, file in (("train", options.train_data), ("test", options.data)):
            rows = list(read_rows(Path(file), columns, header=options.header)) if file else []
            if file and not rows:
                raise TaskError(f"{file} has no rows")
            labels[split] = tuple(_label(row, options.label, classes, bool(numbers)) for row in rows)
            prompts[split] = tuple(
                tuple(template.encode(tokenizer, row, options.length) for row in rows)
                for template in templates
            )
        labels["valid"], prompts["valid"] = labels["test"], prompts["test"]
        return ZeroShotData(tokenizer, templates, words, ids, classes, numbers, metrics, prompts, labels)

    def overrides(self, data: ZeroShotData) -> Mapping[str, Any]:
        """None: the model is taken as it is."""
        return {}

    def batches(
        self, data: ZeroShotData, split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The prompts of one pass, those of all templates.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; mask: int64 [b], where the mask
            stands; words: int64 [classes], the label words' tokens; labels: int64 [b], the class.
        """
        rows = _rows(data, split)
        if data.numbers:
            raise TaskError(
                "labels between two words are only evaluated; give task.metrics of classes to train"
            )
        prompts = [prompt for of_template in data.prompts[split] for prompt in of_template]
        wanted = np.array([data.classes[label] for label in rows] * len(data.templates), dtype=np.int64)
        for chosen in self.order(len(prompts), split, seed, epoch):
            yield {
                **_batch([prompts[i] for i in chosen], data),
                "words": torch.tensor(data.ids),
                "labels": torch.from_numpy(wanted[chosen]),
            }

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy among the label words."""
        return F.cross_entropy(word_logits(model, batch, batch["words"]), batch["labels"])

    def metrics(self, model: Model, data: ZeroShotData, split: str) -> Mapping[str, float]:
        """The metrics of the mean probabilities over templates; with several templates those of each, too
        (`template_1/accuracy`)."""
        labels = _rows(data, split)
        each = [self.probabilities(model, data, prompts) for prompts in data.prompts[split]]
        found = _measured(np.mean(each, axis=0), labels, data)
        if len(each) > 1:
            for i, probabilities in enumerate(each, 1):
                own = _measured(probabilities, labels, data)
                found |= {f"template_{i}/{name}": value for name, value in own.items()}
        return found

    def probabilities(self, model: Model, data: ZeroShotData, prompts: Sequence[Prompt]) -> Floats:
        """[prompts, classes]: the softmax over the label words' logits at the mask."""
        if data.tokenizer.vocabulary > (model.spec.input.vocabulary or 0):
            raise TaskError(
                f"the tokenizer has {data.tokenizer.vocabulary:,} ids and the model {model.spec.input.vocabulary}; "
                "set task.tokenizer to the one that the model was trained with"
            )
        found = []
        with evaluating(model) as moved:
            for start in range(0, len(prompts), self.options.batch_size):
                batch = _batch(prompts[start : start + self.options.batch_size], data)
                batch = moved({**batch, "words": torch.tensor(data.ids)})
                logits = word_logits(model, batch, batch["words"])
                found.append(logits.double().softmax(-1).cpu().numpy())
        return np.concatenate(found)


def word_logits(model: Model, batch: Mapping[str, Tensor], words: Tensor) -> Tensor:
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
    logits = outputs_of(model, batch)[f"{head}_logits"]
    rows = torch.arange(len(logits), device=logits.device)
    return logits[rows, batch["mask"]][:, words].float()


def presets() -> Mapping[str, Mapping[str, Any]]:
    """Templates and label words by data set."""
    text = (resources.files(__package__) / "presets.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _completed(options: ZeroShotOptions) -> ZeroShotOptions:
    """The options with what the preset gives in place of what is not set."""
    if not options.preset:
        return options
    known = presets()
    if options.preset not in known:
        raise TaskError(f"task.preset: {unknown('preset', options.preset, known)}")
    preset = known[options.preset]
    changes: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in preset.items()
        if not getattr(options, name)
    }
    return evolve(options, **changes)


def _batch(prompts: Sequence[Prompt], data: ZeroShotData) -> dict[str, Tensor]:
    mask = torch.tensor([prompt.mask for prompt in prompts])
    return {**collate(prompts, data.tokenizer.pad_id), "mask": mask}


def _rows(data: ZeroShotData, split: str) -> tuple[str, ...]:
    """The labels of a split."""
    labels = of_split(data.labels, split)
    if not labels:
        raise TaskError("there is nothing to train on; set task.train_data for fine-tuning with prompts")
    return labels


def _label(row: Row, column: str, classes: Mapping[str, int], number: bool) -> str:
    label = str(row.value(column)).strip()
    if number:
        try:
            if math.isfinite(float(label)):
                return label
        except ValueError:
            pass
        raise TaskError(f"{row.where}: label {label!r} is no number")
    if label not in classes:
        raise TaskError(f"{row.where}: {unknown('label', label, classes)}; task.words gives no word for it")
    return label


def _numbers(labels: Mapping[str, str], words: Sequence[str]) -> tuple[float, ...]:
    """The number of each class."""
    if len(labels) != len(words) or len(words) != 2:
        raise TaskError('metrics of numbers need two labels with a word each, such as {5 = "Yes", 0 = "No"}')
    try:
        return tuple(float(label) for label in labels)
    except ValueError as error:
        raise TaskError(f"metrics of numbers need labels that are numbers: {error}") from error


def _measured(probabilities: Floats, labels: Sequence[str], data: ZeroShotData) -> dict[str, float]:
    """The metrics of some probabilities [rows, classes]."""
    if data.numbers:
        right = np.array([float(label) for label in labels])
        given: NDArray[Any] = probabilities @ np.array(data.numbers)
    else:
        right, given = np.array([data.classes[label] for label in labels]), probabilities.argmax(1)
    columns = {"f1": (right == 0, given == 0)}  # of the first label's class
    return {name: score(name, *columns.get(name, (right, given))) for name in data.metrics}

"""What the tasks on texts share: where their data come from, their tokenizer, batches, and evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from peirce.errors import TaskError, unknown
from peirce.files import write_whole
from peirce.model import Model, Task
from rich.console import Console
from rich.progress import track
from torch import Tensor

from peirce_text.text.tokenizer import FILE, Tokenizer

Ints = NDArray[np.int64]
T = TypeVar("T")
DataT = TypeVar("DataT")

SPLITS = ("train", "valid", "test")


class TextTask(Task[Any, DataT]):
    """A task whose batches hold texts as ids, and `labels` for the head that predicts them.

    Attributes:
        head: the prefix of that head.
        examples: a folder and a data set of the hub, for whoever gave neither.
    """

    head: str
    examples: ClassVar[tuple[str, str]]

    def check_source(self) -> None:
        """Refuse options that name no data, or name them twice.

        Raises:
            TaskError: there is neither a folder nor a data set, or both.
        """
        if bool(self.options.folder) == bool(self.options.dataset):
            folder, dataset = self.examples
            raise TaskError(
                f"{self.name} needs either task.folder or task.dataset: the folder of the published files, such as "
                f"--set folder={folder}, or a data set of the hub, such as --set dataset={dataset}"
            )

    def tokenizer(self, texts: Iterable[str] | None = None) -> Tokenizer:
        """The tokenizer that the options name.

        Args:
            texts: what one is trained on where they name none.

        Raises:
            TaskError: they name none, and there are no texts.
        """
        if self.options.tokenizer:
            return Tokenizer.load(self.options.tokenizer)
        if texts is None:
            raise TaskError(
                f"{self.name} needs a tokenizer, and the model comes with none; set task.tokenizer to a tokenizers "
                "JSON, a BERT vocab.txt or a folder with one: the one that the model was pretrained with"
            )
        return Tokenizer.train(texts, vocabulary=self.options.vocabulary)

    def order(self, count: int, split: str, seed: int, epoch: int) -> Iterator[Ints]:
        """The examples of each batch of a pass: drawn for the split `train`, as they stand for others."""
        order = np.arange(count)
        if split == "train":
            order = np.random.default_rng([seed, epoch]).permutation(order)
        for start in range(0, count, self.options.batch_size):
            yield order[start : start + self.options.batch_size]

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss of the head."""
        return model.loss(self.head, outputs_of(model, batch), batch["labels"])

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The rows of a batch."""
        return {"loss": len(batch["labels"])}

    def assets(self, data: Any) -> Mapping[str, bytes]:
        """The tokenizer."""
        return {FILE: data.tokenizer.content}


def of_vocabulary(tokenizer: Tokenizer) -> dict[str, Any]:
    """The settings of a spec that a tokenizer determines."""
    return {"model.input.vocabulary": tokenizer.vocabulary, "model.input.pad_id": tokenizer.pad_id}


def of_split(found: Mapping[str, T], split: str, known: Iterable[str] = SPLITS, hint: str = "") -> T:
    """What belongs to a split.

    Args:
        found: what there is, by split.
        split: which split.
        known: the splits that the task may have.
        hint: what to say and to do where it could be there and is not.

    Raises:
        TaskError: there is no such split.
    """
    if split in found:
        return found[split]
    known = tuple(known)
    raise TaskError(hint if hint and split in known else unknown("split", split, known))


def outputs_of(model: Model, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a model gives for those tensors of a batch that are inputs of it."""
    return model(**{spec.name: batch[spec.name] for spec in model.signature.inputs if spec.name in batch})


@contextmanager
def evaluating(model: Model) -> Iterator[Callable[[Mapping[str, Tensor]], dict[str, Tensor]]]:
    """Within it a model is in evaluation mode and keeps no gradients; gives what moves a batch to its device."""
    device, training = next(model.parameters()).device, model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield lambda batch: {name: tensor.to(device) for name, tensor in batch.items()}
    finally:
        model.train(training)


def say(text: str) -> None:
    """Print a line on standard error, where it is not mistaken for a result."""
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


def shown(items: Iterable[T], what: str, count: int, least: int) -> Iterable[T]:
    """Some items, with a progress bar on a terminal if there are at least so many."""
    console = Console(stderr=True)
    hidden = not console.is_terminal or count < least
    return track(items, what, total=count, console=console, disable=hidden, transient=True)


def write_predictions(folder: Path, contents: Mapping[str, str]) -> None:
    """Write files of predictions, by name.

    Raises:
        TaskError: the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_whole(folder / name, content)
    except OSError as error:
        raise TaskError(f"predictions cannot be written to {folder}: {error.strerror or error}") from error

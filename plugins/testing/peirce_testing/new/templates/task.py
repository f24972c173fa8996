"""new_part: a task, the data, loss and metric of one job.

A spec to train on it, whose vocabulary and head the task gives:

    [model]
    name = "new_part"
    architecture = "transformer"
    dims = { layers = 2, unary = 64, heads = 4 }
    positions = [{ use = "absolute" }]
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from attrs import field, frozen, validators
from peirce import Model, TaskError
from peirce.model import PlainRows, Task
from peirce.parts import plain_cross_entropy
from torch import Tensor

Data = dict[str, tuple[Tensor, Tensor]]  # token ids [n, length] and labels [n] of each split


@frozen(kw_only=True)
class NewPartOptions:
    """How large the data are.

    Args:
        tokens: how many different tokens there are.
        length: tokens of a text.
        examples: texts of each split.
        batch_size: texts of a batch.
    """

    tokens: int = field(default=8, validator=validators.ge(2))
    length: int = field(default=6, validator=validators.ge(2))
    examples: int = field(default=512, validator=validators.ge(1))
    batch_size: int = field(default=32, validator=validators.ge(1))


class NewPart(Task[NewPartOptions, Data]):
    """Does a text end with the token that it begins with?"""

    name = "new_part"
    source = "data that are drawn from a seed"
    Options = NewPartOptions

    def prepare(self) -> Data:
        """Token ids [n, length] and labels [n] of each split."""
        generator = torch.Generator().manual_seed(0)
        return {split: self._drawn(generator) for split in ("train", "valid", "test")}

    def _drawn(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        size = (self.options.examples, self.options.length)
        ids = torch.randint(1, 1 + self.options.tokens, size, generator=generator)
        ids[::2, -1] = ids[::2, 0]
        return ids, (ids[:, -1] == ids[:, 0]).long()

    def overrides(self, data: Data) -> Mapping[str, Any]:
        """What the data determine: the vocabulary, and the head."""
        return {
            "model.input.vocabulary": 1 + self.options.tokens,
            "model.heads": [{"use": "classification", "classes": 2}],
        }

    def check(self, model: Model, data: Data) -> None:
        """A model must read the whole text."""
        most = model.spec.input.max_length
        if self.options.length > most:
            raise TaskError(
                f"a text has {self.options.length} tokens and {model.spec.name!r} reads {most}; "
                f"set model.input.max_length={self.options.length}"
            )

    def batches(self, data: Data, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """One pass, in an order of its own in each epoch."""
        if split not in data:
            raise TaskError(f"there is no split {split!r}; there are {', '.join(data)}")
        ids, labels = data[split]
        order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(1000 * seed + epoch))
        for rows in order.split(self.options.batch_size):
            yield {"input_ids": ids[rows], "labels": labels[rows]}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The head's own loss."""
        return model.loss("classification", model(input_ids=batch["input_ids"]), batch["labels"])

    def metrics(self, model: Model, data: Data, split: str) -> Mapping[str, float]:
        """The share of texts that are judged rightly."""
        if split not in data:
            raise TaskError(f"there is no split {split!r}; there are {', '.join(data)}")
        ids, labels = data[split]
        device = next(model.parameters()).device
        guesses = model(input_ids=ids.to(device))["classification_logits"].argmax(1).cpu()
        return {"accuracy": float((guesses == labels).float().mean())}

    def assets(self, data: Data) -> Mapping[str, bytes]:
        """What the token ids mean."""
        return {"vocabulary.json": str(list(range(self.options.tokens))).encode()}

    def reference(self, data: Data, split: str) -> list[dict[str, Any]] | None:
        """What the checks hold batches to: each text, and whether its last token is its first."""
        if split not in data:
            return None
        return [{"input_ids": text, "labels": int(text[0] == text[-1])} for text in data[split][0].tolist()]

    def reference_settings(self, data: Data) -> Mapping[str, Any]:
        """Every token and padding, and two classes."""
        heads = [{"use": "classification", "classes": 2}]
        return {"model.input.vocabulary": 1 + self.options.tokens, "model.heads": heads}

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The cross-entropy, from what a model gives for each row by itself."""
        scores = [each["classification_logits"] for each in outputs]
        return plain_cross_entropy(scores, [row["labels"] for row in rows])

    def reference_metrics(
        self, data: Data, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """The share of rows whose label scores higher."""
        scores = [each["classification_logits"] for each in outputs]
        right = [int(no < yes) == row["labels"] for (no, yes), row in zip(scores, rows, strict=True)]
        return {"accuracy": sum(right) / len(right)}

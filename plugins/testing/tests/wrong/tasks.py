"""Tasks whose batches cannot be made again, whose terms do not add up, or which break where their data do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model, Task
from peirce.parts import mean_cross_entropy
from wrong import flaw, flawed, wrong

Rows = list[tuple[int, list[int]]]
MASK = 1


@frozen(kw_only=True)
class VerdictsOptions:
    """Where the rows are, and how they are taken."""

    folder: str
    batch_size: int = field(default=4, validator=validators.ge(1))
    masked: float = field(default=0.3, validator=[validators.gt(0), validators.lt(1)])


class Verdicts(Task):
    """Tell the class of a text, and fill in its masked tokens."""

    name = "verdicts"
    Options = VerdictsOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        for split, count in (("train", 12), ("valid", 5), ("test", 4)):
            lines = [
                f"{i % 2} {' '.join(str(2 + (i * k) % 7) for k in range(1, 4 + i % 3))}" for i in range(count)
            ]
            if split == "valid":
                lines = [f"-100 {line[2:]}" for line in lines[:4]] + lines[4:]
            (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return {"folder": str(folder)}

    def prepare(self) -> dict[str, Rows]:
        return {
            split: self.read(Path(self.options.folder, f"{split}.txt"))
            for split in ("train", "valid", "test")
        }

    def read(self, path: Path) -> Rows:
        """The rows of a file."""
        try:
            numbers = [
                [int(word) for word in line.split()] for line in path.read_text(encoding="utf-8").splitlines()
            ]
        except (OSError, ValueError) as error:
            raise TaskError(f"{path} cannot be read as lines of numbers: {error}") from error
        if not numbers or not all(
            len(row) > 1 and min(row[1:]) >= 0 and row[0] in (0, 1, -100) for row in numbers
        ):
            raise TaskError(f"{path} has a line that is no class and ids from 0 on; write one text a line")
        return [(first, ids) for first, *ids in numbers]

    def overrides(self, data: Any) -> Mapping[str, Any]:
        largest = max(max(ids) for rows in data.values() for _, ids in rows)
        heads = [{"use": "classification", "classes": 2}, {"use": "mlm"}]
        return {"model.input.vocabulary": largest + 1, "model.heads": heads}

    def batches(self, data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        rows, generator = data[split], self.generator(seed, epoch)
        order = (
            torch.randperm(len(rows), generator=generator) if split == "train" else torch.arange(len(rows))
        )
        for places in order.split(self.options.batch_size):
            yield self.batch([rows[i] for i in places.tolist()], generator)

    def generator(self, seed: int, epoch: int) -> torch.Generator | None:
        """What a pass draws from."""
        return torch.Generator().manual_seed(1000 * seed + epoch)

    def batch(self, rows: Rows, generator: torch.Generator | None) -> dict[str, Tensor]:
        """Rows as tensors."""
        real = torch.zeros(len(rows), 6, dtype=torch.bool)
        ids = torch.zeros(len(rows), 6, dtype=torch.int64)
        for i, (_, own) in enumerate(rows):
            ids[i, : len(own[:6])] = torch.tensor(own[:6])
            real[i, : len(own[:6])] = True
        hidden = real & (torch.rand(ids.shape, generator=generator) < self.options.masked)
        return {
            "input_ids": ids.masked_fill(hidden, MASK),
            "attention_mask": real,
            "labels": ids.masked_fill(~hidden, -100),
            "classes": torch.tensor([label for label, _ in rows]),
        }

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        terms = self.terms(model, batch)
        return sum(terms.values(), torch.zeros(()))

    def terms(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        outputs = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        return {
            "filled": self.mean(outputs["mlm_logits"], batch["labels"]),
            "verdict": self.mean(outputs["classification_logits"], batch["classes"]),
        }

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The cross-entropy of what counts."""
        return mean_cross_entropy(logits, labels)

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        return {
            "filled": int((batch["labels"] != -100).sum()),
            "verdict": int((batch["classes"] != -100).sum()),
        }

    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        right = count = 0
        for batch in self.batches(data, split, 0, 0):
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
            found = logits["classification_logits"].argmax(1).cpu() == batch["classes"]
            known = batch["classes"] != -100
            right, count = right + int(found[known].sum()), count + int(known.sum())
        return {"accuracy": self.share(right, count)}

    def share(self, right: int, count: int) -> float:
        """The part of what is known."""
        return right / max(count, 1)

    def assets(self, data: Any) -> Mapping[str, bytes]:
        return {"classes.txt": b"no\nyes\n"}


flaw(
    Verdicts, "task_batches", "draws_from_the_world", "Shuffles by the generator that everybody draws from.",
    generator=lambda self, seed, epoch: None,
)  # fmt: skip


@flawed(Verdicts, "generator", "task_batches")
def seeds_the_loop(self: Verdicts, seed: int, epoch: int) -> torch.Generator | None:
    """Makes its passes reproducible by seeding torch, and the dropout of every epoch with it."""
    torch.manual_seed(1000 * seed + epoch)
    return None


flaw(
    Verdicts, "task_batches", "one_order_for_all", "Forgets the epoch.",
    generator=lambda self, seed, epoch: Verdicts.generator(self, seed, 0),
)  # fmt: skip


@wrong("task_batches")
class GoesOn(Verdicts):
    """Keeps its generator, so that a pass depends on those before it."""

    kept: torch.Generator | None = None

    def generator(self, seed: int, epoch: int) -> torch.Generator | None:
        if self.kept is None:
            self.kept = super().generator(seed, epoch)
        return self.kept


@flawed(Verdicts, "batches", "task_batches")
def keeps_rows(
    self: Verdicts, data: Any, split: str, seed: int, epoch: int
) -> Iterator[Mapping[str, Tensor]]:
    """Shuffles the rows where they lie."""
    generator = self.generator(seed, epoch)
    rows = data[split]
    if split == "train":
        rows[:] = [rows[i] for i in torch.randperm(len(rows), generator=generator).tolist()]
    for start in range(0, len(rows), self.options.batch_size):
        yield self.batch(rows[start : start + self.options.batch_size], generator)


@flawed(Verdicts, "prepare", "task_data")
def draws_its_data(self: Verdicts) -> dict[str, Rows]:
    """Draws what is left out of its data anew each time."""
    data = Verdicts.prepare(self)
    left = int(torch.randint(len(data["train"]), ()))
    return {**data, "train": data["train"][:left] + data["train"][left + 1 :]}


@flawed(Verdicts, "loss", "task_terms")
def weighs_in_the_loss(self: Verdicts, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
    """Weighs a summand in the loss and not among the terms."""
    terms = self.terms(model, batch)
    return terms["filled"] + 0.5 * terms["verdict"]


@wrong("task_terms")
class LeavesTermsOut(Verdicts):
    """Leaves a term out of batches that have no targets of it."""

    def terms(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        counts = self.targets(batch)
        return {name: term for name, term in super().terms(model, batch).items() if counts[name]}

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        return {name: count for name, count in super().targets(batch).items() if count}


flaw(
    Verdicts, "task_terms", "counts_rows", "Counts rows where its mean is over tokens.",
    targets=lambda self, batch: {"filled": len(batch["labels"]), "verdict": len(batch["classes"])},
)  # fmt: skip
flaw(
    Verdicts, "task_terms", "divides_by_all", "Divides by all places, of which few count.",
    mean=lambda self, logits, labels: (
        F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="sum") / labels.numel()
    ),
)  # fmt: skip
flaw(
    Verdicts, "task_terms", "no_targets_no_number", "Divides zero by zero in a batch without targets.",
    mean=lambda self, logits, labels: F.cross_entropy(logits.flatten(0, -2), labels.flatten()),
)  # fmt: skip
flaw(
    Verdicts, "task_training", "cut_off", "Takes its loss from a number, which nothing flows back through.",
    mean=lambda self, logits, labels: torch.tensor(float(Verdicts.mean(self, logits, labels))),
)  # fmt: skip


@flawed(Verdicts, "mean", "task_terms")
def writes_into_the_batch(self: Verdicts, logits: Tensor, labels: Tensor) -> Tensor:
    """Makes its mask in the batch that it was given."""
    value = Verdicts.mean(self, logits, labels)
    labels.clamp_(min=0)
    return value


flaw(
    Verdicts, "task_options", "masks_as_it_likes", "Has an option that nothing reads.",
    batch=lambda self, rows, generator: (
        Verdicts(VerdictsOptions(folder="", masked=0.3)).batch(rows, generator)
    ),
)  # fmt: skip


@flawed(Verdicts, "read", "task_errors")
def trusts_its_files(self: Verdicts, path: Path) -> Rows:
    """Reads its files without a thought of what may stand there."""
    rows = [[int(word) for word in line.split()] for line in path.read_text(encoding="utf-8").splitlines()]
    return [(first, ids) for first, *ids in rows]


@flawed(Verdicts, "read", "task_errors")
def throws_it_at_you(self: Verdicts, path: Path) -> Rows:
    """Refuses damaged files by a message of many lines."""
    try:
        return Verdicts.read(self, path)
    except TaskError as error:
        raise TaskError(f"cannot read {path}:\n\n{error}") from error


flaw(
    Verdicts, "task_data", "saves_into_folders", "Names its assets by paths.",
    assets=lambda self, data: {"names/classes.txt": b"no\nyes\n"},
)  # fmt: skip
flaw(
    Verdicts, "task_data", "sets_what_is_not_there", "Sets a key that no spec has.",
    overrides=lambda self, data: {**Verdicts.overrides(self, data), "model.vocabulary": 9},
)  # fmt: skip


@wrong("task_metrics")
class MeasuresNothing(Verdicts):
    """Divides by the number of known classes, which may be none."""

    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        known = {
            name: [row for row in rows if row[0] != -100][:-1] or rows[:1] for name, rows in data.items()
        }
        return super().metrics(model, known, split)

    def share(self, right: int, count: int) -> float:
        return right / count if count else float("nan")


@flawed(Verdicts, "metrics", "task_metrics")
def trains_afterwards(self: Verdicts, model: Model, data: Any, split: str) -> Mapping[str, float]:
    """Leaves the model in training mode."""
    model.eval()
    found = Verdicts.metrics(self, model, data, split)
    model.train()
    return found


@flawed(Verdicts, "metrics", "task_metrics")
def leaves_gradients(self: Verdicts, model: Model, data: Any, split: str) -> Mapping[str, float]:
    """Takes gradients to measure by, and leaves them to the next step."""
    with torch.enable_grad():
        torch.autograd.backward(sum(parameter.square().sum() for parameter in model.parameters()))
    return Verdicts.metrics(self, model, data, split)


flaw(
    Verdicts, "task_metrics", "measures_another_split",
    "Measures what it validates on, whatever is asked for.",
    metrics=lambda self, model, data, split: Verdicts.metrics(self, model, data, "valid"),
)  # fmt: skip


@flawed(Verdicts, "batches", "task_batches")
def drops_last_rows(
    self: Verdicts, data: Any, split: str, seed: int, epoch: int
) -> Iterator[Mapping[str, Tensor]]:
    """Leaves out the rows that do not fill a batch, in evaluations too."""
    size = self.options.batch_size
    full = max(len(data[split]) // size * size, 1)
    return Verdicts.batches(self, {**data, split: data[split][:full]}, split, seed, epoch)


@flawed(Verdicts, "metrics", "task_metrics")
def never_says_yes(self: Verdicts, model: Model, data: Any, split: str) -> Mapping[str, float]:
    """Gives the precision of a class, which divides zero by zero where a model never predicts it."""
    right = said = 0.0
    for batch in self.batches(data, split, 0, 0):
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        yes = logits["classification_logits"].argmax(1) == 1
        right, said = right + float((yes & (batch["classes"] == 1)).sum()), said + float(yes.sum())
    return {
        "precision": float(torch.tensor(right) / torch.tensor(said)),
        **Verdicts.metrics(self, model, data, split),
    }


@flawed(Verdicts, "metrics", "task_metrics")
def means_of_means(self: Verdicts, model: Model, data: Any, split: str) -> Mapping[str, float]:
    """Takes the mean of each batch, and then of these."""
    rows, size = [row for row in data[split] if row[0] >= 0], self.options.batch_size
    several = [rows[at : at + size] for at in range(0, len(rows), size)]
    found = [Verdicts.metrics(self, model, {split: some}, split)["accuracy"] for some in several]
    return {"accuracy": sum(found) / max(len(found), 1)}

"""Tasks whose batches cannot be made again, whose terms do not add up, or which break where their data do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.errors import TaskError
from peirce.model import Model, Task
from peirce.parts import mean_cross_entropy
from torch import Tensor

from wrong import Pair

Rows = list[tuple[int, list[int]]]
MASK = 1


@frozen(kw_only=True)
class VerdictsOptions:
    """Where the rows are, and how they are taken.

    Args:
        folder: a folder with train.txt, valid.txt and test.txt: in each line a class, or -100, and ids.
        batch_size: rows of a batch.
        masked: the part of the tokens that is masked.
    """

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


class DrawsFromTheWorld(Verdicts):
    """Shuffles by the generator that everybody draws from."""

    name = "draws_from_the_world"

    def generator(self, seed: int, epoch: int) -> torch.Generator | None:
        return None


class SeedsTheLoop(Verdicts):
    """Makes its passes reproducible by seeding torch, and the dropout of every epoch with it."""

    name = "seeds_the_loop"

    def generator(self, seed: int, epoch: int) -> torch.Generator | None:
        torch.manual_seed(1000 * seed + epoch)
        return None


class OneOrderForAll(Verdicts):
    """Forgets the epoch."""

    name = "one_order_for_all"

    def generator(self, seed: int, epoch: int) -> torch.Generator | None:
        return super().generator(seed, 0)


class GoesOn(Verdicts):
    """Keeps its generator, so that a pass depends on those before it."""

    name = "goes_on"
    kept: torch.Generator | None = None

    def generator(self, seed: int, epoch: int) -> torch.Generator | None:
        if self.kept is None:
            self.kept = super().generator(seed, epoch)
        return self.kept


class KeepsRows(Verdicts):
    """Shuffles the rows where they lie."""

    name = "keeps_rows"

    def batches(self, data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        generator = self.generator(seed, epoch)
        rows = data[split]
        if split == "train":
            rows[:] = [rows[i] for i in torch.randperm(len(rows), generator=generator).tolist()]
        for start in range(0, len(rows), self.options.batch_size):
            yield self.batch(rows[start : start + self.options.batch_size], generator)


class DrawsItsData(Verdicts):
    """Draws what is left out of its data anew each time."""

    name = "draws_its_data"

    def prepare(self) -> dict[str, Rows]:
        data = super().prepare()
        left = int(torch.randint(len(data["train"]), ()))
        return {**data, "train": data["train"][:left] + data["train"][left + 1 :]}


class WeighsInTheLoss(Verdicts):
    """Weighs a summand in the loss and not among the terms."""

    name = "weighs_in_the_loss"

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        terms = self.terms(model, batch)
        return terms["filled"] + 0.5 * terms["verdict"]


class LeavesTermsOut(Verdicts):
    """Leaves a term out of batches that have no targets of it."""

    name = "leaves_terms_out"

    def terms(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        counts = self.targets(batch)
        return {name: term for name, term in super().terms(model, batch).items() if counts[name]}

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        return {name: count for name, count in super().targets(batch).items() if count}


class CountsRows(Verdicts):
    """Counts rows where its mean is over tokens."""

    name = "counts_rows"

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        return {"filled": len(batch["labels"]), "verdict": len(batch["classes"])}


class DividesByAll(Verdicts):
    """Divides by all places, of which few count."""

    name = "divides_by_all"

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="sum") / labels.numel()


class NoTargetsNoNumber(Verdicts):
    """Divides zero by zero in a batch without targets."""

    name = "no_targets_no_number"

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


class CutOff(Verdicts):
    """Takes its loss from a number, which nothing flows back through."""

    name = "cut_off"

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        return torch.tensor(float(super().mean(logits, labels)))


class WritesIntoTheBatch(Verdicts):
    """Makes its mask in the batch that it was given."""

    name = "writes_into_the_batch"

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        value = super().mean(logits, labels)
        labels.clamp_(min=0)
        return value


class MasksAsItLikes(Verdicts):
    """Has an option that nothing reads."""

    name = "masks_as_it_likes"

    def batch(self, rows: Rows, generator: torch.Generator | None) -> dict[str, Tensor]:
        return Verdicts(VerdictsOptions(folder="", masked=0.3)).batch(rows, generator)


class TrustsItsFiles(Verdicts):
    """Reads its files without a thought of what may stand there."""

    name = "trusts_its_files"

    def read(self, path: Path) -> Rows:
        rows = [
            [int(word) for word in line.split()] for line in path.read_text(encoding="utf-8").splitlines()
        ]
        return [(first, ids) for first, *ids in rows]


class ThrowsItAtYou(Verdicts):
    """Refuses damaged files by a message of many lines."""

    name = "throws_it_at_you"

    def read(self, path: Path) -> Rows:
        try:
            return super().read(path)
        except TaskError as error:
            raise TaskError(f"cannot read {path}:\n\n{error}") from error


class SavesIntoFolders(Verdicts):
    """Names its assets by paths."""

    name = "saves_into_folders"

    def assets(self, data: Any) -> Mapping[str, bytes]:
        return {"names/classes.txt": b"no\nyes\n"}


class SetsWhatIsNotThere(Verdicts):
    """Sets a key that no spec has."""

    name = "sets_what_is_not_there"

    def overrides(self, data: Any) -> Mapping[str, Any]:
        return {**super().overrides(data), "model.vocabulary": 9}


class MeasuresNothing(Verdicts):
    """Divides by the number of known classes, which may be none."""

    name = "measures_nothing"

    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        known = {
            name: [row for row in rows if row[0] != -100][:-1] or rows[:1] for name, rows in data.items()
        }
        return super().metrics(model, known, split)

    def share(self, right: int, count: int) -> float:
        return right / count if count else float("nan")


class TrainsAfterwards(Verdicts):
    """Leaves the model in training mode."""

    name = "trains_afterwards"

    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        model.eval()
        found = super().metrics(model, data, split)
        model.train()
        return found


class LeavesGradients(Verdicts):
    """Takes gradients to measure by, and leaves them to the next step."""

    name = "leaves_gradients"

    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        with torch.enable_grad():
            torch.autograd.backward(sum(parameter.square().sum() for parameter in model.parameters()))
        return super().metrics(model, data, split)


class MeasuresAnotherSplit(Verdicts):
    """Measures what it validates on, whatever is asked for."""

    name = "measures_another_split"

    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        return super().metrics(model, data, "valid")


class DropsLastRows(Verdicts):
    """Leaves out the rows that do not fill a batch, in evaluations too."""

    name = "drops_last_rows"

    def batches(self, data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        size = self.options.batch_size
        full = max(len(data[split]) // size * size, 1)
        return super().batches({**data, split: data[split][:full]}, split, seed, epoch)


class NeverSaysYes(Verdicts):
    """Gives the precision of a class, which divides zero by zero where a model never predicts it."""

    name = "never_says_yes"

    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        right = said = 0.0
        for batch in self.batches(data, split, 0, 0):
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
            yes = logits["classification_logits"].argmax(1) == 1
            right, said = right + float((yes & (batch["classes"] == 1)).sum()), said + float(yes.sum())
        return {
            "precision": float(torch.tensor(right) / torch.tensor(said)),
            **super().metrics(model, data, split),
        }


PAIRS = [
    Pair(Verdicts, DrawsFromTheWorld, "task_batches", "tasks"),
    Pair(Verdicts, SeedsTheLoop, "task_batches", "tasks"),
    Pair(Verdicts, OneOrderForAll, "task_batches", "tasks"),
    Pair(Verdicts, GoesOn, "task_batches", "tasks"),
    Pair(Verdicts, KeepsRows, "task_batches", "tasks"),
    Pair(Verdicts, DrawsItsData, "task_data", "tasks"),
    Pair(Verdicts, WeighsInTheLoss, "task_terms", "tasks"),
    Pair(Verdicts, LeavesTermsOut, "task_terms", "tasks"),
    Pair(Verdicts, CountsRows, "task_terms", "tasks"),
    Pair(Verdicts, DividesByAll, "task_terms", "tasks"),
    Pair(Verdicts, NoTargetsNoNumber, "task_terms", "tasks"),
    Pair(Verdicts, CutOff, "task_terms", "tasks"),
    Pair(Verdicts, WritesIntoTheBatch, "task_terms", "tasks"),
    Pair(Verdicts, MasksAsItLikes, "task_options", "tasks"),
    Pair(Verdicts, TrustsItsFiles, "task_errors", "tasks"),
    Pair(Verdicts, ThrowsItAtYou, "task_errors", "tasks"),
    Pair(Verdicts, SavesIntoFolders, "task_data", "tasks"),
    Pair(Verdicts, SetsWhatIsNotThere, "task_data", "tasks"),
    Pair(Verdicts, MeasuresNothing, "task_metrics", "tasks"),
    Pair(Verdicts, TrainsAfterwards, "task_metrics", "tasks"),
    Pair(Verdicts, LeavesGradients, "task_metrics", "tasks"),
    Pair(Verdicts, MeasuresAnotherSplit, "task_metrics", "tasks"),
    Pair(Verdicts, DropsLastRows, "task_batches", "tasks"),
    Pair(Verdicts, NeverSaysYes, "task_metrics", "tasks"),
]

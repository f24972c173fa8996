"""The task `entailment`: does one proposition entail another? Pairs of texts in two classes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import TaskError, check_known
from peirce.model import Model, PlainRows, Task
from peirce.parts import one_of, plain_cross_entropy
from peirce_text import EncodedTexts, Ints, Tokenizer, at_least, batch_rows, evaluation_mode, outputs_of
from peirce_text.plain import plain_accuracy, plain_mean
from peirce_tpru.entailment.files import HEURISTICS, TRAIN, VALID, Pair, find_files, read_pairs
from peirce_tpru.entailment.formulas import SIGNS, VARIABLES, rename_in_order
from peirce_tpru.vectors import CLS, PAD, SEP, SPECIALS

HEAD = "matching"
SYMBOLS = (*SPECIALS, *SIGNS)
"""The vocabulary, in the order of the ids."""
CLASSES = ("does not entail", "entails")
FIRST = SYMBOLS.index("a")
"""The id of the first variable."""
BATCHES_SORTED = 50
"""Among so many training batches, pairs of about one length share one, which saves padding."""


@frozen(kw_only=True)
class EntailmentOptions:
    """What is read.

    Args:
        folder: holds `train.txt`, `validate.txt` and files `test_*.txt`, gzipped or not, with lines `A,B,E,H1,H2,H3`.
        pairs: a training file elsewhere, in place of the folder's.
        limit: how many of the training pairs are taken, from the first on; all if 0.
        names: what variables are called. `permuted`: training pairs get other names at random, one to one, anew in each
            epoch. `ordered`: every pair, also in an evaluation, has a, b, c in the order in which they come. `given`:
            as they are read.
        batch_size: how many pairs are in a batch.
    """

    folder: str = ""
    pairs: str = ""
    limit: int = at_least(0, 0)
    names: Literal["permuted", "ordered", "given"] = one_of("permuted", "ordered", "given")
    batch_size: int = at_least(1, 64)


def encode_pairs(pairs: Sequence[Pair]) -> EncodedTexts:
    """Pairs as `[CLS] A [SEP] B [SEP]`, with labels; the notes are what the heuristics say.

    There may be a hundred thousand, so all characters are looked up at once.
    """
    codes = np.zeros(128, np.uint8)
    codes[[ord(sign) for sign in SYMBOLS[len(SPECIALS) :]]] = np.arange(len(SPECIALS), len(SYMBOLS))
    codes[[1, 2]] = CLS, SEP
    text = "".join(f"\1{pair.one}\2{pair.other}\2" for pair in pairs)
    return EncodedTexts(
        ids=codes[np.frombuffer(text.encode("ascii"), np.uint8)],
        starts=np.cumsum([0, *(len(pair.one) + len(pair.other) + 3 for pair in pairs)]),
        firsts=np.array([len(pair.one) + 2 for pair in pairs]),
        pad_id=PAD,
        columns={"labels": np.array([int(pair.entails) for pair in pairs])},
        notes=[pair.guesses for pair in pairs],
    )


def longer_lengths(pairs: EncodedTexts) -> Ints:
    """int64 [n], the tokens of the longer text of each pair, which a reader of each text by itself pads to."""
    return np.maximum(pairs.firsts, pairs.lengths - pairs.firsts)


def rename_variables(batch: dict[str, Tensor], rng: np.random.Generator) -> dict[str, Tensor]:
    """A batch of which each pair has other variables, one to one."""
    ids = batch["input_ids"].numpy()
    names = rng.permuted(np.tile(np.arange(len(VARIABLES)), (len(ids), 1)), axis=1)
    letters = ids >= FIRST
    rows = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)
    ids[letters] = names[rows[letters], ids[letters] - FIRST] + FIRST
    return batch


@frozen(eq=False)
class EntailmentData:
    """The pairs of each file, by its name: `train`, `validate`, and each `test_*`.

    Args:
        files: the pairs.
        folder: where they lie, for messages.
    """

    files: Mapping[str, EncodedTexts]
    folder: str = "the folder"

    def of(self, split: str) -> dict[str, EncodedTexts]:
        """The files of a split; there may be several test files.

        Raises:
            TaskError: there is no such split.
        """
        wanted = {
            "train": [TRAIN], "valid": [VALID], "test": [name for name in self.files if name.startswith("test_")],
        }  # fmt: skip
        check_known("split", split, wanted, TaskError)
        found = {name: self.files[name] for name in wanted[split] if name in self.files}
        if not found:
            step = f"; `peirce entailment generate {self.folder}` makes one" if split == "train" else ""
            names = " or ".join(wanted[split]) or "test_*"
            raise TaskError(f"{self.folder} has no {names}.txt, the split {split!r}{step}")
        return found


class Entailment(Task[EntailmentOptions, EntailmentData]):
    """Does proposition A entail proposition B? A head `matching` on an encoder that reads pairs."""

    name = "entailment"
    source = "Evans et al. (2018); TPRU (Tang et al., 2018), Section 4.1 and Table 1"
    Options = EntailmentOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A few pairs, most of which do not entail, so that a constant answer is not right as often as wrong."""
        lines = ["(p&q),(p|q),1,1,1,1", "(p|q),(p&q),0,1,1,1", "~((p>q)),(p&~(q)),1,0,1,1"]
        lines += ["(p>q),q,0,1,1,1", "p,q,0,1,1,1"]
        for name in ("train", "validate", "test_easy"):
            (folder / f"{name}.txt").write_text("\n".join(lines * 2) + "\n", encoding="utf-8")
        return {"folder": str(folder), "batch_size": 4}

    def reference(self, data: EntailmentData, split: str) -> list[dict[str, Any]] | None:
        """Each sign of a pair by its place among the symbols; of drawn names none."""
        if split == "train" and self.options.names == "permuted":
            return None
        found, name = [], {"train": "train", "valid": "validate", "test": "test_easy"}[split]
        lines = (Path(self.options.folder) / f"{name}.txt").read_text(encoding="utf-8").split()
        for line in lines[: self.options.limit or None] if split == "train" else lines:
            one, other, label, *_ = line.split(",")
            order = list(dict.fromkeys(sign for sign in one + other if sign.isalpha()))
            if self.options.names == "ordered":
                names = {sign: "abcdefghijklmnopqrstuvwxyz"[i] for i, sign in enumerate(order)}
                one, other = ("".join(names.get(sign, sign) for sign in text) for text in (one, other))
            ids = [CLS, *map(SYMBOLS.index, one), SEP, *map(SYMBOLS.index, other), SEP]
            types = [*[0] * (len(one) + 2), *[1] * (len(other) + 1)]
            found.append(
                {
                    "input_ids": ids,
                    "token_type_ids": types,
                    "attention_mask": [True] * len(ids),
                    "labels": int(label),
                }
            )
        return found

    def reference_settings(self, data: EntailmentData) -> Mapping[str, Any]:
        """The symbols, and two token types."""
        return {
            "model.input.vocabulary": len(SYMBOLS),
            "model.input.pad_id": PAD,
            "model.input.token_types": 2,
        }

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The cross-entropy of the labels."""
        return plain_cross_entropy(
            [each[f"{HEAD}_logits"] for each in outputs], [row["labels"] for row in rows]
        )

    def reference_metrics(
        self, data: EntailmentData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """Accuracy of the one file of a split, and of what its heuristics say."""
        name = {"train": "train", "valid": "validate", "test": "test_easy"}[split]
        lines = [
            line.split(",")[2:] for line in (Path(self.options.folder) / f"{name}.txt").read_text().split()
        ]
        if split == "train":
            lines = lines[: self.options.limit or None]
        labels, scores = [row["labels"] for row in rows], [each[f"{HEAD}_logits"] for each in outputs]
        accuracy = plain_accuracy(zip(labels, scores, strict=True))
        said = {
            f"{heuristic}/{name}": plain_mean([line[1 + i] == line[0] for line in lines])
            for i, heuristic in enumerate(HEURISTICS)
        }
        return {"accuracy": accuracy, f"accuracy/{name}": accuracy, **said}

    def prepare(self) -> EntailmentData:
        """Read and encode every file of the folder."""
        options = self.options
        if not options.folder:
            raise TaskError(
                "entailment needs task.folder: the folder of train.txt, validate.txt and test_*.txt, such as "
                "--set folder=data; `peirce entailment generate` makes a training file"
            )
        paths = find_files(Path(options.folder))
        if options.pairs:
            paths[TRAIN] = Path(options.pairs)
        read = {name: read_pairs(path) for name, path in paths.items()}
        if options.limit and TRAIN in read:
            read[TRAIN] = read[TRAIN][: options.limit]
        if options.names == "ordered":
            read = {name: tuple(map(_rename_pair, pairs)) for name, pairs in read.items()}
        return EntailmentData({name: encode_pairs(pairs) for name, pairs in read.items()}, options.folder)

    def overrides(self, data: EntailmentData) -> Mapping[str, Any]:
        """The vocabulary, and two token types."""
        return {
            "model.input.vocabulary": len(SYMBOLS),
            "model.input.pad_id": PAD,
            "model.input.token_types": 2,
        }

    def check(self, model: Model, data: EntailmentData) -> None:
        """The head must be there, with two classes, and the longest pair must fit."""
        longest = max(int(pairs.lengths.max()) for pairs in data.files.values())
        check_pairs(self.name, model, len(CLASSES), f"the longest pair has {longest} tokens", longest)

    def batches(
        self, data: EntailmentData, split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each of pairs of about one length; the training pairs in a drawn order, renamed.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; labels: int64 [b].
        """
        size = self.options.batch_size
        for pairs in data.of(split).values():
            lengths = longer_lengths(pairs)
            if split != "train":
                yield from map(pairs.batch, batch_rows(lengths, size, None, 1))
                continue
            rng = np.random.default_rng([seed, epoch])
            order = rng.permutation(len(pairs))
            for start in range(0, len(order), BATCHES_SORTED * size):
                some = order[start : start + BATCHES_SORTED * size]
                batches = batch_rows(lengths[some], size, None, 1)
                for i in rng.permutation(len(batches)):
                    batch = pairs.batch(some[batches[i]])
                    yield rename_variables(batch, rng) if self.options.names == "permuted" else batch

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The cross-entropy of the head."""
        return model.loss(HEAD, outputs_of(model, batch), batch["labels"])

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The pairs of a batch."""
        return {"loss": len(batch["labels"])}

    def metrics(self, model: Model, data: EntailmentData, split: str) -> Mapping[str, float]:
        """Accuracy over all pairs and of each file, `accuracy/test_easy`; `h1/test_easy` is a heuristic's."""
        found: dict[str, float] = {}
        files = data.of(split)
        rights = {name: self.right(model, pairs) for name, pairs in files.items()}
        found["accuracy"] = float(np.concatenate(list(rights.values())).mean())
        for name, pairs in files.items():
            found[f"accuracy/{name}"] = float(rights[name].mean())
            for i, heuristic in enumerate(HEURISTICS):
                found[f"{heuristic}/{name}"] = float((np.array(pairs.notes)[:, i] == pairs.labels).mean())
        return found

    def right(self, model: Model, pairs: EncodedTexts) -> NDArray[np.bool_]:
        """Whether a model decides each pair as its label says."""
        found = np.zeros(len(pairs), np.bool_)
        with evaluation_mode(model) as moved:
            for rows in batch_rows(longer_lengths(pairs), self.options.batch_size, None, 1):
                scores = outputs_of(model, moved(pairs.batch(rows)))[f"{HEAD}_logits"]
                found[rows] = scores.argmax(1).cpu().numpy() == pairs.labels[rows]
        return found

    def assets(self, data: EntailmentData) -> Mapping[str, bytes]:
        """The tokenizer, so that a saved model reads propositions as text, and the names of its classes."""
        labels = json.dumps({"task": self.name, "labels": ["0", "1"], "classes": CLASSES}, indent=2)
        return {"tokenizer.json": tokenizer().content, "labels.json": labels.encode()}


def check_pairs(task: str, model: Model, classes: int, what: str, longest: int) -> None:
    """Refuse a model without a head `matching` of so many classes, or whose rows are shorter than the longest pair."""
    outputs = {spec.name: spec.dims for spec in model.signature.outputs}
    if outputs.get(f"{HEAD}_logits") != ("batch", classes):
        raise TaskError(
            f"{task} trains a head {HEAD!r} of {classes} classes, and {model.spec.name!r} has none; add heads = "
            f'[{{ use = "matching", classes = {classes} }}]'
        )
    if longest > model.plan.dims.max_length:
        raise TaskError(
            f"{what}, and model.input.max_length is {model.plan.dims.max_length}; raise it, or give shorter pairs"
        )


def _rename_pair(pair: Pair) -> Pair:
    one, other = rename_in_order(pair.one, pair.other).split(",")
    return evolve(pair, one=one, other=other)


@cache
def tokenizer() -> Tokenizer:
    """Every character of a proposition as a token."""
    return Tokenizer.of_symbols(SYMBOLS)

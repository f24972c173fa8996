"""The task `entailment`: does one proposition entail another? Pairs of texts in two classes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from attrs import evolve, field, frozen, validators
from numpy.typing import NDArray
from peirce.errors import TaskError, unknown
from peirce.extras import require
from peirce.model import Model, Task
from peirce_text import Tokenizer
from torch import Tensor

from peirce_tpru.entailment.files import HEURISTICS, TRAIN, VALID, Pair, found_in, read_pairs
from peirce_tpru.entailment.formulas import CONNECTIVES, VARIABLES, renamed

HEAD = "matching"
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SYMBOLS = (*SPECIALS, *"()", *CONNECTIVES, *VARIABLES)
"""The vocabulary, in the order of the ids."""
CLASSES = ("does not entail", "entails")
FIRST = SYMBOLS.index("a")
"""The id of the first variable."""
PAD, CLS, SEP = (SYMBOLS.index(name) for name in ("[PAD]", "[CLS]", "[SEP]"))
SORTED = 50
"""Among so many training batches, pairs of about one length share one, which saves padding."""
Ids = NDArray[np.int64]


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
    limit: int = field(default=0, validator=validators.ge(0))
    names: Literal["permuted", "ordered", "given"] = field(
        default="permuted", validator=validators.in_(("permuted", "ordered", "given"))
    )
    batch_size: int = field(default=64, validator=validators.ge(1))


@frozen(eq=False)
class Pairs:
    """The pairs of one file: ids and lengths of both texts, labels, and what the heuristics say.

    Args:
        flat: `[CLS] A [SEP] B [SEP]` of each pair, one after the other.
        starts: where each begins, and where the last ends.
        firsts: how many tokens each has up to the first [SEP] and with it.
        labels: whether A entails B.
        guesses: what each heuristic says, [pairs, 3].
    """

    flat: NDArray[np.uint8]
    starts: Ids
    firsts: Ids
    labels: Ids
    guesses: NDArray[np.bool_]

    @classmethod
    def of(cls, pairs: tuple[Pair, ...]) -> Pairs:
        """Encode pairs."""
        codes = np.zeros(128, np.uint8)
        codes[[ord(sign) for sign in SYMBOLS[len(SPECIALS) :]]] = np.arange(len(SPECIALS), len(SYMBOLS))
        codes[[1, 2]] = CLS, SEP
        text = "".join(f"\1{pair.one}\2{pair.other}\2" for pair in pairs)
        lengths = [len(pair.one) + len(pair.other) + 3 for pair in pairs]
        return cls(
            codes[np.frombuffer(text.encode("ascii"), np.uint8)],
            np.cumsum([0, *lengths]),
            np.array([len(pair.one) + 2 for pair in pairs]),
            np.array([int(pair.entails) for pair in pairs]),
            np.array([pair.guesses for pair in pairs]),
        )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def longest(self) -> Ids:
        """The tokens of the longer text of each pair."""
        return np.maximum(self.firsts, np.diff(self.starts) - self.firsts)

    def batch(self, chosen: Ids, names: Ids | None = None) -> dict[str, Tensor]:
        """Some pairs, padded to the longest of them.

        Args:
            chosen: their places, [b].
            names: the variables that stand for a to z in each, [b, 26]; themselves if None.
        """
        lengths = self.starts[chosen + 1] - self.starts[chosen]
        places = np.arange(int(lengths.max()))
        real = places < lengths[:, None]
        ids = np.where(real, self.flat[np.where(real, self.starts[chosen][:, None] + places, 0)], PAD).astype(
            np.int64
        )
        if names is not None:
            letters = ids >= FIRST
            rows = np.broadcast_to(np.arange(len(chosen))[:, None], ids.shape)
            ids[letters] = names[rows[letters], ids[letters] - FIRST] + FIRST
        types = (places >= self.firsts[chosen][:, None]) & real
        return {
            "input_ids": torch.from_numpy(ids),
            "token_type_ids": torch.from_numpy(types.astype(np.int64)),
            "attention_mask": torch.from_numpy(real),
            "labels": torch.from_numpy(self.labels[chosen]),
        }


@frozen(eq=False)
class EntailmentData:
    """The pairs of each file, by its name: `train`, `validate`, and each `test_*`.

    Args:
        files: the pairs.
        folder: where they lie, for messages.
    """

    files: Mapping[str, Pairs]
    folder: str = "the folder"

    def of(self, split: str) -> dict[str, Pairs]:
        """The files of a split; there may be several test files.

        Raises:
            TaskError: there is no such split.
        """
        wanted = {
            "train": [TRAIN], "valid": [VALID], "test": [name for name in self.files if name.startswith("test_")],
        }  # fmt: skip
        if split not in wanted:
            raise TaskError(unknown("split", split, wanted))
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
        """A few pairs."""
        lines = ["(p&q),(p|q),1,1,1,1", "(p|q),(p&q),0,1,1,1", "~((p>q)),(p&~(q)),1,0,1,1", "(p>q),q,0,1,1,1"]
        for name in ("train", "validate", "test_easy"):
            (folder / f"{name}.txt").write_text("\n".join(lines * 2) + "\n", encoding="utf-8")
        return {"folder": str(folder), "batch_size": 4}

    def prepare(self) -> EntailmentData:
        """Read and encode every file of the folder."""
        options = self.options
        require("the task entailment", "tokenizers", extra="text")
        if not options.folder:
            raise TaskError(
                "entailment needs task.folder: the folder of train.txt, validate.txt and test_*.txt, such as "
                "--set folder=data; `peirce entailment generate` makes a training file"
            )
        paths = found_in(Path(options.folder))
        if options.pairs:
            paths[TRAIN] = Path(options.pairs)
        read = {name: read_pairs(path) for name, path in paths.items()}
        if options.limit and TRAIN in read:
            read[TRAIN] = read[TRAIN][: options.limit]
        if options.names == "ordered":
            read = {name: tuple(map(_ordered, pairs)) for name, pairs in read.items()}
        return EntailmentData({name: Pairs.of(pairs) for name, pairs in read.items()}, options.folder)

    def overrides(self, data: EntailmentData) -> Mapping[str, Any]:
        """The vocabulary, and two token types."""
        return {
            "model.input.vocabulary": len(SYMBOLS),
            "model.input.pad_id": PAD,
            "model.input.token_types": 2,
        }

    def check(self, model: Model, data: EntailmentData) -> None:
        """The head must be there, with two classes, and the longest pair must fit."""
        outputs = {spec.name: spec.dims for spec in model.signature.outputs}
        if outputs.get(f"{HEAD}_logits") != ("batch", 2):
            raise TaskError(
                f"entailment trains a head {HEAD!r} of two classes, and {model.spec.name!r} has none; add "
                'heads = [{ use = "matching" }]'
            )
        longest = max(int(np.diff(pairs.starts).max()) for pairs in data.files.values())
        if longest > model.plan.dims.max_length:
            raise TaskError(
                f"the longest pair has {longest} tokens, and model.input.max_length is {model.plan.dims.max_length}; "
                "raise it"
            )

    def batches(
        self, data: EntailmentData, split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each of pairs of about one length; the training pairs in a drawn order, renamed.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; labels: int64 [b].
        """
        for pairs in data.of(split).values():
            if split != "train":
                yield from map(pairs.batch, self._split(np.argsort(pairs.longest, kind="stable")))
                continue
            drawn = np.random.default_rng([seed, epoch])
            for chosen in self._drawn(pairs, drawn):
                names = None
                if self.options.names == "permuted":
                    names = drawn.permuted(np.tile(np.arange(len(VARIABLES)), (len(chosen), 1)), axis=1)
                yield pairs.batch(chosen, names)

    def _drawn(self, pairs: Pairs, drawn: np.random.Generator) -> Iterator[Ids]:
        """Batches in a drawn order. Of `SORTED` batches at a time, pairs of about one length come together."""
        order, at_once = drawn.permutation(len(pairs)), SORTED * self.options.batch_size
        for start in range(0, len(order), at_once):
            some = order[start : start + at_once]
            batches = self._split(some[np.argsort(pairs.longest[some], kind="stable")])
            yield from (batches[i] for i in drawn.permutation(len(batches)))

    def _split(self, order: Ids) -> list[Ids]:
        size = self.options.batch_size
        return [order[start : start + size] for start in range(0, len(order), size)]

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The cross-entropy of the head."""
        return model.loss(HEAD, _outputs(model, batch), batch["labels"])

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
                found[f"{heuristic}/{name}"] = float((pairs.guesses[:, i] == pairs.labels).mean())
        return found

    def right(self, model: Model, pairs: Pairs) -> NDArray[np.bool_]:
        """Whether a model decides each pair as its label says."""
        device, training = next(model.parameters()).device, model.training
        model.eval()
        found = np.zeros(len(pairs), np.bool_)
        try:
            with torch.inference_mode():
                for chosen in self._split(np.argsort(pairs.longest, kind="stable")):
                    batch = pairs.batch(chosen)
                    scores = _outputs(model, {name: each.to(device) for name, each in batch.items()})
                    found[chosen] = (scores[f"{HEAD}_logits"].argmax(1).cpu() == batch["labels"]).numpy()
        finally:
            model.train(training)
        return found

    def assets(self, data: EntailmentData) -> Mapping[str, bytes]:
        """The tokenizer, so that a saved model reads propositions as text, and the names of its classes."""
        labels = json.dumps({"task": self.name, "labels": ["0", "1"], "classes": CLASSES}, indent=2)
        return {"tokenizer.json": tokenizer().content, "labels.json": labels.encode()}


def _ordered(pair: Pair) -> Pair:
    one, other = renamed(pair.one, pair.other).split(",")
    return evolve(pair, one=one, other=other)


def _outputs(model: Model, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return model(**{spec.name: batch[spec.name] for spec in model.signature.inputs if spec.name in batch})


@cache
def tokenizer() -> Tokenizer:
    """Every character of a proposition as a token."""
    from tokenizers import Regex, models, pre_tokenizers
    from tokenizers import Tokenizer as Inner

    inner = Inner(models.WordLevel({sign: i for i, sign in enumerate(SYMBOLS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    inner.add_special_tokens(list(SPECIALS))
    return Tokenizer.from_content(json.dumps(json.loads(inner.to_str())).encode())

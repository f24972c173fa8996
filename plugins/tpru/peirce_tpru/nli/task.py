"""The task `nli`: does a premise entail a hypothesis, contradict it, or neither? Pairs of texts in three classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from attrs import frozen
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model, PlainRows
from peirce.parts import one_of
from peirce_text import (
    EncodedTexts,
    Example,
    FolderOptions,
    Ints,
    Row,
    TextClassData,
    TextClasses,
    Tokenizer,
    at_least,
    print_line,
    sentence,
    tensors,
    write_json_lines,
)
from peirce_text.plain import plain_accuracy, plain_ids, plain_table
from peirce_tpru.entailment.task import check_pairs
from peirce_tpru.nli.files import FILES, LABELS, MISMATCHED, TEST, TRAIN, pair, read_folder, read_hub
from peirce_tpru.vectors import ASSET, SPECIALS, Vectors, rows_of, vectors_of

SCORE = "score"
"""The mean of the accuracies of a split."""


@frozen(kw_only=True)
class NliOptions(FolderOptions):
    """What is read, and how words become vectors.

    Args:
        folder: holds the published files of SNLI, MNLI or SICK, gzipped or not.
        dataset: in place of a folder, a data set of the library `datasets`, such as `nyu-mll/multi_nli`.
        more: a folder or a data set whose training pairs are added, such as SNLI's beside MNLI's.
        limit: how many training pairs are taken, from the first on; all if 0.
        vectors: where vectors of words come from that are not trained: a text file of GloVe or fastText, or a folder or
            name of an encoder of `transformers`. Empty for word vectors that are trained with the model.
        cache: a folder that keeps an encoder's vectors, for data that are read often; computed for each batch if empty.
        device: what computes an encoder's vectors, such as `cuda`.
        pool: what stands for a text: its `max` over the tokens, their `mean`, its `last` token, or both `ends`.
        join: what the head reads of two texts: `compared` is [u; v; |u - v|; u * v], `plain` is [u; v].
        length: the most tokens of a pair without `vectors`, and of each text with them.
    """

    more: str = ""
    limit: int = at_least(0, 0)
    vectors: str = ""
    cache: str = ""
    device: str = "cpu"
    pool: Literal["max", "mean", "last", "ends"] = one_of("max", "mean", "last", "ends")
    join: Literal["compared", "plain"] = one_of("compared", "plain")
    vocabulary: int = at_least(0, 30_000)
    batch_size: int = at_least(1, 64)


@frozen(eq=False)
class PairsWithVectors(EncodedTexts):
    """Pairs of texts whose words have vectors; they have no ids of their own, and `notes` are the texts.

    Args:
        vectors: what gives the vectors.
    """

    vectors: Vectors | None = None

    @property
    def lengths(self) -> Ints:
        """The characters of each pair, which its tokens grow with."""
        return np.array([sum(map(len, texts)) for texts in self.notes], np.int64)

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Some pairs, with `word_vectors`: float32 [b, x, width]."""
        assert self.vectors is not None
        texts = list(zip(*(self.notes[row] for row in rows), strict=True))
        return {**rows_of(self.vectors, texts), **tensors({"labels": self.labels[rows]})}


class Nli(TextClasses[NliOptions]):
    """Entailment, neutral or contradiction? A head `matching` on an encoder that reads premise and hypothesis."""

    name = "nli"
    source = "SNLI (Bowman et al., 2015); MNLI (Williams et al., 2018); TPRU (Tang et al., 2018), Section 5.1"
    Options = NliOptions
    head = "matching"
    nouns = "pairs"
    classes = LABELS
    known_splits = (*FILES, TEST + MISMATCHED)
    examples = ("data", "nyu-mll/multi_nli")
    most_left_out = 1.0

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A sentence and itself, another one, or its contrary."""
        for name, first, count in (("train", 0, 12), ("dev_matched", 12, 6), ("dev_mismatched", 18, 6)):
            rows = [
                {
                    "gold_label": LABELS[i % 3],
                    "sentence1": sentence(i),
                    "sentence2": (sentence(i), sentence(i + 5), "No, " + sentence(i))[i % 3],
                }
                for i in range(first, first + count)
            ]
            write_json_lines(folder / f"multinli_1.0_{name}.jsonl", rows)
        return {"folder": str(folder), "vocabulary": 80, "length": 32, "batch_size": 4}

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """SICK's table, of which one pair has no label, with training pairs of another folder, of which some count."""
        place = folder / "sick"
        place.mkdir(exist_ok=True)
        for name in ("train", "trial"):
            lines = [f"{i}\t{sentence(i)}\t{sentence(i + 9)}\t{LABELS[i % 3].upper()}" for i in range(9)]
            header = "pair_ID\tsentence_A\tsentence_B\tentailment_judgment"
            text = "\n".join([header, *lines, f"9\t{sentence(1)}\t{sentence(2)}\t-"])
            (place / f"SICK_{name}.tsv").write_text(text + "\n", encoding="utf-8")
        (folder / "vectors.txt").write_text("the 0.5 1\ndog -1 0.25\ncat 1 0\n", encoding="utf-8")
        return [
            {"folder": str(place), "more": str(folder), "limit": 15}, {"vectors": str(folder / "vectors.txt")},
        ]  # fmt: skip

    def reference(self, data: TextClassData, split: str) -> list[dict[str, Any]] | None:
        """The pairs that have a label."""
        options, found = self.options, []
        names = {"train": "train", "valid": "dev_matched"}
        if split not in names or options.vectors:
            return None
        for folder in map(Path, filter(None, (options.folder, options.more))):
            sick = folder / f"SICK_{'train' if split == 'train' else 'trial'}.tsv"
            if folder == Path(options.more or ".") and split != "train":
                continue
            for row in plain_table(sick if sick.is_file() else folder / f"multinli_1.0_{names[split]}.jsonl"):
                label = (row.get("gold_label") or row["entailment_judgment"]).lower()
                texts = (row.get("sentence1") or row["sentence_A"], row.get("sentence2") or row["sentence_B"])
                if label != "-":
                    ids = plain_ids(data.tokenizer, *texts, length=options.length)
                    found.append({**ids, "labels": LABELS.index(label)})
        return found[: options.limit or None] if split == "train" else found

    def reference_settings(self, data: TextClassData) -> Mapping[str, Any]:
        """Two token types, and a head that compares two texts."""
        head = {"use": "matching", "classes": 3, "pool": self.options.pool, "join": self.options.join}
        augmenters = [{"use": "word_vectors", "size": 2}]
        return {
            **super().reference_settings(data), "model.input.token_types": 2, "model.heads": [head],
            **({"model.augmenters": augmenters} if self.options.vectors else {}),
        }  # fmt: skip

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """Accuracy, which is the score where there are no pairs of other genres."""
        accuracy = plain_accuracy(self.plain_guesses(rows, outputs))
        return {"accuracy": accuracy, **({} if split + MISMATCHED in data.splits else {SCORE: accuracy})}

    def rows(self) -> Mapping[str, Iterable[Row]]:
        """The rows of the published files or of a data set, the training pairs with those of `more`."""
        options = self.options
        found = read_hub(options.dataset) if options.dataset else read_folder(Path(options.folder))
        if options.more and TRAIN in found:
            more = read_folder(Path(options.more)) if Path(options.more).is_dir() else read_hub(options.more)
            if TRAIN not in more:
                raise TaskError(f"{options.more} has no training pairs")
            found[TRAIN] = chain(found[TRAIN], more[TRAIN])
        return found

    def example_of(self, row: Row, split: str) -> Example | str:
        """Premise, hypothesis and label."""
        return pair(row)

    def read(self) -> dict[str, Sequence[Example]]:
        """The pairs with labels; a data set may have splits without."""
        read = super().read()
        if TRAIN in read:
            read[TRAIN] = read[TRAIN][: self.options.limit or None]
        return {split: examples for split, examples in read.items() if examples or not self.options.dataset}

    def tokenizer(self, examples: Iterable[Example] | None) -> Tokenizer:
        """What divides texts; with vectors, special tokens alone."""
        return Tokenizer.of_symbols(SPECIALS) if self.options.vectors else super().tokenizer(examples)

    def data_of(self, tokenizer: Tokenizer, read: Mapping[str, Sequence[Example]]) -> TextClassData:
        """All splits as ids, or with the vectors of their texts."""
        options = self.options
        how: Any = {"length": options.length, "cache": options.cache, "device": options.device}
        if not options.vectors:
            return super().data_of(tokenizer, read)
        vectors = vectors_of(options.vectors, **how)
        columns = (zip(*(each.texts for each in examples), strict=True) for examples in read.values())
        vectors.prepare(text for examples in columns for column in examples for text in column)
        none = np.zeros(0, np.int64)
        splits = {
            split: PairsWithVectors(
                ids=none,
                starts=none,
                firsts=np.zeros(len(examples), np.int64),
                pad_id=tokenizer.pad_id,
                columns={"labels": np.array([each.label for each in examples], np.int64)},
                notes=[each.texts for each in examples],
                vectors=vectors,
            )
            for split, examples in read.items()
        }
        return TextClassData(tokenizer, splits, LABELS)

    def head_table(self, data: TextClassData) -> dict[str, Any]:
        """The head `matching`."""
        options = self.options
        return {"use": self.head, "classes": len(LABELS), "pool": options.pool, "join": options.join}

    def overrides(self, data: TextClassData) -> Mapping[str, Any]:
        """The vocabulary, two token types and the head; with vectors, what reads them."""
        vectors = vectors_in(data)
        table = {"use": "word_vectors", "size": vectors.width} if vectors else {}
        return {**super().overrides(data), **({"model.augmenters": [table]} if table else {})}

    def check(self, model: Model, data: TextClassData) -> None:
        """The head must be there, with three classes, and the longest pair must fit."""
        longest = self.options.length * (2 if self.options.vectors else 1)
        check_pairs(self.name, model, len(LABELS), f"a pair may have {longest} tokens", longest)

    def metrics(self, model: Model, data: TextClassData, split: str) -> Mapping[str, float]:
        """Accuracy, `accuracy_mismatched` where MNLI has such pairs, and their mean as `score`."""
        if split == TEST and TEST not in data.splits:
            print_line("there are no labelled test pairs here")
            return {}
        found = {"accuracy": float(self.right(model, data, split).mean())}
        if split + MISMATCHED in data.splits:
            found[f"accuracy{MISMATCHED}"] = float(self.right(model, data, split + MISMATCHED).mean())
        return {SCORE: sum(found.values()) / len(found), **found}

    def assets(self, data: TextClassData) -> Mapping[str, bytes]:
        """The names of the labels, and the tokenizer, or where the vectors come from."""
        assets, vectors = dict(super().assets(data)), vectors_in(data)
        if vectors is not None:
            del assets["tokenizer.json"]
            assets[ASSET] = vectors.asset
        return assets


def vectors_in(data: TextClassData) -> Vectors | None:
    """What gives the vectors of some data; None where word vectors are trained."""
    some = next(iter(data.splits.values()))
    return some.vectors if isinstance(some, PairsWithVectors) else None

"""The task `nli`: does a premise entail a hypothesis, contradict it, or neither? Pairs of texts in three classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from attrs import field, frozen, validators
from numpy.typing import NDArray
from peirce.errors import TaskError
from peirce.extras import require
from peirce.model import Model
from peirce_text import (
    EncodedTexts,
    TextTask,
    Tokenizer,
    encode,
    evaluating,
    of_split,
    of_vocabulary,
    outputs_of,
    say,
    sentence,
    shown,
    write_json_lines,
)
from torch import Tensor

from peirce_tpru.nli.files import (
    FILES,
    LABELS,
    MISMATCHED,
    TEST,
    TRAIN,
    VALID,
    Examples,
    read_folder,
    read_hub,
)
from peirce_tpru.vectors import ASSET, PAD, SPECIALS, Vectors, rows_of, vectors_of

HEAD = "matching"
SCORE = "score"
"""The mean of the accuracies of a split."""
Ints = NDArray[np.int64]


@frozen(kw_only=True)
class NliOptions:
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
        tokenizer: for trained word vectors, a tokenizers JSON, a BERT vocab.txt, or a folder with one; when empty,
            WordPiece is trained on the training pairs.
        vocabulary: how many entries it then has.
        pool: what stands for a text: its `max` over the tokens, their `mean`, its `last` token, or both `ends`.
        join: what the head reads of two texts: `compared` is [u; v; |u - v|; u * v], `plain` is [u; v].
        length: the most tokens of a pair without `vectors`, and of each text with them.
        batch_size: how many pairs are in a batch.
    """

    folder: str = ""
    dataset: str = ""
    more: str = ""
    limit: int = field(default=0, validator=validators.ge(0))
    vectors: str = ""
    cache: str = ""
    device: str = "cpu"
    tokenizer: str = ""
    vocabulary: int = field(default=30_000, validator=validators.ge(1))
    pool: Literal["max", "mean", "last", "ends"] = field(
        default="max", validator=validators.in_(("max", "mean", "last", "ends"))
    )
    join: Literal["compared", "plain"] = field(
        default="compared", validator=validators.in_(("compared", "plain"))
    )
    length: int = field(default=128, validator=validators.ge(5))
    batch_size: int = field(default=64, validator=validators.ge(1))


@frozen(eq=False)
class NliData:
    """The pairs of each split, and what makes inputs of them.

    Args:
        examples: by split; MNLI also has `valid_mismatched`.
        labels: the place of each pair's label in `LABELS`, by split.
        tokenizer: what divides texts; None with vectors.
        encoded: the pairs as ids, by split; none with vectors.
        vectors: what gives vectors of words; None where they are trained.
    """

    examples: Mapping[str, Examples]
    labels: Mapping[str, Ints]
    tokenizer: Tokenizer | None
    encoded: Mapping[str, EncodedTexts]
    vectors: Vectors | None

    def batch(self, split: str, chosen: Ints) -> dict[str, Tensor]:
        """Some pairs of a split, as inputs and labels."""
        if self.vectors is None:
            inputs = self.encoded[split].batch(chosen)
        else:
            own = self.examples[split]
            inputs = rows_of(
                self.vectors, [[column[i] for i in chosen] for column in (own.premises, own.hypotheses)]
            )
        return {**inputs, "labels": torch.from_numpy(self.labels[split][chosen])}


class Nli(TextTask[NliData]):
    """Entailment, neutral or contradiction? A head `matching` on an encoder that reads premise and hypothesis."""

    name = "nli"
    source = "SNLI (Bowman et al., 2015); MNLI (Williams et al., 2018); TPRU (Tang et al., 2018), Section 5.1"
    Options = NliOptions
    head = HEAD
    examples = ("data", "nyu-mll/multi_nli")

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A sentence and itself, another one, or its contrary."""
        for name, count in (("train", 12), ("dev_matched", 6), ("dev_mismatched", 6)):
            rows = [
                {
                    "gold_label": LABELS[i % 3],
                    "sentence1": sentence(i),
                    "sentence2": (sentence(i), sentence(i + 5), "No, " + sentence(i))[i % 3],
                }
                for i in range(count)
            ]
            write_json_lines(folder / f"multinli_1.0_{name}.jsonl", rows)
        return {"folder": str(folder), "vocabulary": 80, "length": 32, "batch_size": 4}

    def prepare(self) -> NliData:
        """Read the files; divide the texts, or get their vectors ready."""
        options: NliOptions = self.options
        require("the task nli", "tokenizers", extra="text")
        self.check_source()
        read = read_folder(Path(options.folder)) if options.folder else read_hub(options.dataset)
        if options.more and TRAIN in read:
            more = read_folder(Path(options.more)) if Path(options.more).is_dir() else read_hub(options.more)
            read[TRAIN] = read[TRAIN] + of_split(more, TRAIN, FILES, f"{options.more} has no training pairs")
        if TRAIN in read:
            read[TRAIN] = read[TRAIN].first(options.limit)
        out = sum(examples.unlabelled for examples in read.values())
        say(
            ", ".join(f"{len(examples):,} {split}" for split, examples in read.items())
            + " pairs"
            + (f"; {out:,} that annotators do not agree on are left out" if out else "")
        )
        labels = {split: np.array(examples.labels, np.int64) for split, examples in read.items()}
        texts = [
            text for own in read.values() for column in (own.premises, own.hypotheses) for text in column
        ]
        how: Any = {"length": options.length, "cache": options.cache, "device": options.device}
        if options.vectors:
            vectors = vectors_of(options.vectors, **how)
            vectors.keep(texts)
            return NliData(read, labels, None, {}, vectors)
        training = (*read[TRAIN].premises, *read[TRAIN].hypotheses) if TRAIN in read else None
        tokenizer = self.tokenizer(training)
        encoded = {
            split: encode(tokenizer, (own.premises, own.hypotheses), options.length, f"{split} pairs")
            for split, own in read.items()
        }
        for split, rows in encoded.items():
            if rows.cut:
                say(f"{split}: {rows.cut:,} pairs were cut to {options.length} tokens")
        return NliData(read, labels, tokenizer, encoded, None)

    def overrides(self, data: NliData) -> Mapping[str, Any]:
        """The vocabulary, two token types and the head; with vectors, special tokens and what reads them."""
        head = {"use": HEAD, "classes": len(LABELS), "pool": self.options.pool, "join": self.options.join}
        if data.tokenizer is not None:
            given = of_vocabulary(data.tokenizer)
        else:
            assert data.vectors is not None
            given = {
                "model.input.vocabulary": len(SPECIALS),
                "model.input.pad_id": PAD,
                "model.augmenters": [{"use": "word_vectors", "size": data.vectors.width}],
            }
        return {**given, "model.input.token_types": 2, "model.heads": [head]}

    def check(self, model: Model, data: NliData) -> None:
        """The head must be there, with three classes, and the longest pair must fit."""
        outputs = {spec.name: spec.dims for spec in model.signature.outputs}
        if outputs.get(f"{HEAD}_logits") != ("batch", len(LABELS)):
            raise TaskError(
                f"nli trains a head {HEAD!r} of three classes, and {model.spec.name!r} has none; add "
                'heads = [{ use = "matching", classes = 3 }]'
            )
        longest = self.options.length * (1 if data.vectors is None else 2)
        if longest > model.plan.dims.max_length:
            raise TaskError(
                f"a pair may have {longest} tokens, and model.input.max_length is {model.plan.dims.max_length}; raise "
                "it, or lower task.length"
            )

    def batches(self, data: NliData, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each as long as its longest pair.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; word_vectors: float32 [b, x, width],
            where task.vectors says where from; labels: int64 [b].
        """
        labels = self._labels(data, split)
        for chosen in self.order(len(labels), split, seed, epoch):
            yield data.batch(split, chosen)

    def metrics(self, model: Model, data: NliData, split: str) -> Mapping[str, float]:
        """Accuracy, `accuracy_mismatched` where MNLI has such pairs, and their mean as `score`."""
        if split == TEST and TEST not in data.labels:
            say("there are no test pairs with labels here")
            return {}
        found = {"accuracy": float(self.right(model, data, split).mean())}
        if split + MISMATCHED in data.labels:
            found[f"accuracy{MISMATCHED}"] = float(self.right(model, data, split + MISMATCHED).mean())
        return {SCORE: sum(found.values()) / len(found), **found}

    def right(self, model: Model, data: NliData, split: str) -> NDArray[np.bool_]:
        """Whether a model labels each pair of a split as its annotators did."""
        labels = self._labels(data, split)
        batches = list(self.order(len(labels), VALID, 0, 0))
        found = []
        with evaluating(model) as moved:
            for chosen in shown(batches, f"labelling {split}", len(batches), 20):
                batch = data.batch(split, chosen)
                scores = outputs_of(model, moved(batch))[f"{HEAD}_logits"]
                found.append((scores.argmax(1).cpu() == batch["labels"]).numpy())
        return np.concatenate(found)

    def _labels(self, data: NliData, split: str) -> Ints:
        where = self.options.folder or self.options.dataset
        hint = f"{where} has no {split} pairs with labels; it has {', '.join(data.labels)}"
        return of_split(data.labels, split, (*FILES, TEST + MISMATCHED), hint)

    def assets(self, data: NliData) -> Mapping[str, bytes]:
        """The names of the labels, and the tokenizer, or where the vectors come from."""
        labels = {"labels.txt": ("\n".join(LABELS) + "\n").encode()}
        return {
            **labels,
            **({ASSET: data.vectors.asset} if data.vectors is not None else super().assets(data)),
        }

"""The task `pretraining`: masked or next tokens, sentence pairs and contrasted views, on shards of plain text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from attrs import field, frozen, validators
from torch import Tensor

from peirce.algebra import Scope
from peirce.errors import TaskError, check_known
from peirce.model import Model, PlainRows, Task
from peirce.parts import IGNORED, Head, one_of, plain_cross_entropy
from peirce_text.plain import plain_best, plain_mean
from peirce_text.pretraining.batches import Batcher, Guessing, LazyBatch, Masking, NextTokens
from peirce_text.pretraining.examples import SINGLE, Corpus, Objective
from peirce_text.pretraining.record import Record
from peirce_text.pretraining.store import Ints, ShardTokens, Store
from peirce_text.progress import ShardProgress
from peirce_text.samples import sentence, vocabulary
from peirce_text.tasks import SPLITS, TEST, TRAIN, VALID, TextOptions, at_least, evaluation_mode
from peirce_text.text.shards import Shard, ShardError, find_shards
from peirce_text.text.tokenizer import FILE, Tokenizer

INPUTS = ("input_ids", "token_type_ids", "attention_mask")
"""What a model reads of a row."""
MLM, LM, PAIR, SCL = "mlm", "lm", "pair", "scl"
"""The terms of the loss, and the prefixes of their heads; but a pair's head is called as the objective."""


def _files(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value)


@frozen(kw_only=True)
class PretrainingOptions(TextOptions):
    """What is read, and how it becomes rows.

    Args:
        files: the shards to train on: files, folders or patterns of .txt, .jsonl, .parquet and .arrow, also compressed.
        valid_files: those to evaluate on; without them there is no split `valid`.
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one of them, such as a saved model.
        objective: what is learnt beside masked tokens: `nsp`, whether the second of two texts follows; `sop`, whether
            the two are in order; `mlm`, nothing, of one text alone. Or instead of them, with `causal`: each token of
            one text from those before it.
        scl: whether each text comes as two views, in rows 2i and 2i+1, that the contrastive loss tells from others.
        length: the most tokens of a row, special ones included.
        batch_size: the rows of a batch, of one process.
        probability: the part of the tokens of text that is masked.
        most_masked: the most masked tokens of a row.
        document_lines: how many lines of a .txt are a document: 0 if blank lines divide documents, 1 if each line is
            one. A row of any other format is a document.
        column: which column of a row of the other formats holds the text.
        damaged: whether a damaged shard is refused, or named and left out whole.
        store: a folder for the tokens, which later runs and other processes use too; a temporary one when empty.
        valid_rows: the most examples to evaluate on; 0 for all.
        vocabulary_multiple: the model's vocabulary is the next multiple of this above the tokenizer's, as 32,776 is
            above 32,768; 0 for just as many.
    """

    files: tuple[str, ...] = field(default=(), converter=_files)
    valid_files: tuple[str, ...] = field(default=(), converter=_files)
    objective: Objective = field(default="nsp", validator=validators.in_(get_args(Objective)))
    scl: bool = False
    length: int = at_least(8, 128)
    probability: float = field(default=0.15, validator=[validators.gt(0), validators.lt(1)])
    most_masked: int = at_least(1, 20)
    document_lines: int = at_least(0, 0)
    column: str = "text"
    damaged: Literal["refuse", "skip"] = one_of("refuse", "skip")
    store: str = ""
    valid_rows: int = at_least(0, 2048)
    vocabulary_multiple: int = at_least(0, 8)

    def __attrs_post_init__(self) -> None:
        if self.scl and self.batch_size % 2:
            raise TaskError(
                f"task.batch_size={self.batch_size} is odd, and task.scl puts two views of a text into a "
                "batch; make it even"
            )
        if self.scl and self.objective == "causal":
            raise TaskError(
                "task.scl contrasts rows by their first token, which with task.objective=causal does not see the "
                "others; set task.scl=false"
            )


@frozen(eq=False)
class PretrainingData:
    """Shards as examples.

    Args:
        tokenizer: what their tokens are made with.
        corpora: the examples by split.
        damaged: the shards that were left out, each with what is wrong with it.
        facts: of each split, what was read: shards, examples.
        store: where the tokens lie; a temporary folder stays as long as the data that map it.
    """

    tokenizer: Tokenizer
    corpora: Mapping[str, Corpus]
    damaged: Mapping[str, str]
    facts: Mapping[str, Any]
    store: Store

    def corpus(self, split: str) -> Corpus:
        """The examples of a split.

        Raises:
            TaskError: there is no such split.
        """
        name = VALID if split == TEST else split  # `test` is `valid` by another name, for a trained model
        if name in self.corpora:
            return self.corpora[name]
        check_known("split", split, SPLITS, TaskError)
        raise TaskError(
            f"there is no split {split!r} without task.valid_files; name some, or leave the evaluation out with "
            "train.test_split= and train.evaluate_every=0"
        )


class Pretraining(Task[PretrainingOptions, PretrainingData]):
    """Masked language modelling, with sentence pairs and sequence contrastive learning.

    Args:
        options: what is read, and how it becomes rows.
        record: where it is written down what was read, so that a resumed training can be held to it.
    """

    name = "pretraining"
    source = "FOLNet (Chen, 2023), Appendix B; BERT (Devlin et al., 2018), Section 3.1; ALBERT for SOP; COCO-LM for SCL"
    Options = PretrainingOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Documents of a few sentences."""
        named = {}
        for name, numbers in (("files", range(8)), ("valid_files", range(8, 11))):
            documents = ["\n".join(sentence(7 * i + 5 * j) for j in range(6)) for i in numbers]
            path = folder / f"{name}.txt"
            path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
            named[name] = (str(path),)
        return {**named, "tokenizer": vocabulary(folder), "length": 24, "batch_size": 4, "most_masked": 4}

    def reference(self, data: PretrainingData, split: str) -> list[dict[str, Any]] | None:
        """The rows of an evaluation, whose pairs and masks are drawn, for what is computed of them."""
        if split == TRAIN or self.options.scl:
            return None
        found = []
        for batch in self.batches(data, split, 0, 0):
            lists = {name: batch[name].tolist() for name in (*INPUTS, "positions", "labels", "pairs")}
            for row in (
                {name: values[i] for name, values in lists.items()} for i in range(len(lists["pairs"]))
            ):
                size, guesses = sum(row["attention_mask"]), sum(label != IGNORED for label in row["labels"])
                row |= {name: row[name][:size] for name in INPUTS}
                found.append(row | {name: row[name][:guesses] for name in ("positions", "labels")})
        return found

    def reference_settings(self, data: PretrainingData) -> Mapping[str, Any]:
        """The vocabulary, rounded up, and a head for each term."""
        options, size = self.options, data.tokenizer.vocabulary
        multiple = options.vocabulary_multiple
        heads: list[dict[str, Any]] = [{"use": "mlm"}]
        if options.objective == "causal":
            heads = [{"use": "causal_lm", "as": "lm"}]
        pairs = options.objective in ("nsp", "sop")
        heads += [{"use": "pair", "as": options.objective}] * pairs
        heads += [{"use": "contrastive", "as": "scl"}] * options.scl
        return {
            "model.input.vocabulary": size + multiple - size % multiple if multiple else size,
            "model.input.pad_id": data.tokenizer.pad_id, **({"model.input.token_types": 2} if pairs else {}),
            "model.heads": heads,
        }  # fmt: skip

    def plain_guesses(self, rows: PlainRows, outputs: PlainRows) -> dict[str, tuple[list[Any], list[int]]]:
        """The scores and the labels of each term."""
        found: dict[str, tuple[list[Any], list[int]]] = {self.term: ([], [])}
        for row, each in zip(rows, outputs, strict=True):
            scores = each[f"{self.term}_logits"]
            found[self.term][0].extend(scores[place] for place in row["positions"])
            found[self.term][1].extend(row["labels"])
        if self.options.objective in ("nsp", "sop"):
            found[PAIR] = (
                [each[f"{self.options.objective}_logits"] for each in outputs],
                [row["pairs"] for row in rows],
            )
        return found

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The sum of the cross-entropies of tokens and of pairs."""
        return sum(plain_cross_entropy(*both) for both in self.plain_guesses(rows, outputs).values())

    def reference_metrics(
        self, data: PretrainingData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """Loss and accuracy of each term, their sum, and the perplexity of next tokens."""
        found = {}
        for name, (scores, labels) in self.plain_guesses(rows, outputs).items():
            found[f"{name}_loss"] = plain_cross_entropy(scores, labels)
            right = [plain_best(each) == label for each, label in zip(scores, labels, strict=True)]
            found[f"{name}_accuracy"] = plain_mean(right)
        perplexity = {"perplexity": math.exp(found["lm_loss"])} if "lm_loss" in found else {}
        return {"loss": sum(v for n, v in found.items() if n.endswith("loss")), **found, **perplexity}

    def __init__(self, options: PretrainingOptions, record: Record | None = None) -> None:
        super().__init__(options)
        self.record = record

    @property
    def term(self) -> str:
        """The term of the loss that is about tokens."""
        return LM if self.options.objective == "causal" else MLM

    def prepare(self) -> PretrainingData:
        """Read and tokenise the shards, or find them in the store."""
        options = self.options
        if not options.tokenizer:
            raise TaskError(
                "pretraining needs a tokenizer; give task.tokenizer=PATH, or train one with `peirce tokenizer train`"
            )
        if not options.files:
            raise TaskError(
                "pretraining needs text; give task.files=PATH, or --data PATH to `peirce pretrain`"
            )
        if Path(options.store).is_file():
            raise TaskError(f"task.store={options.store} is a file; give a folder for the tokens")
        tokenizer = Tokenizer.load(options.tokenizer)
        splits = {TRAIN: find_shards(options.files)}
        if options.valid_files:
            splits[VALID] = find_shards(options.valid_files)
        folder = Path(options.store) if options.store else None
        store = Store(folder, tokenizer, options.column, options.document_lines)
        damaged: dict[str, str] = {}
        corpora, facts = {}, {}
        with ShardProgress(sum(map(len, splits.values()))) as progress:
            for split, shards in splits.items():
                found = list(self._tokens(store, shards, progress, damaged))
                corpora[split] = Corpus(tuple(t for _, t in found), options.objective, options.length)
                facts[split] = _facts(found, corpora[split])
                if not len(corpora[split]):
                    raise TaskError(
                        f"the files of split {split!r} hold no text to train on: "
                        f"{', '.join(str(s.path) for s in shards)}"
                    )
        data = PretrainingData(tokenizer, corpora, damaged, facts, store)
        if self.record is not None:
            self.record.write_or_compare(store.digest, facts)
        return data

    def _tokens(
        self, store: Store, shards: tuple[Shard, ...], progress: ShardProgress, damaged: dict[str, str]
    ) -> Iterator[tuple[Shard, ShardTokens]]:
        refuse = self.options.damaged == "refuse"
        for shard in shards:
            progress.start(shard.path.name)
            try:
                yield shard, store.tokens(shard, progress.advance)
            except ShardError as error:
                if refuse:
                    raise ShardError(f"{error}, or set task.damaged=skip to train without it") from error
                damaged[str(shard.path)] = str(error)
                progress.print_line(f"left out: {error}")
            progress.done()

    def overrides(self, data: PretrainingData) -> Mapping[str, Any]:
        """The vocabulary, rounded up, and the heads of the losses."""
        options = self.options
        heads: list[dict[str, Any]] = [
            {"use": "causal_lm", "as": LM} if options.objective == "causal" else {"use": "mlm"}
        ]
        overrides: dict[str, Any] = {
            "model.input.vocabulary": round_up(data.tokenizer.vocabulary, options.vocabulary_multiple),
            "model.input.pad_id": data.tokenizer.pad_id,
        }
        if options.objective not in SINGLE:
            heads.append({"use": "pair", "as": options.objective})
            overrides["model.input.token_types"] = 2
        if options.scl:
            heads.append({"use": "contrastive", "as": SCL})
        return {**overrides, "model.heads": heads}

    def check(self, model: Model, data: PretrainingData) -> None:
        """Refuse a model that reads more than rows of text, such as a source beside a target."""
        lacking = [s.name for s in model.signature.inputs if s.required and s.name not in INPUTS]
        if lacking:
            raise TaskError(
                f"the model {model.spec.name!r} reads {' and '.join(lacking)}, which rows of plain text do not have; "
                'give a spec whose scope is "bidirectional", or "causal" with task.objective=causal'
            )

    def batches(self, data: PretrainingData, split: str, seed: int, epoch: int) -> Iterator[LazyBatch]:
        """The batches of one pass; pairs and masks depend on seed, epoch and example, whatever the batch.

        In training the examples that do not fill a batch are left to other epochs.

        Yields:
            What `Batcher.batch` gives.
        """
        corpus = data.corpus(split)
        views = 2 if self.options.scl else 1
        guessing, tokenizer = self._guessing(data.tokenizer), data.tokenizer
        batcher = Batcher(corpus=corpus, guessing=guessing, tokenizer=tokenizer, views=views)
        if split == TRAIN:
            order = np.random.default_rng([seed, epoch]).permutation(len(corpus))
            yield from batcher.batches(order, self.options.batch_size, (seed, epoch), whole=True)
        else:
            chosen = self._evaluation_examples(corpus)
            yield from batcher.batches(chosen, self.options.batch_size, (0, 0), whole=False)

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The sum of the terms."""
        terms = self.terms(model, batch)
        return sum(terms.values(), torch.zeros((), device=batch["input_ids"].device))

    def terms(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """`mlm` or `lm`, the mean over guessed tokens; `pair`, over rows; `scl`, the contrastive loss of the batch."""
        return {
            name: head.loss(outputs, labels)
            for name, (head, outputs, labels) in self._predictions(model, batch).items()
        }

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The guessed tokens and the rows of a batch, without making it."""
        if isinstance(batch, LazyBatch):
            guesses, rows = batch.guesses, batch.rows
        else:
            guesses, rows = int((batch["labels"] != IGNORED).sum()), len(batch["pairs"])
        return {self.term: guesses} if self.options.objective in SINGLE else {self.term: guesses, PAIR: rows}

    def metrics(self, model: Model, data: PretrainingData, split: str) -> Mapping[str, float]:
        """Loss and accuracy on guessed tokens, the perplexity of next ones, accuracy on pairs, the loss of training.

        Pairs and masks are the same in every evaluation, whatever the seed of the training.
        """
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        right: dict[str, int] = {}
        with evaluation_mode(model) as moved:
            for batch in self.batches(data, split, 0, 0):
                targets = self.targets(batch)
                for name, (head, outputs, labels) in self._predictions(model, moved(batch)).items():
                    count = targets.get(name, batch.rows)
                    sums[name] = sums.get(name, 0.0) + float(head.loss(outputs, labels)) * count
                    counts[name] = counts.get(name, 0) + count
                    if name in targets:
                        guessed = outputs["logits"].argmax(-1) == labels
                        right[name] = right.get(name, 0) + int(guessed.sum())
        losses = {f"{name}_loss": total / counts[name] for name, total in sums.items()}
        accuracies = {f"{name}_accuracy": count / counts[name] for name, count in right.items()}
        perplexity = {"perplexity": math.exp(losses[f"{LM}_loss"])} if LM in sums else {}
        return {"loss": math.fsum(losses.values()), **losses, **accuracies, **perplexity}

    def assets(self, data: PretrainingData) -> Mapping[str, bytes]:
        """The tokenizer."""
        tokenizer = data.tokenizer
        content = (
            tokenizer.prompt_content() if self.term == LM else tokenizer.saved_content(self.options.length)
        )
        return {FILE: content}

    def _guessing(self, tokenizer: Tokenizer) -> Guessing:
        options = self.options
        if self.term == LM:
            return NextTokens()
        return Masking(
            mask_id=tokenizer.mask_id,
            ordinary=np.setdiff1d(np.arange(tokenizer.vocabulary), sorted(tokenizer.special_ids)),
            probability=options.probability,
            most=options.most_masked,
        )

    def _evaluation_examples(self, corpus: Corpus) -> Ints:
        """The examples to evaluate on: all, or as many as asked for, from all over the files."""
        most = self.options.valid_rows
        if not most or most >= len(corpus):
            return np.arange(len(corpus))
        return np.sort(np.random.default_rng(0).permutation(len(corpus))[:most])

    def _predictions(
        self, model: Model, batch: Mapping[str, Tensor]
    ) -> dict[str, tuple[Head, Mapping[str, Tensor], Tensor]]:
        """The head, the predictions and the labels of each term.

        The scores of the vocabulary are computed at the guessed places alone, a seventh of all where tokens are masked:
        at 128 tokens and 32,776 entries those of a row take 17 MB.
        """
        inputs = {spec.name: batch[spec.name] for spec in model.signature.inputs if spec.name in batch}
        encoded, tokens = model.network(inputs)
        places = batch["positions"].unsqueeze(-1).expand(-1, -1, encoded.unary.shape[-1])
        chosen = encoded._replace(unary=encoded.unary.gather(1, places), scope=Scope.padding(None))
        wanted = {self.term: (self.term, chosen, batch["labels"])}
        if self.options.objective not in SINGLE:
            wanted[PAIR] = (self.options.objective, encoded, batch["pairs"])
        if self.options.scl:
            wanted[SCL] = (SCL, encoded, batch["texts"])
        found = {}
        for term, (prefix, seen, labels) in wanted.items():
            if prefix not in model.heads:
                raise TaskError(
                    f"the model {model.spec.name!r} has no head {prefix!r}, which its pretraining needs; its heads are "
                    f"{', '.join(model.heads) or 'none'}"
                )
            head = cast(Head, model.heads[prefix])
            found[term] = (head, head(seen, tokens), labels)
        return found


def round_up(count: int, multiple: int) -> int:
    """A vocabulary's size as matrix products like it: the next multiple above it, as 32,776 is above 32,768."""
    return (count // multiple + 1) * multiple if multiple else count


def _facts(found: list[tuple[Shard, ShardTokens]], corpus: Corpus) -> dict[str, Any]:
    shards = [
        {"shard": str(shard.path), "bytes": shard.size, **tokens.counts, "sha256": tokens.digest}
        for shard, tokens in found
    ]
    return {"examples": len(corpus), "shards": shards}

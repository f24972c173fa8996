"""Texts to a served model: classes of texts or pairs, tags of words, and texts that go on with a prompt; no torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from peirce.errors import InputError, ModelFileError
from peirce.files import parse_json
from peirce.model import ASSETS, WEIGHTS, SavedFiles, saved_files
from peirce.parts import Signature, TensorSpec
from peirce_export import Field, Pipeline, Runner, Say, Session
from peirce_text.text.encoding import EncodedTexts, encode, softmax
from peirce_text.text.tokenizer import FILE, Tokenizer
from peirce_text.text.words import encode_words
from peirce_text.text.writer import DECODER, IDS, PREFIX, text_writer

LABELS = ("labels.json", "labels.txt")
"""What the names of classes are kept in: as GLUE's tasks write them, or a line each."""
TYPES = "token_type_ids"
INPUTS = {IDS, "attention_mask", TYPES}
PAIRS = "matching_logits"
"""The scores of the head `matching`, which has nothing to say of one text alone."""
LABELS_OF_TEXTS = "multilabel_logits"
"""The scores of the head `multilabel`, none of which competes with another."""
TAGS = "token_classification_logits"
"""The scores of the head of that name."""
LONGEST = 512
"""The most tokens of a text for a model that reads any number."""


Feed = Callable[[Any], Any]
"""Gives encoded texts with further inputs of the model."""
Keep = Callable[[NDArray[Any]], NDArray[Any]]
"""What is kept of scores [..., classes]: of many texts all scores of many classes would not fit in memory."""


def best_class(scores: NDArray[Any]) -> NDArray[np.float64]:
    """The most probable class and its probability, [..., 2], of scores [..., classes]."""
    shares = softmax(scores)
    return np.stack([shares.argmax(-1), shares.max(-1, initial=0.0)], -1)


class _ScoringPipeline(Pipeline):
    """What one output of a model scores."""

    assets: ClassVar[frozenset[str]] = frozenset({FILE})

    @classmethod
    @abstractmethod
    def outputs(cls, signature: Signature) -> list[TensorSpec]:
        """The outputs that the pipeline reads, of which a model must have one alone."""

    @classmethod
    def answers(cls, signature: Signature, assets: Collection[str], generates: bool) -> bool:
        """Whether the model has a tokenizer and one output that the pipeline reads."""
        names = {spec.name for spec in signature.inputs if spec.required}
        return cls.assets <= set(assets) and names <= INPUTS and len(cls.outputs(signature)) == 1

    def __init__(self, folder: Path, model: Runner) -> None:
        (scores,) = self.outputs(model.signature)
        self.scorer = Scorer(folder, model, scores)

    def labels(self) -> Mapping[str, Sequence[str]]:
        """The classes."""
        return {self.scorer.scores.name: self.scorer.classes}


class ClassificationPipeline(_ScoringPipeline):
    """The classes of a text, or of a pair of texts."""

    question = (
        Field(name="text", kind="text", meaning="The text."),
        Field(name="pair", kind="text", required=False, meaning="A second text, for models of pairs."),
    )
    answer: ClassVar[tuple[Field, ...]] = (
        Field(name="classes", kind="text", many=True, meaning="The classes, the best first."),
        Field(name="scores", kind="float", many=True, meaning="Their scores, before a softmax."),
        Field(name="probabilities", kind="float", many=True, meaning="Their softmax."),
    )

    @classmethod
    def outputs(cls, signature: Signature) -> list[TensorSpec]:
        """The outputs that score classes which compete."""
        return [spec for spec in _scores(signature) if spec.dims[1] != 1 and spec.name != LABELS_OF_TEXTS]

    @staticmethod
    def shares(scores: NDArray[Any]) -> NDArray[np.float64]:
        """The probabilities of the classes, [..., classes]."""
        return softmax(scores)

    def example(self) -> Mapping[str, Any]:
        """A word, and where there are token types a pair."""
        return {"text": "yes"} | ({"pair": "no"} if TYPES in self.scorer.inputs else {})

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Score the classes."""
        found = self._scores_of(question)
        order = np.argsort(-found, kind="stable")
        classes, scores = [self.scorer.classes[i] for i in order], found[order]
        say({"classes": classes, "scores": scores.tolist(), "probabilities": self.shares(scores).tolist()})

    def _scores_of(self, question: Mapping[str, Any]) -> NDArray[Any]:
        pair = question.get("pair")
        (found,) = self.score([[question["text"]], *([] if pair is None else [[pair]])])
        return found

    def score(
        self,
        texts: Sequence[Sequence[str]],
        batch_size: int = 32,
        keep: Keep = np.asarray,
        feed: Feed = lambda encoded: encoded,
    ) -> NDArray[np.floating[Any]]:
        """The scores of the classes of many texts, [n, classes].

        Args:
            texts: all texts, and all second texts where they are pairs.
            batch_size: how many are scored at once.
            keep: what is kept of each text's scores.
            feed: adds further inputs of the model.

        Raises:
            InputError: the model takes no pairs, or nothing but pairs.
        """
        scorer = self.scorer
        if len(texts) > 1 and TYPES not in scorer.inputs:
            raise InputError(
                "input 'pair' is given, but the model has no token types to tell two texts apart"
            )
        if len(texts) == 1 and scorer.scores.name == PAIRS:
            raise InputError("input 'pair' is missing: the model compares two texts; give the second one")
        encoded = feed(encode(scorer.tokenizer, texts, scorer.longest, shorten=scorer.tokenizer.shorten))
        return np.stack(scorer.run(encoded, batch_size, keep))


class LabellingPipeline(ClassificationPipeline):
    """The labels of a text, or of a pair of texts, which may have any number of them."""

    answer = (
        Field(name="classes", kind="text", many=True, meaning="All labels, the most probable first."),
        Field(name="scores", kind="float", many=True, meaning="Their scores, before a sigmoid."),
        Field(name="probabilities", kind="float", many=True, meaning="How probable each label is."),
    )

    @classmethod
    def outputs(cls, signature: Signature) -> list[TensorSpec]:
        """The output that scores labels which do not compete."""
        return [spec for spec in _scores(signature) if spec.name == LABELS_OF_TEXTS]

    @staticmethod
    def shares(scores: NDArray[Any]) -> NDArray[np.float64]:
        """The probabilities of the labels, [..., labels]."""
        shares: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(scores.astype(np.float64), -700, None)))
        return shares


class ScoringPipeline(ClassificationPipeline):
    """The number of a text, or of a pair of texts."""

    answer = (Field(name="score", kind="float", meaning="The number."),)

    @classmethod
    def outputs(cls, signature: Signature) -> list[TensorSpec]:
        """The output that is one number."""
        return [spec for spec in _scores(signature) if spec.dims[1] == 1]

    def labels(self) -> Mapping[str, Sequence[str]]:
        """None: a number has no name."""
        return {}

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Compute the number."""
        say({"score": float(self._scores_of(question)[0])})


class TaggingPipeline(_ScoringPipeline):
    """The tags of the words of a text."""

    question = (Field(name="words", kind="text", many=True, meaning="The words of a text, in their order."),)
    answer = (
        Field(name="tags", kind="text", many=True, meaning="The tag of each word."),
        Field(name="probabilities", kind="float", many=True, meaning="How probable each tag is."),
    )

    assets: ClassVar[frozenset[str]] = frozenset({FILE, LABELS[0]})

    @classmethod
    def outputs(cls, signature: Signature) -> list[TensorSpec]:
        """The output that scores classes of each token, [batch, length, n]."""
        return [spec for spec in signature.outputs if spec.name == TAGS and _counts_classes(spec, 3)]

    def example(self) -> Mapping[str, Any]:
        """One word."""
        return {"words": ["yes"]}

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Tag the words."""
        (found,) = self.score([question["words"]])
        best = softmax(found)
        tags = [self.scorer.classes[i] for i in best.argmax(-1)]
        say({"tags": tags, "probabilities": best.max(-1, initial=0.0).tolist()})

    def score(
        self,
        texts: Sequence[Sequence[str]],
        batch_size: int = 32,
        keep: Keep = np.asarray,
        feed: Feed = lambda encoded: encoded,
    ) -> list[NDArray[np.floating[Any]]]:
        """The scores of the tags of each word of many texts, [words, tags] each.

        Args:
            texts: the words of each text.
            batch_size: how many are scored at once.
            keep: what is kept of each text's scores.
            feed: adds further inputs of the model.
        """
        scorer = self.scorer
        encoded = feed(encode_words(scorer.tokenizer, texts, scorer.longest))
        rows = scorer.run(encoded, batch_size, keep)
        found = [scores[encoded.first[encoded.place(i)]] for i, scores in enumerate(rows)]
        return encoded.by_text(np.concatenate([keep(np.zeros((0, len(scorer.classes)), np.float32)), *found]))


class Scorer:
    """A model that scores classes, of texts or of tokens, and what stands beside it.

    Args:
        folder: a saved model's.
        model: what runs it.
        scores: the output.

    Attributes:
        inputs: the inputs of the model by name.
        longest: the most tokens of a text: as many as in its training, or as the model reads.
        columns: the columns that it was trained on, by role; empty where nothing says them.
        task: the task that it was trained on; empty where nothing says it.
        aside: what tells the texts that it was measured on then; empty where nothing says it.
    """

    def __init__(self, folder: Path, model: Runner, scores: TensorSpec) -> None:
        self.scores, self._model = scores, model
        self.inputs = {spec.name: spec for spec in model.signature.inputs}
        with saved_files(folder, without=(WEIGHTS,)) as files:
            self.tokenizer = Tokenizer.from_content(
                files.read(f"{ASSETS}/{FILE}"), str(folder / ASSETS / FILE)
            )
            self.classes, known = _read_classes(files, int(scores.dims[-1]))
        self.columns: Mapping[str, str] = known.get("columns") or {}
        self.task, self.aside = str(known.get("task", "")), str(known.get("aside", ""))
        read = model.signature.largest.get(str(model.signature.input(IDS).dims[1]), LONGEST)
        trained = self.tokenizer.length or known.get("length")  # tokenizers of 1.0.0rc1 cut nothing
        self.longest = min(read, trained or read)

    def run(self, encoded: EncodedTexts, batch_size: int, keep: Keep) -> list[NDArray[Any]]:
        """What is kept of the scores of each row, [classes] or [x, classes], from batches of about one length."""
        found: dict[int, NDArray[Any]] = {}
        order = np.argsort(encoded.lengths, kind="stable")
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            (scores,) = self._model.run(self.feeds(encoded, rows), [self.scores.name]).values()
            each = len(self.scores.dims) == 3
            found |= {
                int(row): keep(row_scores[: encoded.lengths[row]] if each else row_scores)
                for row, row_scores in zip(rows, scores, strict=True)
            }
        return [found[row] for row in range(len(encoded))]

    def feeds(self, encoded: EncodedTexts, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What the model reads of some rows."""
        feeds = {name: array for name, array in encoded.arrays(rows).items() if name in self.inputs}
        if TYPES in feeds and self.inputs[TYPES].high == 1:  # as RoBERTa has them
            feeds[TYPES] = np.zeros_like(feeds[TYPES])
        return {name: self._cast(self.inputs[name], array) for name, array in feeds.items()}

    def _cast(self, spec: TensorSpec, array: NDArray[Any]) -> NDArray[Any]:
        """Floats in the dtype of an input, with its default, or else 0, in place of NaN, as `outputs_of` has them."""
        if array.dtype.kind != "f":
            return array
        dtypes = {"int64": np.dtype(np.int64), "bool": np.dtype(np.bool_), "float": np.dtype(np.float32)}
        dtype = self._model.dtype(spec.name) if isinstance(self._model, Session) else dtypes[spec.dtype]
        return np.where(np.isnan(array), array.dtype.type(spec.default or 0), array).astype(dtype)


class WritingPipeline(Pipeline):
    """What a model writes after a prompt, token by token."""

    streams = True
    question = (
        Field(name="prompt", kind="text", meaning="What to go on with, or the source of the text to write."),
        Field(name="max_new", kind="int64", required=False, meaning="The most tokens to write."),
        Field(name="sample", kind="bool", required=False, meaning="Draw tokens, in place of the best."),
        Field(name="temperature", kind="float", required=False, meaning="Of the draws."),
        Field(name="top_k", kind="int64", required=False, meaning="Draw among so many tokens; 0 for all."),
        Field(name="top_p", kind="float", required=False, meaning="Draw among this probability."),
        Field(name="seed", kind="int64", required=False, meaning="What the draws depend on."),
    )
    answer = (
        Field(name="text", kind="text", meaning="The text so far, as `peirce generate` prints it."),
        Field(name="token", kind="int64", meaning="The newest token."),
        Field(name="ended", kind="bool", meaning="Whether the model ended the text with it."),
    )

    @classmethod
    def answers(cls, signature: Signature, assets: Collection[str], generates: bool) -> bool:
        """Whether the model has a tokenizer and generates from tokens alone."""
        required = {spec.name for spec in signature.inputs if spec.required}
        return generates and FILE in assets and required <= {IDS, DECODER, PREFIX}

    def __init__(self, folder: Path, model: Runner) -> None:
        self._model = model
        with saved_files(folder, without=(WEIGHTS,)):  # held against their digests
            self._writer = text_writer(
                model.signature.inputs, model.generate, folder / ASSETS / FILE, where=folder
            )

    def example(self) -> Mapping[str, Any]:
        """One token after one word."""
        return {"prompt": "once", "max_new": 1}

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Write the text, and send what is written after each token."""
        settings = dict(question)
        prompt, tokens = settings.pop("prompt"), list[int]()

        def append(new: Any) -> None:
            tokens.append(int(new[0]))
            ended = tokens[-1] == self._writer.tokenizer.sep_id
            say({"text": self._writer.follow(prompt, tokens), "token": tokens[-1], "ended": ended})

        writer = evolve(self._writer, generate=partial(self._model.generate, on_tokens=append))
        writer.write([prompt], **settings)


def _scores(signature: Signature) -> list[TensorSpec]:
    """The outputs that score classes, [batch, n]."""
    return [each for each in signature.outputs if each.name.endswith("_logits") and _counts_classes(each, 2)]


def _counts_classes(spec: TensorSpec, dims: int) -> bool:
    return len(spec.dims) == dims and isinstance(spec.dims[-1], int)


def _read_classes(files: SavedFiles, count: int) -> tuple[list[str], Mapping[str, Any]]:
    """The names of the classes, their numbers where no file names them; and what else the file says."""
    for name in LABELS:
        if name not in files.assets:
            continue
        where, text = files.directory / ASSETS / name, files.text(f"{ASSETS}/{name}")
        try:
            table = parse_json(text) if name.endswith(".json") else {"labels": text.splitlines()}
            given = [table[key] for key in ("classes", "labels") if key in table]
            names = [str(each) for each in next(filter(None, given), given[0])]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelFileError(
                f"{where} names no classes ({error}); restore it from where the model was trained"
            ) from error
        if len(names) == count or (count == 1 and not names):
            return names, table
        if len(names) > 1:
            raise ModelFileError(
                f"{where} names {len(names)} classes, and the model scores {count}; restore it from where the model "
                "was trained"
            )
    return [str(number) for number in range(count)], {}

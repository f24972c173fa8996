"""Texts to a served model: classes of texts or of pairs, and texts that go on with a prompt; without torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve
from peirce.errors import InputError, ModelFileError
from peirce.files import parse_json
from peirce.model import ASSETS, WEIGHTS, Field, Pipeline, Runner, SavedFiles, Say, saved_files
from peirce.parts import Signature, TensorSpec

from peirce_text.text.encoding import padded, probabilities
from peirce_text.text.tokenizer import FILE, Tokenizer
from peirce_text.text.writer import DECODER, IDS, PREFIX, writer_of

LABELS = ("labels.json", "labels.txt")
"""What the names of classes are kept in: as GLUE's tasks write them, or a line each."""
TYPES = "token_type_ids"
PAIRS = "matching_logits"
"""The scores of the head `matching`, which has nothing to say of one text alone."""
LONGEST = 512
"""The most tokens of a text for a model that reads any number."""


class Classifies(Pipeline):
    """The classes of a text, or of a pair of texts."""

    question = (
        Field(name="text", kind="text", meaning="The text."),
        Field(name="pair", kind="text", required=False, meaning="A second text, for models of pairs."),
    )
    answer = (
        Field(name="classes", kind="text", many=True, meaning="The classes, the best first."),
        Field(name="scores", kind="float", many=True, meaning="Their scores, before a softmax."),
        Field(
            name="probabilities", kind="float", many=True, meaning="Their softmax; none of a single score."
        ),
    )

    @classmethod
    def answers(cls, signature: Signature, assets: Collection[str], generates: bool) -> bool:
        """Where there is a tokenizer and one output that scores classes."""
        names = {spec.name for spec in signature.inputs if spec.required}
        return FILE in assets and names <= {IDS, "attention_mask", TYPES} and len(_scores(signature)) == 1

    def __init__(self, folder: Path, model: Runner) -> None:
        self._model = model
        (self._scores,) = _scores(model.signature)
        self._inputs = {spec.name for spec in model.signature.inputs}
        self._longest = model.signature.largest.get(str(model.signature.input(IDS).dims[1]), LONGEST)
        with saved_files(folder, without=(WEIGHTS,)) as files:
            self._tokenizer = Tokenizer.from_content(
                files.read(f"{ASSETS}/{FILE}"), str(folder / ASSETS / FILE)
            )
            self._classes = _classes(files, int(self._scores.dims[1]))

    def labels(self) -> Mapping[str, Sequence[str]]:
        """The classes."""
        return {self._scores.name: self._classes}

    def example(self) -> Mapping[str, Any]:
        """A word, and where there are token types a pair."""
        return {"text": "yes"} | ({"pair": "no"} if TYPES in self._inputs else {})

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Score the classes."""
        pair = question.get("pair")
        if pair is not None and TYPES not in self._inputs:
            raise InputError(
                "input 'pair' is given, and the model has no token types to tell two texts apart"
            )
        if pair is None and self._scores.name == PAIRS:
            raise InputError("input 'pair' is missing: the model compares two texts; give the second one")
        row = self._tokenizer.encode(question["text"], pair, length=self._longest)
        ids, real = padded([row.ids], self._tokenizer.pad_id)
        feeds = {IDS: ids, "attention_mask": real, TYPES: np.array([row.types], np.int64)}
        name = self._scores.name
        found = self._model.run({k: v for k, v in feeds.items() if k in self._inputs}, [name])[name][0]
        order = np.argsort(-found, kind="stable")
        classes, scores = [self._classes[i] for i in order], found[order]
        say({"classes": classes, "scores": scores.tolist(), "probabilities": probabilities(scores)})


class Writes(Pipeline):
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
        """Where there is a tokenizer and a model that generates, from tokens alone."""
        required = {spec.name for spec in signature.inputs if spec.required}
        return generates and FILE in assets and required <= {IDS, DECODER, PREFIX}

    def __init__(self, folder: Path, model: Runner) -> None:
        self._model = model
        with saved_files(folder, without=(WEIGHTS,)):  # held against their digests
            self._writer = writer_of(
                model.signature.inputs, model.generate, folder / ASSETS / FILE, where=folder
            )

    def example(self) -> Mapping[str, Any]:
        """One token after one word."""
        return {"prompt": "once", "max_new": 1}

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Write the text, and say it after each token."""
        settings = dict(question)
        prompt, tokens = settings.pop("prompt"), list[int]()

        def said(new: Any) -> None:
            tokens.append(int(new[0]))
            ended = tokens[-1] == self._writer.tokenizer.sep_id
            say({"text": self._writer.follow(prompt, tokens), "token": tokens[-1], "ended": ended})

        telling = evolve(self._writer, generate=partial(self._model.generate, said=said))
        telling.write([prompt], **settings)


def _scores(signature: Signature) -> list[TensorSpec]:
    """The outputs that score classes [batch, n]."""
    return [
        spec
        for spec in signature.outputs
        if spec.name.endswith("_logits") and len(spec.dims) == 2 and isinstance(spec.dims[1], int)
    ]


def _classes(files: SavedFiles, count: int) -> list[str]:
    """The names of the classes; their numbers where no file names them."""
    for name in LABELS:
        if name not in files.assets:
            continue
        where, text = files.directory / ASSETS / name, files.text(f"{ASSETS}/{name}")
        try:
            table = parse_json(text) if name.endswith(".json") else {"labels": text.splitlines()}
            names = [str(each) for each in table.get("classes") or table["labels"]]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelFileError(
                f"{where} names no classes ({error}); restore it from where the model was trained"
            ) from error
        if len(names) == count:
            return names
        if len(names) > 1:
            raise ModelFileError(
                f"{where} names {len(names)} classes, and the model scores {count}; restore it from where the model "
                "was trained"
            )
    return [str(number) for number in range(count)]

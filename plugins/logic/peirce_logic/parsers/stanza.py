"""Stanza's sentences and constituents; it has models of other languages, too."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any

from peirce.errors import TaskError
from peirce_logic.detection.trees import Token, Tree, flat, tree_over
from peirce_logic.parsers.parser import Parsed, Parser


class Stanza(Parser):
    """Sentences, tokens and constituents of Stanza (Qi et al., 2020).

    Args:
        model: the language; `en` if None.

    Raises:
        TaskError: stanza or its model of the language is not installed.
    """

    name = "stanza"
    default = "en"
    needs = ("stanza",)

    def parse(self, text: str) -> Parsed:
        """The sentences of a text."""
        return Parsed(text, tuple(tree_of_sentence(each) for each in self._pipeline(text).sentences))

    @cached_property
    def _pipeline(self) -> Any:
        stanza = import_module("stanza")
        try:
            return stanza.Pipeline(
                self.model, processors="tokenize,mwt,pos,constituency", download_method=None, verbose=False
            )
        except (OSError, ValueError) as error:
            said = " ".join(str(error).split()).rstrip(".")
            raise TaskError(
                f"the parser 'stanza' needs its model of the language {self.model!r}, which is not installed: {said}; "
                f"run `python -c \"import stanza; stanza.download('{self.model}')\"`"
            ) from error


def tree_of_sentence(sentence: Any) -> Tree:
    """The tree of a sentence of Stanza.

    Args:
        sentence: a `stanza.models.common.doc.Sentence` with constituents. Words that one token stands for, such as
            those of "don't", have its characters where they have none of their own.
    """
    tokens = []
    for token in sentence.tokens:
        for word in token.words:
            own = word.start_char is not None
            start, end = (word.start_char, word.end_char) if own else (token.start_char, token.end_char)
            tokens.append(Token(word.text, start, end))
    if sentence.constituency is None:
        return flat(tokens)
    return tree_over(str(sentence.constituency), tokens, "stanza's tree")

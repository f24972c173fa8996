"""Parsers whose trees are not of their text, are no trees, or are others each time."""

from __future__ import annotations

import re
from itertools import count
from typing import ClassVar

from attrs import evolve
from peirce.errors import TaskError
from peirce_logic.detection.trees import Constituent, Token, Tree
from peirce_logic.parsers.parser import Parsed, Parser


class Halves(Parser):
    """Sentences end at full stops, words at spaces, and each sentence is a first word and the others."""

    name = "halves"

    def __init__(self, model: str | None = None) -> None:
        if model is not None:
            raise TaskError(f"the parser {self.name!r} has no model {model!r}; leave it out")
        super().__init__(model)

    def parse(self, text: str) -> Parsed:
        return Parsed(text, tuple(map(self.tree, self.sentences(text))))

    def sentences(self, text: str) -> list[list[Token]]:
        words = [Token(found[0], found.start(), found.end()) for found in re.finditer(r"\S+", text)]
        ends = [i + 1 for i, word in enumerate(words) if word.text.endswith(".")]
        return [
            words[start:stop]
            for start, stop in zip([0, *ends], [*ends, len(words)], strict=True)
            if start < stop
        ]

    def tree(self, tokens: list[Token]) -> Tree:
        n = len(tokens)
        rest = [Constituent("REST", 1, n, 1)] if n > 2 else []
        words = [Constituent("X", i, i + 1, 2 if rest and i else 1) for i in range(n)]
        return Tree(tokens, [Constituent("S", 0, n, 0), *words[:1], *rest, *words[1:]])


class LosesItsPlaces(Halves):
    """The characters are those of the words joined by spaces, whatever stood between them."""

    name = "loses-its-places"

    def sentences(self, text: str) -> list[list[Token]]:
        return [
            [Token(word.text, word.start + 1, word.end + 1) for word in words]
            for words in super().sentences(text)
        ]


class Crosses(Halves):
    """The last two words of a sentence are one constituent, and so are all but the last."""

    name = "crosses"

    def tree(self, tokens: list[Token]) -> Tree:
        tree, n = super().tree(tokens), len(tokens)
        wrong = Constituent("WRONG", 0, n - 1, 1)
        return (
            evolve(tree, constituents=(tree.constituents[0], wrong, *tree.constituents[1:]))
            if n > 2
            else tree
        )


class ForgetsSentences(Halves):
    """Every sentence counts its characters from its own beginning."""

    name = "forgets-sentences"

    def tree(self, tokens: list[Token]) -> Tree:
        start = tokens[0].start
        return super().tree([Token(text, a - start, b - start) for text, a, b in tokens])


class Tidies(Halves):
    """It strips the text first, and its characters are those of what is left."""

    name = "tidies"

    def parse(self, text: str) -> Parsed:
        return super().parse(" ".join(text.split()))


class Counts(Halves):
    """What it calls the constituents depends on how many it has made."""

    name = "counts"
    made: ClassVar = count()

    def tree(self, tokens: list[Token]) -> Tree:
        tree = super().tree(tokens)
        root = evolve(tree.constituents[0], label=f"S{next(self.made)}")
        return evolve(tree, constituents=(root, *tree.constituents[1:]))


class TakesAnyModel(Halves):
    """A model that is not there is not missed."""

    name = "takes-any-model"

    def __init__(self, model: str | None = None) -> None:
        super().__init__()


class Raises(Halves):
    """What is missing is a traceback."""

    name = "raises"

    def __init__(self, model: str | None = None) -> None:
        if model is not None:
            raise KeyError(model)
        super().__init__()


RIGHT = Halves
WRONG = {
    LosesItsPlaces: "parser_text",
    Crosses: "parser_text",
    ForgetsSentences: "parser_text",
    Tidies: "parser_text",
    Counts: "parser_text",
    TakesAnyModel: "parser",
    Raises: "parser",
}
"""The check that must reject each."""

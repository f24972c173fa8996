"""new-part: a parser of text for the commands and tasks of Peirce's logic.

$ echo "We stay, if it rains." | peirce logic detect --parser new-part
"""

import re

from peirce import InputError
from peirce_logic.detection.trees import Constituent, Token, Tree
from peirce_logic.parsers.parser import Parsed, Parser

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+|[^\w\s]")


class NewPart(Parser):
    """A sentence ends at `.`, `!` or `?`, a clause at `,`, `;` or `:`; a tree has sentence, clauses and tokens."""

    name = "new-part"

    def __init__(self, model: str | None = None) -> None:
        if model is not None:
            raise InputError(f"the parser 'new-part' has no model {model!r}; leave it out")
        super().__init__(model)

    def parse(self, text: str) -> Parsed:
        """The sentences of a text."""
        tokens = [Token(found[0], found.start(), found.end()) for found in _TOKEN.finditer(text)]
        return Parsed(text, tuple(map(_tree, _cut(tokens, ".!?"))))


def _cut(tokens: list[Token], ends: str) -> list[list[Token]]:
    """The tokens in pieces, each up to a token that is one of the ends."""
    pieces: list[list[Token]] = [[]]
    for token in tokens:
        pieces[-1].append(token)
        if token.text in ends:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _tree(sentence: list[Token]) -> Tree:
    found, start = [Constituent("S", 0, len(sentence), 0)], 0
    for clause in _cut(sentence, ",;:"):
        stop = start + len(clause)
        found.append(Constituent("CLAUSE", start, stop, 1))
        found += [Constituent("X", i, i + 1, 2) for i in range(start, stop)]
        start = stop
    return Tree(tuple(sentence), tuple(found))

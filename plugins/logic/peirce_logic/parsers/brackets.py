"""Ready trees in Penn brackets, in place of a text."""

from __future__ import annotations

from peirce.errors import InputError
from peirce_logic.detection.trees import Tree, read_brackets, tree_of
from peirce_logic.parsers.parser import Parsed, Parser


class Brackets(Parser):
    """Reads trees, `(S (NP (PRP I)) (VP (VBP run)))`; their text is their words, joined by spaces."""

    name = "brackets"
    reads_trees = True
    example = "(S (NP We) (VP stay (SBAR if (S (NP it) (VP rains))))) (S (NP They) (VP did n't (VP come)))"

    def __init__(self, model: str | None = None) -> None:
        if model is not None:
            raise InputError(f"the parser 'brackets' reads trees and has no model {model!r}; leave it out")
        super().__init__(model)

    def parse(self, text: str) -> Parsed:
        """The trees of a text in Penn brackets, each a sentence."""
        trees: list[Tree] = []
        offset = 0
        for nested in read_brackets(text):
            tree = tree_of(nested, offset)
            if tree is not None:
                trees.append(tree)
                offset = tree.tokens[-1].end + 1
        return Parsed(" ".join(token.text for tree in trees for token in tree.tokens), tuple(trees))

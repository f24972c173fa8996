"""Constituency trees over the tokens of a sentence, and the bracketing that treebanks write them in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from attrs import frozen

from peirce.errors import InputError, renamed

ROOTS = ("", "ROOT", "TOP")
"""Labels of the node that treebanks put around a sentence."""
DEEPEST = 500
"""The most levels of a tree that is read: no sentence comes near it."""
_ESCAPED = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"',
}  # fmt: skip
_PIECE = re.compile(r"[()]|[^()\s]+")


class Token(NamedTuple):
    """A token of a sentence: its text, and where it stands in the document's text, [start, end)."""

    text: str
    start: int
    end: int


@frozen
class Constituent:
    """A node of a tree: the tokens [start, stop), and how deep it lies; the root is at depth 0."""

    label: str
    start: int
    stop: int
    depth: int


@frozen
class Tree:
    """One sentence.

    Args:
        tokens: in their order.
        constituents: parents before children, children from left to right; the first is the whole sentence, and every
            token has one of its own, which holds it alone.
        parsed: whether a parser found the constituents; else the tree is flat.
    """

    tokens: tuple[Token, ...]
    constituents: tuple[Constituent, ...]
    parsed: bool = True

    @property
    def words(self) -> list[str]:
        """The tokens' texts."""
        return [token.text for token in self.tokens]

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The label of the innermost constituent of each token: its part of speech, where the tree has those."""
        innermost = {each.start: each.label for each in self.constituents if each.stop - each.start == 1}
        return tuple(innermost.get(i, "") for i in range(len(self.tokens)))

    def label(self, start: int, stop: int) -> str:
        """The label of the innermost constituent of these tokens and no others; empty where there is none."""
        return next((c.label for c in reversed(self.constituents) if (c.start, c.stop) == (start, stop)), "")

    def children(self, constituent: Constituent) -> list[Constituent]:
        """What lies right below a constituent, from left to right."""
        return [
            each
            for each in self.constituents
            if each.depth == constituent.depth + 1
            and constituent.start <= each.start
            and each.stop <= constituent.stop
        ]

    def around(self, start: int, stop: int) -> tuple[list[Constituent], int]:
        """The constituents around some tokens.

        Args:
            start: of the tokens. stop: one after the last.

        Returns:
            Those that hold more than these tokens, the smallest first, of several with the same tokens the innermost
            one; and the depth of the tokens: that of the highest constituent that holds just them, else one more than
            the first one's.

        Raises:
            ValueError: the tokens are the whole sentence.
        """
        # What holds a token holds what is below it: outermost first, each of these holds the next one.
        holding = [each for each in self.constituents if each.start <= start and stop <= each.stop]
        larger = {each.stop - each.start: each for each in holding if each.stop - each.start > stop - start}
        if not larger:
            raise ValueError("no constituent holds more than these tokens")
        holders = list(larger.values())[::-1]
        depth = next(
            (each.depth for each in holding if each.stop - each.start == stop - start), holders[0].depth + 1
        )
        return holders, depth


def flat_tree(tokens: Sequence[Token]) -> Tree:
    """The tree of a sentence that could not be parsed: every token is a child of the root."""
    leaves = [Constituent("X", i, i + 1, 1) for i in range(len(tokens))]
    return Tree(tuple(tokens), (Constituent("S", 0, len(tokens), 0), *leaves), parsed=False)


class Nested(NamedTuple):
    """A constituent as it is read: its label, and children that are such or words."""

    label: str
    children: list[Nested | str]


def read_brackets(text: str, source: str = "the text") -> Iterator[Nested]:
    """The trees of a text in Penn brackets, `(S (NP (PRP I)) (VP (VBP run)))`, one after the other.

    Args:
        text: whole trees; space and line breaks between brackets do not matter.
        source: what errors call it.

    Raises:
        InputError: brackets that do not match, a word outside of them, or a tree that is deeper than any sentence's.
    """
    stack: list[Nested] = []
    fresh, begun = False, 0

    def where(place: int) -> str:
        return f"{source}, line {text.count(chr(10), 0, place) + 1}"

    for piece in _PIECE.finditer(text):
        token = piece[0]
        if token == "(":
            begun = begun if stack else piece.start()
            stack.append(Nested("", []))
            fresh = True
            if len(stack) > DEEPEST:
                raise InputError(f"{where(piece.start())}: a tree has more than {DEEPEST} levels")
            continue
        if not stack:
            what = "closes nothing" if token == ")" else f"{token[:40]!r} is outside of a tree"
            raise InputError(f"{where(piece.start())}: {what}; trees look like (S (NP I) (VP run))")
        if token == ")":
            done = stack.pop()
            if stack:
                stack[-1].children.append(done)
            else:
                yield done
        elif fresh:
            stack[-1] = Nested(token, [])
        else:
            stack[-1].children.append(token)
        fresh = False
    if stack:
        raise InputError(
            f"{where(begun)}: the tree that begins here does not end: {len(stack)} bracket(s) are open; "
            "close them"
        )


def tree_of(nested: Nested, offset: int = 0, given: Sequence[Token] | None = None) -> Tree | None:
    """A tree of what was read. Its text is its words, joined by spaces.

    Traces of treebanks (`-NONE-`) are left out, and what holds nothing else; so are roots around the sentence.

    Args:
        nested: as `read_brackets` gives it.
        offset: where the sentence begins in the document's text.
        given: the tokens that the words stand for, in their order, where a parser was given them; the tree is flat
            where there are more or fewer words than tokens.

    Returns:
        The tree; None where it has no words.
    """
    while nested.label in ROOTS and len(nested.children) == 1 and isinstance(nested.children[0], Nested):
        nested = nested.children[0]
    tokens: list[Token] = []
    found: list[Constituent | None] = []

    def add(node: Nested, depth: int) -> bool:
        if node.label == "-NONE-":
            return False
        place, start = len(found), len(tokens)
        found.append(None)
        for child in node.children:
            if isinstance(child, Nested):
                add(child, depth + 1)
                continue
            word = _ESCAPED.get(child, child)
            begin = tokens[-1].end + 1 if tokens else offset
            tokens.append(Token(word, begin, begin + len(word)))
            if len(node.children) > 1:
                found.append(Constituent("X", len(tokens) - 1, len(tokens), depth + 1))
        if len(tokens) == start:
            del found[place:]
            return False
        found[place] = Constituent(node.label, start, len(tokens), depth)
        return True

    if not add(nested, 0):
        return None
    if given is not None and len(given) != len(tokens):
        return flat_tree(given)
    leaves = tuple(tokens if given is None else given)
    return Tree(leaves, tuple(each for each in found if each is not None))


def tree_over(printed: str, tokens: Sequence[Token], source: str) -> Tree:
    """The tree over given tokens that a parser printed in Penn brackets; a flat one where it cannot be read.

    Args:
        printed: one tree.
        tokens: what its words stand for, in their order.
        source: what printed it.
    """
    try:
        return tree_of(next(read_brackets(printed, source)), given=tokens) or flat_tree(tokens)
    except (InputError, StopIteration):
        return flat_tree(tokens)


def __getattr__(name: str) -> Any:
    """`flat_tree` by its older name."""
    if name != "flat":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    renamed(f"{__name__}.flat", "flat_tree", "2.0")
    return flat_tree

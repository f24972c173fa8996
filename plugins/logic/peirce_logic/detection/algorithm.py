"""Detection and mapping of logical relations: Algorithm 1 of Logical Transformers, on trees with character offsets."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from attrs import frozen

from peirce_logic.detection.lexicon import Keyword, Lexicon, Match
from peirce_logic.detection.trees import Constituent, Tree


class Span(NamedTuple):
    """Characters of a document's text, [start, end)."""

    start: int
    end: int


Spans = tuple[Span, ...]
"""One stretch of text, or two where something was taken out of the middle; empty where there is nothing."""
_BREAK = re.compile(r"[,;:\N{EN DASH}\N{EM DASH}-]+")
"""Punctuation that divides a sentence; a stretch neither begins nor ends with it."""
Choose = Callable[[Sequence[Tree], int, Match], Keyword | None]
"""Which sense a keyword has, None if it shows no relation: of the trees, the sentence's number, and the match."""


@frozen
class Relation:
    """A logical relation in a text; caches keep its fields in their order.

    Args:
        sentence: the number of the sentence in its document.
        relation: one of the twelve.
        keyword: the keyword, as the text has it.
        kind: `unary`, `intrinsic` or `extrinsic`.
        key: where the keyword stands.
        alpha: the only span, or the one that is left or outside.
        beta: the span that is right or inside; empty for a unary relation.
        depth: of the keyword in the tree, 0 at the root.
    """

    sentence: int
    relation: str
    keyword: str
    kind: str
    key: Span
    alpha: Spans
    beta: Spans
    depth: int


def default_sense(trees: Sequence[Tree], sentence: int, match: Match) -> Keyword:
    """The most frequent sense, as the lexicon orders them."""
    return match.senses[0]


def detect(trees: Sequence[Tree], lexicon: Lexicon, choose: Choose = default_sense) -> list[Relation]:
    """The logical relations of a document, in the order of their keywords.

    A keyword is a constituent whose text is in the lexicon; of a chain of constituents with the same text the highest
    one counts. A phrase that is not a constituent, such as "as long as" in most parses, counts as a child of the
    smallest constituent around it.

    In two things the spans are not Algorithm 1's. A conjunction between the members of a coordination joins them, as in
    "It was cold, but he came", though it is extrinsic: to the algorithm alpha is the sentence before. And no stretch
    begins or ends with a comma or the like, or is punctuation alone.

    Args:
        trees: the sentences of one document, in their order.
        lexicon: the keywords.
        choose: the sense of a keyword, None where it shows no relation.

    Returns:
        The relations. A keyword that is a whole sentence has no spans.
    """
    found = []
    for number, tree in enumerate(trees):
        before = trees[number - 1] if number else None
        for match in lexicon.matches(tree.words):
            sense = choose(trees, number, match)
            if sense is None:
                continue
            alpha, beta, depth = _map_keyword(tree, before, match, sense)
            tokens = tree.tokens[match.start : match.stop]
            found.append(
                Relation(
                    sentence=number,
                    relation=sense.relation,
                    keyword=" ".join(token.text for token in tokens),
                    kind=sense.kind,
                    key=Span(tokens[0].start, tokens[-1].end),
                    alpha=alpha,
                    beta=beta,
                    depth=depth,
                )
            )
    return found


def _map_keyword(tree: Tree, before: Tree | None, match: Match, sense: Keyword) -> tuple[Spans, Spans, int]:
    """The spans of a keyword: lines 9 to 21 of Algorithm 1."""
    start, stop = match.start, match.stop
    previous = () if before is None else _spans(before, [(0, len(before.tokens))])
    if stop - start == len(tree.tokens):
        return previous if sense.kind == "extrinsic" else (), (), 0
    parent, above, depth = tree.around(start, stop)
    rest = _without(tree, parent, start, stop)
    if sense.kind == "unary":
        return rest, (), depth
    between = tree.label(start, stop) == "CC" and _spans(tree, [(parent.start, start)])
    if sense.kind == "intrinsic" or between:
        return _spans(tree, [(parent.start, start)]), _spans(tree, [(stop, parent.stop)]), depth
    outside = previous if above is None else _without(tree, above, parent.start, parent.stop)
    return outside, rest, depth


def _without(tree: Tree, whole: Constituent, start: int, stop: int) -> Spans:
    """The tokens of a constituent but for [start, stop)."""
    return _spans(tree, [(whole.start, start), (stop, whole.stop)])


def _spans(tree: Tree, ranges: Sequence[tuple[int, int]]) -> Spans:
    found, tokens = [], tree.tokens
    for start, stop in ranges:
        while start < stop and _BREAK.fullmatch(tokens[start].text):
            start += 1
        while start < stop and _BREAK.fullmatch(tokens[stop - 1].text):
            stop -= 1
        if any(map(str.isalnum, "".join(token.text for token in tokens[start:stop]))):
            found.append(Span(tokens[start].start, tokens[stop - 1].end))
    return tuple(found)

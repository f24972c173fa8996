"""Detection and mapping of logical relations: Algorithm 1 of Logical Transformers, on trees with character offsets."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
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
_BREAK = re.compile(r"[,;:/\N{EN DASH}\N{EM DASH}-]+")
"""Punctuation that divides a sentence; a stretch neither begins nor ends with it."""
_PARTS = frozenset({";", ":", "-", "--", "\N{EN DASH}", "\N{EM DASH}"})
"""What divides a sentence into parts of which the next may begin with an adverb: "it rained; however, he came"."""
_WITHIN_CLAUSES = ("VP", "ADJP", "ADVP", "PP", "X")
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

    In four things the spans are not Algorithm 1's, all by the labels of constituents. A conjunction between the members
    of a coordination joins them, as in "It was cold, but he came", though it is extrinsic: to the algorithm alpha is
    the sentence before. An adverb speaks of its clause, with what that is joined to or the sentence before. Of several
    phrases that a conjunction joins, each speaks of what is around all of them. And no stretch begins or ends with a
    conjunction, a comma or the like, or is punctuation alone.

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
        matches = lexicon.matches(tree.words)
        links = _links(tree, matches)
        for match in matches:
            sense = choose(trees, number, match)
            if sense is None:
                continue
            alpha, beta, depth = _map_keyword(tree, before, match, sense, links)
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


def _map_keyword(
    tree: Tree, before: Tree | None, match: Match, sense: Keyword, links: Container[int]
) -> tuple[Spans, Spans, int]:
    """The spans of a keyword: lines 9 to 21 of Algorithm 1."""
    start, stop = match.start, match.stop
    previous = () if before is None else _spans(before, [(0, len(before.tokens))])
    if stop - start == len(tree.tokens):
        return previous if sense.kind == "extrinsic" else (), (), 0
    holders, depth = tree.around(start, stop)
    adverb = is_adverb(tree, match, sense, holders[0])
    if adverb:
        holders = _clause(tree, holders)
    parent, above = holders[0], holders[1] if len(holders) > 1 else None
    if (
        sense.kind == "unary"
        and above is not None
        and parent.label == "ADVP"
        and "RBR" in tree.tags[stop : stop + 1]
    ):
        return (
            _without(tree, above, parent.start, parent.stop),
            (),
            depth,
        )  # "no longer" denies what it stands beside
    if sense.kind == "unary":
        return _without(tree, parent, start, stop), (), depth
    left = _spans(tree, [(parent.start, start)], links)
    if sense.kind == "intrinsic" or (tree.label(start, stop) == "CC" and left):
        # What stands first of a pair, as "either", joins what the conjunction after it joins.
        other = next((i for i in _conjunctions(tree, parent) if i >= stop), None) if not left else None
        if sense.kind == "intrinsic" and other is not None:
            return _spans(tree, [(stop, other)]), _spans(tree, [(other + 1, parent.stop)]), depth
        return left, _spans(tree, [(stop, parent.stop)]), depth
    if adverb:
        parts = [i for i in range(parent.start, start) if tree.tokens[i].text in _PARTS]
        joined = [*(i for i in _conjunctions(tree, parent) if i == start - 1), *parts][:1]
        if joined and tree.around(joined[0], joined[0] + 1)[0][0] == parent:
            inside = [(joined[0] + 1, start), (stop, parent.stop)]
            return _spans(tree, [(parent.start, joined[0])], links), _spans(tree, inside), depth
        member = above is not None and _conjunctions(tree, above)
        outside = _spans(tree, [(above.start, parent.start)], links) if above is not None and member else ()
        return outside or previous, _without(tree, parent, start, stop), depth
    inner = parent
    if above is not None and parent.label in ("SBAR", "PP") and _conjunctions(tree, above):
        alike = [each for each in tree.children(above) if each.label == parent.label]
        # Of several such phrases that a conjunction joins, each speaks of what is around all of them.
        inner, above = (
            (above, holders[2] if len(holders) > 2 else None) if len(alike) > 1 else (parent, above)
        )
    outside = previous if above is None else _without(tree, above, inner.start, inner.stop, links)
    return outside, _without(tree, parent, start, stop), depth


def is_adverb(tree: Tree, match: Match, sense: Keyword, parent: Constituent) -> bool:
    """Whether a keyword is an adverb of a clause, as "then" and "in addition" are: it governs and denies nothing."""
    label = tree.label(match.start, match.stop)
    governs = parent.label in ("PP", "SBAR") or sense.kind == "intrinsic" or sense.relation == "negation"
    return label.startswith(("RB", "ADVP", "PP")) and not governs


def _clause(tree: Tree, holders: list[Constituent]) -> list[Constituent]:
    """Of what is around an adverb, that from its clause on: the sentence, or the member of a coordination."""
    while len(holders) > 1 and holders[0].label in _WITHIN_CLAUSES and not _conjunctions(tree, holders[0]):
        if _conjunctions(tree, holders[1]) or holders[1].label not in (*_WITHIN_CLAUSES, "S", "SQ", "SINV"):
            break
        holders = holders[1:]
    return holders


def _conjunctions(tree: Tree, constituent: Constituent) -> list[int]:
    """The tokens that join the members of a coordination; none where a constituent is no coordination."""
    return [
        each.start
        for each in tree.children(constituent)
        if each.label == "CC" and each.stop - each.start == 1 and each.start > constituent.start
    ]


def _links(tree: Tree, matches: Sequence[Match]) -> frozenset[int]:
    """The tokens that join clauses to others; what is outside of a clause neither begins nor ends with them."""
    adverbs = [
        m
        for m in matches
        if m.stop - m.start < len(tree.tokens)
        and is_adverb(tree, m, m.senses[0], tree.around(m.start, m.stop)[0][0])
    ]
    return frozenset(i for match in adverbs for i in range(match.start, match.stop))


def _without(tree: Tree, whole: Constituent, start: int, stop: int, links: Container[int] = ()) -> Spans:
    """The tokens of a constituent but for [start, stop)."""
    return _spans(tree, [(whole.start, start), (stop, whole.stop)], links)


def _spans(tree: Tree, ranges: Sequence[tuple[int, int]], links: Container[int] = ()) -> Spans:
    """Ranges of tokens as stretches of text, without conjunctions, `links` and the like at their edges."""
    found, tokens = [], tree.tokens

    def is_edge(i: int) -> bool:
        return tree.tags[i] == "CC" or i in links or _BREAK.fullmatch(tokens[i].text) is not None

    for start, stop in ranges:
        while start < stop and is_edge(start):
            start += 1
        while start < stop and is_edge(stop - 1):
            stop -= 1
        if any(map(str.isalnum, "".join(token.text for token in tokens[start:stop]))):
            found.append(Span(tokens[start].start, tokens[stop - 1].end))
    return tuple(found)

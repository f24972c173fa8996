"""The sense of a keyword by the tree around it: what `as`, `since`, `while` and `in` show, and where they show none.

A rule reads the labels of constituents, as Penn's treebank and the parsers give them: of a word its part of speech, of
a phrase its kind. Where a tree has none, the most frequent sense stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from peirce_logic.detection.algorithm import default_sense
from peirce_logic.detection.lexicon import Keyword, Match
from peirce_logic.detection.trees import Constituent, Tree

TIMES = frozenset({
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "jan.", "feb.", "mar.", "apr.", "aug.", "sept.", "oct.", "nov.", "dec.", "monday", "tuesday",
    "wednesday", "thursday", "friday", "saturday", "sunday", "yesterday", "today", "day", "week", "month", "quarter",
    "year", "decade", "century", "season", "time",
})  # fmt: skip
"""Words that name a time. A clause with "when" behind a comma belongs to one: "until last November, when"."""
STRETCHES = frozenset({"era", "period", "age", "stage"})
"""Words that name a stretch of time. One belongs to these without a comma as well: "an era when"."""
MORE_TIMES = frozenset({
    "second", "minute", "hour", "night", "morning", "afternoon", "evening", "moment", "instant", "spring", "summer",
    "autumn", "fall", "winter", "past", "future", "centuries",
})  # fmt: skip
"""What "in" names a time by beside those."""
NO_RELATION = "none"
"""What a rule gives for a keyword that shows no relation there."""
MEASURED = frozenset({"as", "so", "such", "same"})
NEAR = 4
"""Within so many words "as" answers one of those: "as tall as", "so soon as", "the same man as"."""
_STATES = frozenset({"am", "is", "are", "was", "were", "has", "have", "had"})
_AUXILIARIES = _STATES | {"been", "be", "do", "does", "did", "done"}
_PERFECT = frozenset({"have", "has", "had", "'ve", "\N{RIGHT SINGLE QUOTATION MARK}ve"})
_ENDS = frozenset({"IN", "WDT", "WRB", "WP", "VBN", "VBG", "TO", ",", ":", "-LRB-"})
"""Parts of speech that a noun phrase after "in" ends at."""


def sense_by_tree(trees: Sequence[Tree], sentence: int, match: Match) -> Keyword | None:
    """The sense of a keyword as `detect` asks for it; None where it shows no relation.

    "as" shows none before a noun phrase, in "as tall as he is", and before a clause that ends in an auxiliary, such as
    "as I have". It shows a cause before a clause whose first verb is a "be" or "have" that helps no other: "as I was
    ill". The noun "while" shows none, and "in" none unless a time follows. Before a clause "since" shows a
    cause, unless a perfect stands outside of it: "has slept since it rained". Else the most frequent sense stands.
    """
    usual, tree = default_sense(trees, sentence, match), trees[sentence]
    rule = _RULES.get(str(usual))
    if rule is None or not tree.parsed or match.stop == len(tree.tokens):
        return usual
    relation = rule(tree, match, tree.around(match.start, match.stop)[0])
    return (
        None if relation == NO_RELATION else next((s for s in match.senses if s.relation == relation), usual)
    )


def is_time(word: str) -> bool:
    """Whether a noun, perhaps a plural, names a time, or a number a year."""
    plain, known = word.lower(), TIMES | STRETCHES | MORE_TIMES
    year = plain.strip("s'\N{RIGHT SINGLE QUOTATION MARK}")
    return plain in known or plain.removesuffix("s") in known or (year.isdigit() and len(year) == 4)


def _as(tree: Tree, match: Match, parent: Constituent) -> str:
    before = (token.text.lower() for token in tree.tokens[max(0, match.start - NEAR) : match.start])
    last = next((i for i in range(parent.stop - 1, match.start, -1) if tree.tokens[i].text[-1].isalnum()), 0)
    gap = tree.label(last, last + 1) in ("MD", "TO") or tree.tokens[last].text.lower() in _AUXILIARIES
    measured = tree.label(match.start, match.stop).startswith("RB") or not MEASURED.isdisjoint(before)
    if not parent.label.startswith("S") or gap or measured:
        return NO_RELATION
    verbs = [i for i in range(match.stop, parent.stop) if tree.label(i, i + 1)[:2] in ("VB", "MD")]
    state = any(tree.tokens[i].text.lower() in _STATES for i in verbs[:1])
    return "causal" if state and not any(tree.label(i, i + 1) in ("VBG", "VBN") for i in verbs[1:2]) else ""


def _since(tree: Tree, match: Match, parent: Constituent) -> str:
    outside = {t.text.lower() for t in (*tree.tokens[: parent.start], *tree.tokens[parent.stop :])}
    return "causal" if parent.label.startswith("S") and _PERFECT.isdisjoint(outside) else "temporal"


def _while(tree: Tree, match: Match, parent: Constituent) -> str:
    return NO_RELATION if tree.label(match.start, match.stop).startswith("NN") else ""


def _in(tree: Tree, match: Match, parent: Constituent) -> str:
    phrase = range(match.stop, parent.stop)
    stop = next((i for i in phrase if tree.label(i, i + 1) in _ENDS), parent.stop)
    return "" if any(is_time(token.text) for token in tree.tokens[match.stop : stop]) else NO_RELATION


_RULES: Mapping[str, Callable[[Tree, Match, Constituent], str]] = {
    "as": _as, "since": _since, "while": _while, "in": _in,
}  # fmt: skip

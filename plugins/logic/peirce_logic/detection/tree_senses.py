"""The sense of a keyword by the tree around it: which relation it shows, and where it shows none.

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
_BE = frozenset({"is", "are", "was", "were", "been"})
_AUXILIARIES = _STATES | {"been", "be", "do", "does", "did", "done"}
_PERFECT = frozenset({"have", "has", "had", "'ve", "\N{RIGHT SINGLE QUOTATION MARK}ve"})
_ENDS = frozenset({"IN", "WDT", "WRB", "WP", "VBN", "VBG", "TO", ",", ":", "-LRB-"})
"""Parts of speech that a noun phrase after "in" ends at."""
_PRESENT = frozenset({"VBZ", "VBP", "MD"})
_NOMINAL = ("NN", "PRP", "DT", "WP", "CD")
_CALLED = frozenset({
    "say", "know", "see", "note", "explain", "describe", "mention", "hope", "expect", "think", "believe", "suppose",
    "understand", "call", "wish", "like", "please", "fear", "suggest", "promise", "propose", "show", "discuss", "state",
    "remember", "imagine", "predict", "point", "direct", "use", "find",
})  # fmt: skip
"""Verbs that what "as" stands beside completes: "as you know", "as it was called". Without an object of theirs, "as"
shows no relation."""
_NAMED = 2
"""How many words before a noun may say which one is meant, as in "a long face like his"."""
_CORRELATES = frozenset(
    {"if", "when", "whenever", "unless", "because", "since", "as", "once", "provided", "while"}
)
"""What "then" answers at the beginning of the clause after it."""


def sense_by_tree(trees: Sequence[Tree], sentence: int, match: Match) -> Keyword | None:
    """The sense of a keyword as `detect` asks for it; None where it shows no relation.

    A part of a compound shows none, as in "no-one". The other rules stand below, each with its words.
    """
    usual, tree = default_sense(trees, sentence, match), trees[sentence]
    if _is_compound(tree, match):
        return None
    rule = _RULES.get(str(usual))
    if rule is None or not tree.parsed or match.stop - match.start == len(tree.tokens):
        return usual
    relation = rule(tree, match, tree.around(match.start, match.stop)[0][0])
    return (
        None if relation == NO_RELATION else next((s for s in match.senses if s.relation == relation), usual)
    )


def is_time(word: str) -> bool:
    """Whether a noun, perhaps a plural, names a time, or a number a year."""
    plain, known = word.lower(), TIMES | STRETCHES | MORE_TIMES
    year = plain.strip("s'\N{RIGHT SINGLE QUOTATION MARK}")
    return plain in known or plain.removesuffix("s") in known or (year.isdigit() and len(year) == 4)


def _is_compound(tree: Tree, match: Match) -> bool:
    """Whether a hyphen ties the keyword to a word beside it, without a space."""
    pieces = tree.tokens[max(0, match.start - 2) : match.start], tree.tokens[match.stop : match.stop + 2]
    key = tree.tokens[match.start], tree.tokens[match.stop - 1]
    before = len(pieces[0]) == 2 and pieces[0][1].text == "-" and pieces[0][0].end == pieces[0][1].start
    after = len(pieces[1]) == 2 and pieces[1][0].text == "-" and pieces[1][0].end == pieces[1][1].start
    return (before and pieces[0][1].end == key[0].start) or (after and key[1].end == pieces[1][0].start)


def _word(tree: Tree, place: int) -> str:
    """The word at a place, in lower case; empty beyond the sentence."""
    return tree.tokens[place].text.lower() if 0 <= place < len(tree.tokens) else ""


def _tag(tree: Tree, place: int) -> str:
    """The part of speech at a place; empty beyond the sentence."""
    return tree.tags[place] if 0 <= place < len(tree.tokens) else ""


def _verbs(tree: Tree, start: int, stop: int) -> list[int]:
    return [i for i in range(start, stop) if tree.tags[i][:2] in ("VB", "MD")]


def _lemma(word: str) -> set[str]:
    """What a verb's form may come from."""
    return {word, *(word.removesuffix(end) for end in ("s", "d", "ed", "n")), _PAST.get(word, word)}


_PAST = {
    "said": "say", "knew": "know", "known": "know", "saw": "see", "thought": "think", "understood": "understand",
    "found": "find",
}  # fmt: skip


def _as(tree: Tree, match: Match, parent: Constituent) -> str:
    """None before a phrase, and before a clause that the rest completes: "as a man", "as I do", "as you know".

    A cause before a state, a negation or what must or can be; else a time.
    """
    before = (token.text.lower() for token in tree.tokens[max(0, match.start - NEAR) : match.start])
    last = next((i for i in range(parent.stop - 1, match.start, -1) if tree.tokens[i].text[-1].isalnum()), 0)
    gap = tree.tags[last] in ("MD", "TO") or _word(tree, last) in _AUXILIARIES
    measured = tree.tags[match.start].startswith("RB") or not MEASURED.isdisjoint(before)
    verbs = _verbs(tree, match.stop, parent.stop)
    if not parent.label.startswith("S") or gap or measured or verbs[:1] == [match.stop]:
        return NO_RELATION
    # The last verb of the clause's first chain, as "explained" in "as I have already explained".
    chain = verbs[:1]
    for i in verbs[1:]:
        if all(tree.tags[j].startswith("RB") or j in verbs for j in range(chain[-1] + 1, i)):
            chain.append(i)
    if not chain:
        return ""
    passive = tree.tags[chain[-1]] == "VBN" and _word(tree, chain[-2]) in _BE if len(chain) > 1 else False
    completes = not any(tag.startswith(_NOMINAL) for tag in tree.tags[chain[-1] + 1 : chain[-1] + 2])
    if not _CALLED.isdisjoint(_lemma(_word(tree, chain[-1]))) and (completes or passive):
        return NO_RELATION
    first, second = tree.tokens[chain[0]].text.lower(), [tree.tags[i] for i in chain[1:2]]
    negated = any(_word(tree, i) in ("not", "n't", "no", "never") for i in range(match.stop, parent.stop))
    state = first in _STATES and not second
    perfect = first in _PERFECT and second == ["VBN"]
    return "causal" if state or perfect or negated or tree.tags[chain[0]] == "MD" else ""


def _since(tree: Tree, match: Match, parent: Constituent) -> str:
    """A cause before a clause in the present, or where no perfect stands outside of it; else a time."""
    if not parent.label.startswith("S"):
        return "temporal"
    outside = {t.text.lower() for t in (*tree.tokens[: parent.start], *tree.tokens[parent.stop :])}
    present = [tree.tags[i] in _PRESENT for i in _verbs(tree, match.stop, parent.stop)]
    return "causal" if any(present[:1]) or _PERFECT.isdisjoint(outside) else "temporal"


def _while(tree: Tree, match: Match, parent: Constituent) -> str:
    """None as a noun. A comparison at the beginning or behind a comma, before a state or the present; else a time."""
    if tree.tags[match.start].startswith("NN"):
        return NO_RELATION
    verbs = [i for i in _verbs(tree, match.stop, parent.stop) if tree.tags[i] not in ("VBG", "VB", "VBN")]
    apart = match.start == 0 or _word(tree, match.start - 1) in (",", ";")
    if not verbs or not apart or not parent.label.startswith("S"):
        return ""
    helped = _tag(tree, verbs[0] + 1) in ("VBG", "VBN")
    state = tree.tags[verbs[0]] in _PRESENT or _word(tree, verbs[0]) in _STATES
    return "comparative" if state and not helped else ""


def _in(tree: Tree, match: Match, parent: Constituent) -> str:
    """A time where its noun phrase names one, else none: "in May", "in a casino"."""
    phrase = range(match.stop, parent.stop)
    stop = next((i for i in phrase if tree.tags[i] in _ENDS), parent.stop)
    times = any(is_time(token.text) for token in tree.tokens[match.stop : stop])
    return "" if times or match.stop == len(tree.tokens) else NO_RELATION


def _then(tree: Tree, match: Match, parent: Constituent) -> str:
    """None where it answers a clause before it, "if it rains, then", or stands for a time: "since then"."""
    if _tag(tree, match.start - 1) == "IN" and _word(tree, match.start - 1) not in _CORRELATES - {"since"}:
        return NO_RELATION
    end = match.start - (_word(tree, match.start - 1) == ",")
    answers = any(
        each.stop == end
        and _word(tree, each.start + (_word(tree, each.start) in ("even", "only", "just"))) in _CORRELATES
        for each in tree.constituents
        if each.stop - each.start > 1
    )
    return NO_RELATION if answers else ""


def _like(tree: Tree, match: Match, parent: Constituent) -> str:
    """Of several or of a substance it gives examples: "formats like this", "software like that"; else it shows none."""
    noun = match.start - 1 - (_word(tree, match.start - 1) == ",")
    tag = _tag(tree, noun)
    named = any(_tag(tree, i) in ("DT", "PRP$", "VBG", "IN") for i in range(noun - _NAMED, noun + 1))
    many = tag in ("NNS", "NNPS", "NP", "X") or (tag == "NN" and not named)
    return "" if many and not tree.tags[match.start].startswith("VB") else NO_RELATION


def _no(tree: Tree, match: Match, parent: Constituent) -> str:
    """None as an answer, and before a number: "No, thanks", "No. 5"."""
    numbered = _word(tree, match.stop) == "." and _word(tree, match.stop + 1)[:1].isdigit()
    answer = tree.tags[match.start] == "UH" or _word(tree, match.stop) in (",", ".", "!", "-", "\N{EM DASH}")
    return NO_RELATION if numbered or answer else ""


def _but(tree: Tree, match: Match, parent: Constituent) -> str:
    """None for "except": "all but one"."""
    word, tag = _word(tree, match.start - 1), _tag(tree, match.start - 1)
    excepts = word.endswith(("thing", "body", "none", "one")) or (tag in ("DT", "PDT") and word != "the")
    return NO_RELATION if tree.tags[match.start] in ("IN", "RB") or (excepts and match.start) else ""


def _yet(tree: Tree, match: Match, parent: Constituent) -> str:
    """A comparison where it joins or begins a clause; else none: "not yet", "yet another", "have yet to"."""
    begins = not any(map(str.isalnum, _word(tree, match.start - 1))) or _tag(tree, match.start - 1) == "CC"
    joins = tree.tags[match.start] == "CC"
    follows = any(map(str.isalnum, _word(tree, match.stop)))
    return (
        ""
        if (joins or begins) and follows and _word(tree, match.stop) not in ("another", "again")
        else NO_RELATION
    )


def _before_a_quality(tree: Tree, match: Match, parent: Constituent) -> str:
    """None where it says how much: "just as tall", "as long as possible", "however hard", "similarly sized"."""
    return (
        NO_RELATION if _tag(tree, match.stop)[:2] in ("JJ", "RB") or _tag(tree, match.stop) == "VBN" else ""
    )


def _with_clause(tree: Tree, match: Match, parent: Constituent) -> str:
    """None where nothing follows within the phrase: "many times before", "the day after", "after all"."""
    rest = [i for i in range(match.stop, parent.stop) if any(map(str.isalnum, tree.tokens[i].text))]
    return "" if rest and [_word(tree, i) for i in rest] != ["all"] else NO_RELATION


def _apart(tree: Tree, match: Match, parent: Constituent) -> str:
    """Of a phrase that may stand within a clause as well, none there: "use several at the same time"."""
    edge = match.start == 0 or _word(tree, match.start - 1) in (",", ";", "-", "and", "but", "(")
    return "" if edge else NO_RELATION


def _such_as(tree: Tree, match: Match, parent: Constituent) -> str:
    """None before a clause: "such as I had seen"."""
    return NO_RELATION if tree.tags[match.stop - 1 : match.stop + 1][1:] == ("PRP",) else ""


def _thanks_to(tree: Tree, match: Match, parent: Constituent) -> str:
    """None for thanks that are given: "special thanks to Ann"."""
    given = _tag(tree, match.start - 1)[:2] in ("JJ", "DT", "PR", "VB", "NN")
    outside = _verbs(tree, 0, parent.start) + _verbs(tree, parent.stop, len(tree.tokens))
    return NO_RELATION if given or not outside else ""


def _due_to(tree: Tree, match: Match, parent: Constituent) -> str:
    """None before a verb: "due to arrive"."""
    return NO_RELATION if _tag(tree, match.stop) == "VB" else ""


def _of_alternatives(tree: Tree, match: Match, parent: Constituent) -> str:
    """None for "whether or not", and where "not" stands for a clause: "if not", "or not"."""
    or_place = match.start - (_word(tree, match.start) == "not")
    pair = _word(tree, or_place) == "or" and _word(tree, or_place + 1) == "not"
    ends = not any(map(str.isalnum, _word(tree, or_place + 2)))
    alone = {tree.tags[i] for i in range(parent.start, parent.stop) if i != match.start} <= {
        "IN",
        "CC",
        "WRB",
        ",",
    }
    within = pair and (ends or _word(tree, or_place - 1) == "whether")
    return NO_RELATION if within or alone else ""


def _either(tree: Tree, match: Match, parent: Constituent) -> str:
    """None without an "or": "either way"."""
    return (
        "" if "or" in (token.text.lower() for token in tree.tokens[match.stop : parent.stop]) else NO_RELATION
    )


def _otherwise(tree: Tree, match: Match, parent: Constituent) -> str:
    """None for "in another way" or "else": "otherwise stated", "but otherwise all was still"."""
    tag = _tag(tree, match.stop)
    other = tag in ("VBN", "VBD", "JJ") or _word(tree, match.start - 1) in ("but", "unless", "not")
    return NO_RELATION if other else ""


def _when(tree: Tree, match: Match, parent: Constituent) -> str:
    """None where it asks: "When did he come?"."""
    asks = _word(tree, len(tree.tokens) - 1) == "?" and match.start == 0
    verb = _tag(tree, match.stop)[:2] in ("VB", "MD") and _tag(tree, match.stop) not in ("VBG", "VBN")
    return NO_RELATION if asks and verb else _with_clause(tree, match, parent)


def _conjoined_clause(tree: Tree, match: Match, parent: Constituent) -> str:
    """None as an adverb or a participle: "once a week", "the tools provided"."""
    clause = parent.label.startswith("S") and parent.start == match.start
    return "" if clause and _verbs(tree, match.stop, parent.stop) else NO_RELATION


_RULES: Mapping[str, Callable[[Tree, Match, Constituent], str]] = {
    "as": _as, "since": _since, "while": _while, "in": _in, "then": _then, "like": _like, "no": _no, "but": _but,
    "yet": _yet, "such as": _such_as, "thanks to": _thanks_to, "due to": _due_to, "otherwise": _otherwise,
    "when": _when, "either": _either, "or": _of_alternatives, "not": _of_alternatives,
    **dict.fromkeys(("just as", "as long as", "as soon as", "however", "similarly", "likewise"), _before_a_quality),
    **dict.fromkeys(("before", "after", "during", "until", "if", "because"), _with_clause),
    **dict.fromkeys(("once", "provided"), _conjoined_clause),
    "at the same time": _apart,
}  # fmt: skip

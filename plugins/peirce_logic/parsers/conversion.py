"""Constituents from a dependency parse, in the shape that Penn's treebank gives to clauses and phrases.

A dependency parse says which word depends on which, and how. What the constituents around a logical keyword need of
it is: a clause is its subject and its verb phrase; what stands before the subject, or between it and the verb, belongs
to the clause; each auxiliary opens a verb phrase around the rest; a subordinate clause is its conjunction and a clause;
a noun with modifiers after it is a noun phrase and those; a coordination is a constituent around its members.

The labels of dependencies are those of spaCy's English models (ClearNLP's).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attrs import evolve, frozen

from peirce_logic.detection.trees import Constituent, Token, Tree, flat

SUBJECTS = frozenset({"nsubj", "nsubjpass", "csubj", "csubjpass", "expl"})
AUXILIARIES = frozenset({"aux", "auxpass"})
SUBORDINATE = frozenset({"advcl", "ccomp", "relcl", "acl", "pcomp", "csubj", "csubjpass", "xcomp"})
WH = frozenset({"WRB", "WDT", "WP", "WP$"})
NOUNS = frozenset({"NOUN", "PROPN", "PRON", "NUM"})
FINITE = frozenset({"VBP", "VBZ", "MD"})
VERBS = frozenset({"VERB", "AUX"})
NOUN_MODIFIERS = frozenset({"prep", "relcl", "acl", "appos", "advcl", "ccomp", "xcomp"})
INSIDE_NOUNS = frozenset({"compound", "nummod", "nmod", "amod"})
ADJUNCTS = frozenset({"prep", "advcl", "npadvmod"})
TIMES = frozenset({
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "jan.", "feb.", "mar.", "apr.", "aug.", "sept.", "oct.", "nov.", "dec.", "monday", "tuesday",
    "wednesday", "thursday", "friday", "saturday", "sunday", "yesterday", "today", "day", "week", "month", "quarter",
    "year", "decade", "century", "season", "time",
})  # fmt: skip
"""What a clause with "when" behind a comma belongs to: "until last November, when"."""
STRETCHES = frozenset({"era", "period", "age", "stage"})
"""What one belongs to without a comma as well: "an era when"."""


@frozen(kw_only=True)
class Word:
    """A token of a dependency parse.

    Args:
        token: its text and place.
        head: the number of the word that it depends on; its own for the root.
        relation: to its head, as spaCy names it.
        tag: Penn's part of speech. pos: the universal one.
    """

    token: Token
    head: int
    relation: str
    tag: str
    pos: str


class _Node(NamedTuple):
    """A constituent that is being made; a child that is a number is a word."""

    label: str
    children: Sequence[_Node | int]


def tree_of_words(words: Sequence[Word]) -> Tree:
    """The tree of a sentence; a flat one where it has not one root, a phrase would have holes, or it nests too deep."""
    tokens = [word.token for word in words]
    roots = [i for i, word in enumerate(words) if word.head == i]
    if len(roots) != 1:
        return flat(tokens)
    try:
        return _converted(lifted(relative(words)), roots[0]) or flat(tokens)
    except RecursionError:
        return flat(tokens)


def _converted(words: Sequence[Word], top: int) -> Tree | None:
    root = _Conversion(words).whole(top)
    found: list[Constituent] = []
    order: list[int] = []

    def add(node: _Node | int, depth: int) -> None:
        if isinstance(node, int):
            order.append(node)
            found.append(Constituent(words[node].tag, len(order) - 1, len(order), depth))
            return
        place, start = len(found), len(order)
        found.append(Constituent(node.label, start, start, depth))
        for child in node.children:
            add(child, depth + 1)
        found[place] = Constituent(node.label, start, len(order), depth)

    add(root, 0)
    if order != list(range(len(words))):
        return None
    return Tree(tuple(word.token for word in words), tuple(found))


def relative(words: Sequence[Word]) -> Sequence[Word]:
    """Words of which a clause with "when" or "where" right behind a time or a place depends on that.

    Parsers often let it depend on the verb, as they should where it says when that happens: "It fell when they sold".
    """
    found = list(words)

    def below(word: int, head: int) -> bool:
        while word != head and found[word].head != word:
            word = found[word].head
        return word == head

    for i in range(1, len(found)):
        text, clause = found[i].token.text, found[i].head
        if text not in ("when", "where") or found[clause].relation not in ("advcl", "ccomp"):
            continue
        comma = found[i - 1].token.text == ","
        noun = i - 1 - comma
        if noun < 0 or below(noun, clause) or min(j for j in range(len(found)) if below(j, clause)) != i:
            continue
        named = found[noun].token.text.lower()
        if text == "where":
            fits = found[noun].pos in ("NOUN", "PROPN")
        else:
            fits = named in STRETCHES or (comma and (named in TIMES or named.isdigit()))
        if not fits:
            continue
        while found[noun].relation in INSIDE_NOUNS:
            noun = found[noun].head
        found[clause] = evolve(found[clause], head=noun, relation="relcl")
        if comma:
            found[i - 1] = evolve(found[i - 1], head=noun)
    return found


def lifted(words: Sequence[Word]) -> Sequence[Word]:
    """Words whose dependencies do not cross: of two that do, the shorter one goes up to its head's head.

    Source: Pseudo-projective dependency parsing (Nivre and Nilsson, 2005).
    """
    heads = [word.head for word in words]

    def below(word: int, head: int) -> bool:
        for _ in heads:
            if word == head:
                return True
            if word == heads[word]:
                break
            word = heads[word]
        return False

    for _ in range(len(words) ** 2):
        crossing = [
            i
            for i, head in enumerate(heads)
            if not all(below(between, head) for between in range(min(i, head) + 1, max(i, head)))
            and heads[head] != head
        ]
        if not crossing:
            break
        shortest = min(crossing, key=lambda i: abs(i - heads[i]))
        heads[shortest] = heads[heads[shortest]]
    return [evolve(word, head=head) for word, head in zip(words, heads, strict=True)]


class _Conversion:
    def __init__(self, words: Sequence[Word]) -> None:
        self.words = words
        self.children: list[list[int]] = [[] for _ in words]
        for i, word in enumerate(words):
            if word.head != i:
                self.children[word.head].append(i)

    def whole(self, head: int) -> _Node:
        """The sentence: its last punctuation, and a conjunction that it begins with, stand beside the verb phrase."""
        first: list[_Node | int] = []
        if self.words[0].relation == "cc" and head != 0 and not self.children[0]:
            self.children[self.words[0].head].remove(0)
            first = [0]
        own = self.children[head]
        last: list[int] = []
        while own and own[-1] > head and self.words[own[-1]].relation == "punct":
            last.insert(0, own[-1])
            own = own[:-1]
        node = self._phrase(head, own)
        inner = node.children if isinstance(node, _Node) and node.label == "S" else [node]
        return _Node("S", [*first, *inner, *last])

    def _of(self, head: int) -> _Node | int:
        return self._phrase(head, self.children[head])

    def _phrase(self, head: int, own: list[int]) -> _Node | int:
        """What a word and some of the words that depend on it make."""
        joined = [i for i in own if i > head and self.words[i].relation == "conj"]
        if joined:
            return self._coordination(head, own, joined)
        if not own:
            return head
        word = self.words[head]
        if word.pos in VERBS or any(self.words[i].relation in SUBJECTS for i in own):
            return self._clause(head, own)
        if word.pos in NOUNS:
            return self._noun(head, own)
        label = {"ADP": "PP", "SCONJ": "PP", "ADV": "ADVP", "ADJ": "ADJP"}.get(word.pos, "X")
        return _Node(label, self._flat(head, own))

    def _flat(self, head: int, own: Sequence[int]) -> list[_Node | int]:
        left = [self._of(i) for i in own if i < head]
        return [*left, head, *(self._of(i) for i in own if i > head)]

    def _coordination(self, head: int, own: list[int], joined: list[int]) -> _Node | int:
        """`a, b and c`: in the parse each of them depends on the one before."""
        first = joined[0]
        links = [
            i for i in own if i > head and self.words[i].relation in ("cc", "preconj", "punct") and i < first
        ]
        while links and self._begin(links[0]) - 1 != self._end(
            head, [i for i in own if i < links[0] and i not in links]
        ):
            links.pop(0)
        begin = links[0] if links else first
        inner = [i for i in own if i < begin]
        clauses = any(self.words[i].relation in SUBJECTS for i in self.children[first])
        verbal = self.words[head].pos in VERBS or any(self.words[i].relation in SUBJECTS for i in inner)
        tail: list[_Node | int] = []
        for i in (i for i in own if i >= begin):
            tail += self._members(i) if i == first else self._marks([i]) if i in links else [self._of(i)]
        if verbal and not clauses:
            return self._clause(head, inner, tail=tail, shares=self._shares(first))
        if not verbal:
            one = self._phrase(head, inner)
            return _Node(one.label if isinstance(one, _Node) else "NP", [one, *tail])
        opening, inner = self._shared_opening(head, inner, first)
        before = self._shared_adjuncts(inner)
        one = self._phrase(head, [i for i in inner if i not in before])
        clause = _Node("S", [*(self._of(i) for i in before), one, *tail])
        return _Node("SBAR", [*self._marks(opening), clause]) if opening else clause

    def _shared_opening(self, head: int, own: list[int], second: int) -> tuple[list[int], list[int]]:
        """What coordinated clauses begin with, and the rest: "if it rains and we stay", not "if ... and if ..."."""
        opening, rest = self._opening(head, own)
        if opening and not self._opening(second, self.children[second])[0]:
            return opening, rest
        return [], own

    def _shared_adjuncts(self, own: list[int]) -> list[int]:
        """What stands before the first of coordinated clauses, up to its comma: "in 1975, it rose, and we sold"."""
        words = self.words
        subject = min((i for i in own if words[i].relation in SUBJECTS), default=0)
        comma = max((i for i in own if i < subject and words[i].token.text == ","), default=0)
        before = [i for i in own if i <= comma]
        return before if any(words[i].relation in ADJUNCTS for i in before) else []

    def _members(self, first: int) -> list[_Node | int]:
        """A member of a coordination and those after it, which depend on it."""
        node = self._of(first)
        if any(i > first and self.words[i].relation == "conj" for i in self.children[first]):
            return list(node.children) if isinstance(node, _Node) and node.label != "S" else [node]
        return [node]

    def _begin(self, head: int) -> int:
        """The first word of what a word and its dependents make."""
        while self.children[head] and self.children[head][0] < head:
            head = self.children[head][0]
        return head

    def _end(self, head: int, own: list[int]) -> int:
        """The last word of what a word and some of its dependents make."""
        last = max([head, *own])
        while last != head and self.children[last]:
            after = max(self.children[last])
            if after <= last:
                break
            last = after
        return last

    def _clause(
        self, head: int, own: list[int], tail: Sequence[_Node | int] = (), shares: bool = False
    ) -> _Node:
        """A verb with what depends on it; `tail` is coordinated with its verb phrase, and may share auxiliaries."""
        words = self.words
        opening, rest = self._opening(head, own)
        helpers = [i for i in rest if i < head and words[i].relation in AUXILIARIES]
        verb = min([head, *helpers])
        before = [i for i in rest if i < verb]
        after = [i for i in rest if i > verb]
        shared = shares and bool(helpers)
        phrase = self._verbs(head, after, helpers, tail if shared else ())
        if tail and not shared:
            phrase = _Node("VP", [phrase, *tail])
        if (
            not before
            and not opening
            and words[head].relation not in SUBORDINATE
            and words[head].head != head
        ):
            return phrase
        clause = _Node("S", [*(self._of(i) for i in before), phrase])
        return _Node("SBAR", [*self._marks(opening), clause]) if opening else clause

    def _marks(self, opening: Sequence[int]) -> list[_Node | int]:
        """Words that open a clause or join members, what is before them beside them: "only because", "but also"."""
        made: list[_Node | int] = []
        for i in opening:
            node = self._of(i)
            plain = isinstance(node, _Node) and all(isinstance(child, int) for child in node.children)
            made += node.children if plain and isinstance(node, _Node) else [node]
        return made

    def _adverbs(self, head: int) -> bool:
        """Whether nothing but adverbs depends on a word: "only when", and not "in whose"."""
        return all(self.words[i].relation == "advmod" and not self.children[i] for i in self.children[head])

    def _shares(self, verb: int) -> bool:
        """Whether a coordinated verb has the auxiliaries of the first: not of "was used and sells"."""
        helped = any(self.words[i].relation in AUXILIARIES for i in self.children[verb])
        return not helped and self.words[verb].tag not in FINITE

    def _opening(self, head: int, own: list[int]) -> tuple[list[int], list[int]]:
        """What a subordinate clause begins with, such as "because" and "just as", and the rest."""
        words = self.words
        if words[head].relation not in SUBORDINATE and words[head].head != head:
            return [], own
        marks = [
            i
            for i in own
            if i < head
            and (
                words[i].relation == "mark"
                or (words[i].tag in WH and words[head].relation in SUBORDINATE and self._adverbs(i))
            )
        ]
        if not marks:
            return [], own
        last = marks[-1]
        verb = min(
            [head, *(i for i in own if words[i].relation in SUBJECTS | AUXILIARIES and i not in marks)]
        )
        if last > verb:
            return [], own
        return [i for i in own if i <= last], [i for i in own if i > last]

    def _verbs(
        self, head: int, after: list[int], helpers: list[int], tail: Sequence[_Node | int] = ()
    ) -> _Node:
        """The verb phrase: each auxiliary opens one around the next; `tail` is coordinated with the innermost."""
        if not helpers:
            phrase = _Node("VP", self._flat(head, after))
            return _Node("VP", [phrase, *tail]) if tail else phrase
        first, *others = helpers
        inner = others[0] if others else head
        between = [i for i in after if first < i < inner and i not in helpers]
        rest = [i for i in after if i > inner or i in others]
        return _Node(
            "VP",
            [
                self._of(first),
                *(self._of(i) for i in between),
                self._verbs(head, [i for i in rest if i not in others], others, tail),
            ],
        )

    def _noun(self, head: int, own: list[int]) -> _Node:
        """A noun phrase, and around it one with the modifiers that follow."""
        words = self.words
        later = [i for i in own if i > head and words[i].relation in NOUN_MODIFIERS]
        if not later:
            return _Node("NP", self._plain(head, own))
        first = self._begin(later[0])
        while first - 1 in own and words[first - 1].relation == "punct":
            first -= 1
        inner = [i for i in own if i < first]
        base: _Node | int = _Node("NP", self._plain(head, inner)) if inner else head
        return _Node("NP", [base, *(self._of(i) for i in own if i >= first)])

    def _plain(self, head: int, own: Sequence[int]) -> list[_Node | int]:
        """As `_flat`; what is coordinated in front of a noun lies flat: "the sales and marketing team"."""
        made: list[_Node | int] = []
        for child in self._flat(head, own):
            front = (
                isinstance(child, _Node) and child.label in ("NP", "ADJP", "X") and head not in child.children
            )
            words = [i for i in child.children if isinstance(i, int)] if isinstance(child, _Node) else []
            if (
                front
                and isinstance(child, _Node)
                and len(words) == len(child.children)
                and words[-1] < head
                and any(self.words[i].relation == "cc" for i in words)
            ):
                made += words
            else:
                made.append(child)
        return made

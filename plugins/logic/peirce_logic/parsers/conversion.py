"""Constituents from a dependency parse, in the shape that Penn's treebank gives to clauses and phrases.

A dependency parse says which word depends on which, and how. What the constituents around a logical keyword need of
it is: a clause is its subject and its verb phrase; what stands before the subject, or between it and the verb, belongs
to the clause; each auxiliary opens a verb phrase around the rest; a subordinate clause is its conjunction and a clause;
a noun with modifiers after it is a noun phrase and those; a coordination is a constituent around its members.

The labels of dependencies are those of spaCy's English models (ClearNLP's).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import NamedTuple

from attrs import evolve, frozen

from peirce_logic.detection.tree_senses import MEASURED, NEAR, STRETCHES, TIMES
from peirce_logic.detection.trees import Constituent, Token, Tree, flat_tree

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
OFFICES = frozenset({"career", "job", "position", "post", "reputation", "role", "status", "use", "work"})
"""Nouns that a phrase with "as" belongs to."""


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
        return flat_tree(tokens)
    try:
        return _convert(lift(members(evidence(reasons(relative(words))))), roots[0]) or flat_tree(tokens)
    except RecursionError:
        return flat_tree(tokens)


def _convert(words: Sequence[Word], top: int) -> Tree | None:
    found: list[Constituent] = []
    order: list[int] = []

    def add(node: _Node | int, depth: int) -> None:
        place, start = len(found), len(order)
        label, children = (words[node].tag, ()) if isinstance(node, int) else node
        found.append(Constituent(label, start, start, depth))
        if isinstance(node, int):
            order.append(node)
        for child in children:
            add(child, depth + 1)
        found[place] = Constituent(label, start, len(order), depth)

    add(_Conversion(words).whole(top), 0)
    if order != list(range(len(words))):
        return None
    return Tree(tuple(word.token for word in words), tuple(found))


def _is_descendant(word: int, head: int, heads: Sequence[int]) -> bool:
    """Whether a word is another or depends on it, perhaps by way of others."""
    for _ in heads:
        if word == head or word == heads[word]:
            break
        word = heads[word]
    return word == head


def relative(words: Sequence[Word]) -> Sequence[Word]:
    """Words of which a clause with "when" or "where" right behind a time or a place depends on that.

    Parsers often let it depend on the verb, as they should where it says when that happens: "It fell when they sold".
    """
    found = list(words)
    for i in range(1, len(found)):
        text, clause = found[i].token.text, found[i].head
        comma = found[i - 1].token.text == ","
        noun = i - 1 - comma
        if text not in ("when", "where") or found[clause].relation not in ("advcl", "ccomp") or noun < 0:
            continue
        heads, named = [word.head for word in found], found[noun].token.text.lower()
        inside = [j for j in range(len(found)) if _is_descendant(j, clause, heads)]
        if text == "where":
            fits = found[noun].pos in ("NOUN", "PROPN")
        else:
            fits = named in STRETCHES or (comma and (named in TIMES or named.isdigit()))
        if not fits or noun in inside or inside[0] != i:
            continue
        while found[noun].relation in INSIDE_NOUNS:
            noun = found[noun].head
        found[clause] = evolve(found[clause], head=noun, relation="relcl")
        if comma:
            found[i - 1] = evolve(found[i - 1], head=noun)
    return found


def reasons(words: Sequence[Word]) -> Sequence[Word]:
    """Words of which a reason behind a negated infinitive depends on the verb that governs that.

    In "I try not to go because it rains" the reason is one to try not to.
    """
    found = list(words)
    for i, word in enumerate(words):
        clause, verb = word.head, words[word.head].head
        if word.token.text.lower() == "because" and word.relation == "mark" and clause > verb:
            negated = any(each.head == verb and each.relation == "neg" for each in words[:verb])
            if words[clause].relation == "advcl" and words[verb].relation == "xcomp" and negated and verb < i:
                found[clause] = evolve(words[clause], head=words[verb].head)
    return found


def evidence(words: Sequence[Word]) -> Sequence[Word]:
    """Words of which a phrase that speaks of an event depends on the verb before it, where the parser has a noun.

    So in "see it as proof", "lost the house due to debts" and "ask a friend in case of need". A phrase with "as" stays
    with what has "such" or the like before it, and with words such as "role".
    """
    found = list(words)
    for i, word in enumerate(words):
        noun = verb = word.head
        if word.relation != "prep" or noun > i or words[noun].pos not in NOUNS:
            continue
        text, after = word.token.text, words[i + 1].token.text if i + 1 < len(words) else ""
        if text not in ("as", "due", "because", "despite") and (text, after) not in (
            ("in", "case"),
            ("in", "spite"),
        ):
            continue
        before = {each.token.text.lower() for each in words[max(0, i - NEAR) : i]} if text == "as" else set()
        while words[verb].head != verb and words[verb].pos not in VERBS:
            verb = words[verb].head
        if words[verb].pos in VERBS and verb < i and before.isdisjoint(MEASURED | OFFICES):
            found[i] = evolve(word, head=verb)
    return found


def members(words: Sequence[Word]) -> Sequence[Word]:
    """Words of which each member of a coordination depends on one of its kind, and what belongs to all on the first.

    A phrase, noun or verb that the parser joins to another kind of word is joined to one of its own kind: to one that
    ends before the conjunction, as in "go without a coat and without a hat", or for a verb to the verb around it, as in
    "use it when available and return it". A clause with a comma and "but" is joined to the sentence, not to a clause
    inside of it: "It left when it rained, but it returned". Another conjunction behind a comma joins all that stands
    before it: "A or B, but C". What follows a noun without an article is of both: "a meeting or talk between them".
    """
    found = list(_adopt(words))
    for i, word in enumerate(found):
        if word.relation != "conj" or not (head := found[i].head) < i:
            continue
        links = _links(found, head, i)
        if not links:
            continue
        other = _like_member(found, head, i, links[0])
        if other != head:
            for each in (*links, i):
                found[each] = evolve(found[each], head=other)
        elif word.pos in NOUNS and words[head].pos in NOUNS:
            left = [each.relation for each in words[:i] if each.head == i]
            article = any(each.head == head and each.relation in ("det", "poss") for each in words[:head])
            right = [
                j
                for j in range(i + 1, len(words))
                if words[j].head == i and words[j].relation in NOUN_MODIFIERS
            ]
            modified = any(
                words[j].head == head and words[j].relation in NOUN_MODIFIERS for j in range(head, i)
            )
            if article and not left and not modified:
                for j in right:
                    found[j] = evolve(found[j], head=head)
    return found


def _adopt(words: Sequence[Word]) -> Sequence[Word]:
    """Words of which a clause or phrase behind a conjunction that joins nothing is the member: "if A and if B, C"."""
    found = list(words)
    for i, word in enumerate(words[:-1]):
        if word.relation != "cc" or word.head > i:
            continue
        if any(each.head == word.head and each.relation == "conj" for each in words[i:]):
            continue
        member = i + 1
        while words[member].relation not in ("advcl", "prep") and words[member].head not in range(i + 1):
            if words[member].head == member:
                break
            member = words[member].head
        around = {word.head, words[word.head].head}
        opening = words[i + 1].token.text.lower()
        if words[member].relation not in ("advcl", "prep") or words[member].head not in around:
            continue
        like = [
            j
            for j in range(i)
            if words[j].relation in ("advcl", "prep")
            and words[j].head == words[member].head
            and opening
            in {words[j].token.text.lower(), *(w.token.text.lower() for w in words[:j] if w.head == j)}
        ]
        if like:
            found[member] = evolve(words[member], head=like[-1], relation="conj")
            for link in {i, *([i - 1] if words[i - 1].relation == "punct" else [])}:
                found[link] = evolve(words[link], head=like[-1])
    return found


def _links(words: Sequence[Word], head: int, member: int) -> list[int]:
    """The conjunction and the commas right before a member, of those that depend on what it is joined to."""
    found: list[int] = []
    for i in range(member - 1, head, -1):
        if words[i].head == head and words[i].relation in ("cc", "punct"):
            found.insert(0, i)
        elif words[i].head == head:
            break
    first = next((n for n, i in enumerate(found) if words[i].relation == "cc"), len(found))
    return found[max(first - 1, 0) :] if first < len(found) else []


def _form(words: Sequence[Word], place: int) -> str:
    """What kind of member a word makes: a finite verb, another form of one, a noun, or its part of speech."""
    word = words[place]
    if word.pos in NOUNS:
        return "noun"
    if word.pos not in VERBS:
        return word.pos
    helpers = [each for each in words[:place] if each.head == place and each.relation in AUXILIARIES]
    finite = word.tag in ("VBD", "VBP", "VBZ") or any(
        each.tag in FINITE or each.tag == "VBD" for each in helpers
    )
    return "finite" if finite else word.tag + " to" * any(each.tag == "TO" for each in helpers)


def _like_member(words: Sequence[Word], head: int, member: int, link: int) -> int:
    """What a member of a coordination is joined to: `head`, or another word; see `members`."""
    own = {each.relation: each.token.text for each in words if each.head == member}
    form, tag, bare = _form(words, member), words[member].tag, AUXILIARIES.isdisjoint(own)
    clause = not SUBJECTS.isdisjoint(own)
    comma, conjunction = (
        words[link].token.text == ",",
        next(w.token.text for w in words[link:] if w.relation == "cc"),
    )

    def is_like(i: int) -> bool:
        return form == _form(words, i) or (bare and words[i].pos in VERBS and words[i].tag == tag)

    spine: list[int] = []
    place = link - 1
    while place > head:
        spine.insert(0, place)
        place = words[place].head
    if "mark" in own:
        marked = [w.head for w in words[head:link] if w.relation == "mark" and w.token.text == own["mark"]]
        return next((i for i in spine if i in marked and head not in marked), head)
    joins = form in ("noun", "ADP") or words[member].pos in VERBS
    if joins and not clause and not is_like(head):
        below = [i for i in spine if is_like(i) and words[i].relation != "punct"]
        if below:
            return below[0]
        verb = head
        while words[member].pos in VERBS and words[verb].head != verb:
            verb = words[verb].head
            if words[verb].pos in VERBS and is_like(verb):
                return verb
        return head
    inside = (
        words[head].relation == "advcl" and words[head].head < head and words[words[head].head].pos in VERBS
    )
    if clause and comma and inside and conjunction == "but":
        return words[head].head
    above, earlier = head, set[str]()
    while comma and words[above].relation == "conj" and words[above].head < above:
        above = words[above].head
        earlier |= {
            each.token.text for each in words[above:link] if each.head == above and each.relation == "cc"
        }
    return above if earlier - {conjunction} else head


def lift(words: Sequence[Word]) -> Sequence[Word]:
    """Words whose dependencies do not cross: of two that do, the shorter one goes up to its head's head.

    Source: Pseudo-projective dependency parsing (Nivre and Nilsson, 2005).
    """
    heads = [word.head for word in words]
    for _ in range(len(words) ** 2):
        crossing = [
            i
            for i, head in enumerate(heads)
            if heads[head] != head
            and not all(
                _is_descendant(between, head, heads) for between in range(min(i, head) + 1, max(i, head))
            )
        ]
        if not crossing:
            break
        shortest = min(crossing, key=lambda i: abs(i - heads[i]))
        heads[shortest] = heads[heads[shortest]]
    return [evolve(word, head=head) for word, head in zip(words, heads, strict=True)]


class _Conversion:
    """The constituents of a sentence; `own` is what a word has of the words that depend on it, in their order."""

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
        dependents = list(self.children[head])
        last: list[int] = []
        while dependents and dependents[-1] > head and self.words[dependents[-1]].relation == "punct":
            last.insert(0, dependents.pop())
        node = self._phrase(head, dependents)
        inner = node.children if isinstance(node, _Node) and node.label == "S" else [node]
        return _Node("S", [*first, *inner, *last])

    def _has(self, dependents: Sequence[int], relations: Collection[str]) -> bool:
        """Whether some of the words have one of these relations."""
        return any(self.words[i].relation in relations for i in dependents)

    def _convert_word(self, head: int) -> _Node | int:
        return self._phrase(head, self.children[head])

    def _phrase(self, head: int, dependents: list[int]) -> _Node | int:
        """What a word and some of the words that depend on it make."""
        word = self.words[head]
        if joined := [i for i in dependents if i > head and self.words[i].relation == "conj"]:
            links = _links(self.words, head, joined[-1])
            if len(joined) > 1 and links and joined[0] < links[0]:
                one = self._phrase(head, [i for i in dependents if i < links[0]])
                rest = [i for i in dependents if i >= links[0]]
                return _Node(one.label if isinstance(one, _Node) else "NP", [one, *self._marks(rest)])
            return self._coordination(head, dependents, joined[0])
        if not dependents:
            return head
        if word.pos in VERBS or self._has(dependents, SUBJECTS):
            return self._clause(head, dependents)
        if word.pos in NOUNS:
            return self._noun(head, dependents)
        label = {"ADP": "PP", "SCONJ": "PP", "ADV": "ADVP", "ADJ": "ADJP"}.get(word.pos, "X")
        return _Node(label, self._flat(head, dependents))

    def _flat(self, head: int, dependents: Sequence[int]) -> list[_Node | int]:
        return [i if i == head else self._convert_word(i) for i in sorted([*dependents, head])]

    def _coordination(self, head: int, dependents: list[int], first: int) -> _Node | int:
        """`a, b and c`: in the parse each of them depends on the one before; `first` is b."""
        links = [
            i for i in dependents if head < i < first and self.words[i].relation in ("cc", "preconj", "punct")
        ]
        while links and self._first_word(links[0]) - 1 != self._last_word(
            head, [i for i in dependents if i < links[0] and i not in links]
        ):
            links.pop(0)
        begin = links[0] if links else first
        inner = [i for i in dependents if i < begin]
        tail: list[_Node | int] = []
        for i in (i for i in dependents if i >= begin):
            tail += (
                self._members(i)
                if i == first
                else self._marks([i])
                if i in links
                else [self._convert_word(i)]
            )
        if self.words[head].pos not in VERBS and not self._has(inner, SUBJECTS):
            # The first word of a pair, as "either", stands beside what it joins.
            pair = [i for i in inner[:1] if i < head and self.words[i].tag == "CC"]
            one = self._phrase(head, inner[len(pair) :])
            label = one.label if isinstance(one, _Node) else "NP"
            later = [i for i in dependents if i > first]
            after = [*takewhile(lambda i: self.words[i].relation in NOUN_MODIFIERS, reversed(later))][::-1]
            return self._with(_Node(label, [*pair, one, *tail[: len(tail) - len(after)]]), after)
        if not self._has(self.children[first], SUBJECTS):
            # A coordinated verb has the auxiliaries of the first, but not in "was used and sells".
            helped = self._has(self.children[first], AUXILIARIES) or self.words[first].tag in FINITE
            return self._clause(head, inner, tail=tail, shares=not helped)
        # Clauses share what they begin with: "if it rains and we stay", not "if ... and if ...".
        opening, rest = self._opening(head, inner)
        if self._opening(first, self.children[first])[0]:
            opening, rest = [], inner
        # They share what stands before the first of them, up to its comma: "in 1975, it rose, and we sold".
        subject = min((i for i in rest if self.words[i].relation in SUBJECTS), default=0)
        comma = max((i for i in rest if i < subject and self.words[i].token.text == ","), default=-1)
        before = [i for i in rest if i <= comma]
        before = before if self._has(before, (*ADJUNCTS, "advmod")) else []
        one = self._phrase(head, [i for i in rest if i not in before])
        return self._open_clause(opening, _Node("S", [*map(self._convert_word, before), one, *tail]))

    def _with(self, node: _Node, modifiers: Sequence[int]) -> _Node:
        """A node, and around it one with modifiers that follow it, if any do."""
        return _Node(node.label, [node, *map(self._convert_word, modifiers)]) if modifiers else node

    def _members(self, first: int) -> list[_Node | int]:
        """A member of a coordination and those after it, which depend on it."""
        node = self._convert_word(first)
        if self._has([i for i in self.children[first] if i > first], ("conj",)):
            return list(node.children) if isinstance(node, _Node) and node.label != "S" else [node]
        return [node]

    def _first_word(self, head: int) -> int:
        """The first word of what a word and its dependents make."""
        while self.children[head] and self.children[head][0] < head:
            head = self.children[head][0]
        return head

    def _last_word(self, head: int, dependents: list[int]) -> int:
        """The last word of what a word and some of its dependents make."""
        last = max([head, *dependents])
        while last != head and self.children[last] and self.children[last][-1] > last:
            last = self.children[last][-1]
        return last

    def _clause(
        self, head: int, dependents: list[int], tail: Sequence[_Node | int] = (), shares: bool = False
    ) -> _Node:
        """A verb with what depends on it; `tail` is coordinated with its verb phrase, and may share auxiliaries."""
        opening, rest = self._opening(head, dependents)
        helpers = [i for i in rest if i < head and self.words[i].relation in AUXILIARIES]
        verb = min([head, *helpers])
        before = [i for i in rest if i < verb]
        shared = shares and bool(helpers)
        after = [i for i in rest if i > verb and i not in helpers]
        phrase = self._verbs(head, after, helpers, tail if shared else ())
        if tail and not shared:
            phrase = _Node("VP", [phrase, *tail])
        if not before and not opening and not self._is_clause(head):
            return phrase
        return self._open_clause(opening, _Node("S", [*map(self._convert_word, before), phrase]))

    def _is_clause(self, head: int) -> bool:
        """Whether a verb heads a sentence or a subordinate clause."""
        word = self.words[head]
        opens = [
            i for i in self.children[head] if self.words[i].relation == "mark" or self.words[i].tag == "WRB"
        ]
        marked = word.relation == "conj" and bool(opens)
        return marked or word.relation in SUBORDINATE or word.head == head

    def _open_clause(self, opening: Sequence[int], clause: _Node) -> _Node:
        return _Node("SBAR", [*self._marks(opening), clause]) if opening else clause

    def _marks(self, opening: Sequence[int]) -> list[_Node | int]:
        """Words that open a clause or join members, what is before them beside them: "only because", "but also"."""
        nodes: list[_Node | int] = []
        for node in map(self._convert_word, opening):
            plain = isinstance(node, _Node) and all(isinstance(child, int) for child in node.children)
            nodes += node.children if plain and isinstance(node, _Node) else [node]
        return nodes

    def _opening(self, head: int, dependents: list[int]) -> tuple[list[int], list[int]]:
        """What a subordinate clause begins with, such as "because" and "just as", and the rest."""
        words = self.words

        def opens(i: int) -> bool:
            """Of words such as "when", those that nothing but adverbs depends on: "only when", and not "in whose"."""
            asks = words[i].tag in WH and words[head].relation in (*SUBORDINATE, "conj")
            adverbs = all(words[j].relation == "advmod" and not self.children[j] for j in self.children[i])
            return words[i].relation == "mark" or (asks and adverbs)

        marks = [i for i in dependents if i < head and opens(i)]
        others = [i for i in dependents if words[i].relation in SUBJECTS | AUXILIARIES and i not in marks]
        if not marks or not self._is_clause(head) or marks[-1] > min([head, *others]):
            return [], dependents
        return [i for i in dependents if i <= marks[-1]], [i for i in dependents if i > marks[-1]]

    def _verbs(
        self, head: int, after: list[int], helpers: list[int], tail: Sequence[_Node | int] = ()
    ) -> _Node:
        """The verb phrase: each auxiliary opens one around the next; `tail` is coordinated with the innermost."""
        if not helpers:
            phrase = _Node("VP", self._flat(head, after))
            return _Node("VP", [phrase, *tail]) if tail else phrase
        first, *others = helpers
        inner = min([head, *others])
        between, later = [i for i in after if i < inner], [i for i in after if i > inner]
        return _Node(
            "VP", [*map(self._convert_word, [first, *between]), self._verbs(head, later, others, tail)]
        )

    def _noun(self, head: int, dependents: list[int]) -> _Node:
        """A noun phrase, and around it one with the modifiers that follow."""
        later = [i for i in dependents if i > head and self.words[i].relation in NOUN_MODIFIERS]
        if not later:
            return _Node("NP", self._plain(head, dependents))
        first = self._first_word(later[0])
        while first - 1 in dependents and self.words[first - 1].relation == "punct":
            first -= 1
        inner = [i for i in dependents if i < first]
        base: _Node | int = _Node("NP", self._plain(head, inner)) if inner else head
        return _Node("NP", [base, *(self._convert_word(i) for i in dependents if i >= first)])

    def _plain(self, head: int, dependents: Sequence[int]) -> list[_Node | int]:
        """As `_flat`; what is coordinated in front of a noun lies flat: "the sales and marketing team"."""
        nodes: list[_Node | int] = []
        for child in self._flat(head, dependents):
            inner = child.children if isinstance(child, _Node) and child.label in ("NP", "ADJP", "X") else ()
            words = [i for i in inner if isinstance(i, int) and i < head]
            flat = words and len(words) == len(inner) and self._has(words, ("cc",))
            number = any(self.words[i].pos in ("NUM", "ADJ") for i in words)
            nodes += words if flat and not number else [child]
        return nodes

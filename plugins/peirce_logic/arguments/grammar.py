"""The grammar of arguments: what a sentence says, in words and as a truth table, and its tree without a parser's model.

Who comes? A sentence is a clause, such as `not ann`, or joins two. A connective of the outer kind stands with a comma
and joins clauses or pairs of them, `ann and bob , if not carol .`; one of the inner kind joins two clauses without a
comma. So every sentence has one reading. Arguments come in twos that differ in one connective: of one the conclusion
follows, of the other it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random

from attrs import evolve, frozen

from peirce_logic.parsers.brackets import Brackets
from peirce_logic.parsers.parser import Parsed, Parser

NAMES = ("ann", "bob", "carol", "dan", "eve", "fred", "gina", "hugo", "ida", "jack", "kate", "leo")
SEEN, UNSEEN = 0, 1
"""Which words of a connective a text has: those of training, or the others."""
OPEN = "open"
"""The option that the conclusion does not follow."""


@frozen
class Connective:
    """A connective.

    Args:
        relation: the one of the twelve that the lexicon has it under.
        words: that texts for training have, and that none of them has.
        holds: the truth table of "a KEY b" by those of a and b, as bits; the first argument has all bits.
        outer: whether it stands with a comma, and perhaps before both parts.
    """

    relation: str
    words: tuple[str, str]
    holds: Callable[[int, int, int], int]
    outer: bool = True


CONNECTIVES = (
    Connective("conditional", ("if", "as long as"), lambda every, a, b: a | (every ^ b)),
    Connective("negative_conditional", ("unless", "except where"), lambda every, a, b: a | b),
    Connective("causal", ("because", "now that"), lambda every, a, b: a & b),
    Connective("adversative", ("although", "though"), lambda every, a, b: a & b),
    Connective("conjunction", ("and", "as well as"), lambda every, a, b: a & b, outer=False),
    Connective("disjunction", ("or", "alternatively"), lambda every, a, b: a | b, outer=False),
)
KINDS = {outer: tuple(c for c in CONNECTIVES if c.outer is outer) for outer in (True, False)}
TURNS = (
    ("causal", "conditional"), ("adversative", "negative_conditional"), ("conditional", "negative_conditional"),
    ("negative_conditional", "conditional"), ("conjunction", "disjunction"), ("disjunction", "conjunction"),
)  # fmt: skip
"""The relations of the one connective that two arguments differ in: where the conclusion follows, and where not."""
MOST, POSITIVE = 4, 0.6
"""The most clauses of a sentence, and how many of all clauses have no negation."""
LEXICON = """\
# The English keywords, and two words that the grammar of arguments has beside them.
format = 1
extends = "english"

[negative_conditional]
extrinsic = ["except where"]

[disjunction]
intrinsic = ["alternatively"]
"""
WORDS = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "not", ",", ".", "so", OPEN, *NAMES,
    *dict.fromkeys(word for each in CONNECTIVES for words in each.words for word in words.split()),
)  # fmt: skip
"""The vocabulary of a model that reads arguments."""


@frozen
class Clause:
    """Somebody comes, or does not."""

    name: str
    positive: bool = True

    def text(self, chosen: Sequence[Connective], words: int) -> str:
        """In words; see `Joined`."""
        return self.name if self.positive else f"not {self.name}"

    def table(self, chosen: Sequence[Connective], columns: dict[str, int], every: int) -> int:
        """Where it is true; see `Joined`."""
        return columns[self.name] ^ (0 if self.positive else every)


@frozen
class Joined:
    """Two sentences and the place of a connective, which `chosen` fills.

    Args:
        slot: the number of that place in its argument.
        left, right: what it joins.
        front: whether it stands before both: `if b , a` in place of `a , if b`.
        outer: of which kind it is.
    """

    slot: int
    left: Clause | Joined
    right: Clause | Joined
    front: bool
    outer: bool

    def text(self, chosen: Sequence[Connective], words: int) -> str:
        """In words.

        Args:
            chosen: the connectives of the argument, by slot.
            words: `SEEN` or `UNSEEN`.
        """
        left, right = (part.text(chosen, words) for part in (self.left, self.right))
        key = chosen[self.slot].words[words]
        if self.front:
            return f"{key} {right} , {left}"
        return f"{left} {', ' if self.outer else ''}{key} {right}"

    def table(self, chosen: Sequence[Connective], columns: dict[str, int], every: int) -> int:
        """Where it is true: a bit for each valuation.

        Args:
            chosen: the connectives of the argument, by slot.
            columns: where each of the names comes.
            every: all valuations.
        """
        parts = (part.table(chosen, columns, every) for part in (self.left, self.right))
        return chosen[self.slot].holds(every, *parts)


@frozen
class Argument:
    """Premises and a conclusion.

    Args:
        premises: sentences.
        chosen: the connective at each of their places.
        conclusion: what may follow.
    """

    premises: tuple[Clause | Joined, ...]
    chosen: tuple[Connective, ...]
    conclusion: Clause = Clause("")

    def texts(self, words: int) -> tuple[str, str]:
        """Premises and conclusion, with the words `SEEN` or `UNSEEN`."""
        told = (premise.text(self.chosen, words) for premise in self.premises)
        return "".join(f"{text} . " for text in told).strip(), self.conclusion.text((), words)

    def true(self, columns: dict[str, int], every: int) -> int:
        """Where all premises are true; see `Joined.table`."""
        found = every
        for premise in self.premises:
            found &= premise.table(self.chosen, columns, every)
        return found


def arguments(sizes: Sequence[int], drawn: Random) -> Iterator[tuple[Argument, Argument]]:
    """Arguments in twos without end: of the first the conclusion follows, of the other it does not.

    Args:
        sizes: the numbers of premises; each is as likely as the others, and so is each of `TURNS`.
        drawn: where they come from.
    """
    while True:
        size, turn = drawn.choice(sizes), drawn.choice(TURNS)
        while (found := _two(size, turn, drawn)) is None:
            pass
        yield found


def _two(size: int, turn: tuple[str, str], drawn: Random) -> tuple[Argument, Argument] | None:
    """Two arguments that differ in one connective; None where what was drawn does not turn on it."""
    first, second = (next(each for each in CONNECTIVES if each.relation == relation) for relation in turn)
    names = drawn.sample(NAMES, max(MOST, size + 1))
    premises, kinds = [], list[bool]()
    for _ in range(size):
        premises.append(_sentence(iter(drawn.sample(names, MOST)), kinds, drawn, 0.5, 0.2))
    if first.outer not in kinds:
        return None
    chosen = [drawn.choice(KINDS[outer]) for outer in kinds]
    slot = drawn.choice([i for i, outer in enumerate(kinds) if outer is first.outer])
    valuations = range(1 << len(names))
    every = (1 << len(valuations)) - 1
    columns = {each: sum(1 << v for v in valuations if v >> i & 1) for i, each in enumerate(names)}
    one, other = (
        Argument(tuple(premises), (*chosen[:slot], own, *chosen[slot + 1 :])) for own in (first, second)
    )
    true, others = one.true(columns, every), other.true(columns, every)
    literals = [Clause(name, positive) for name in names for positive in (True, False)]
    false = {each: every ^ each.table((), columns, every) for each in literals}
    turning = [each for each in literals if true and not true & false[each] and others & false[each]]
    if not turning:
        return None
    conclusion = drawn.choice(turning)
    return evolve(one, conclusion=conclusion), evolve(other, conclusion=conclusion)


def _sentence(
    names: Iterator[str], kinds: list[bool], drawn: Random, outer: float, inner: float
) -> Clause | Joined:
    """A sentence with names in their order, which joins two others by a connective of one kind, so likely."""
    luck = drawn.random()
    if luck >= outer + inner:
        return Clause(next(names), drawn.random() < POSITIVE)
    kind = luck < outer
    slot, inside = len(kinds), 0.3 if kind else 0.0
    kinds.append(kind)
    left, right = (_sentence(names, kinds, drawn, 0, inside) for _ in range(2))
    return Joined(slot, left, right, kind and drawn.random() < 0.5, kind)


_CLAUSE = re.compile(rf"\b(?:not )?(?:{'|'.join(NAMES)})\b")


class Clauses(Parser):
    """The sentences of this grammar, without a model: the tree of each is that of its words."""

    name = "clauses"
    example = "ann , if not bob ."

    def parse(self, text: str) -> Parsed:
        """The sentences of a text, which end at a full stop; words have one space between them."""
        return Brackets().parse("".join(map(_bracketed, re.findall(r"[^.]+\.?", text))))


def _bracketed(sentence: str) -> str:
    """A sentence as a tree: a part before or after a comma that begins with no clause is subordinate."""
    marked = _CLAUSE.sub(r"(S \g<0>)", sentence.strip())
    stop = " ." * marked.endswith(".")
    parts = []
    for part in marked.removesuffix(".").strip().split(" , "):
        begin = max(0, part.find("("))
        key, clauses = part[:begin], part[begin:]
        parts.append(f"(SBAR {key} (S {clauses}))" if key else f"(S {clauses})")
    return f"(T (S {' , '.join(parts)}){stop})"

"""The grammar of arguments: what a sentence says, in words and as a truth table, and its tree without a parser's model.

Who comes? A sentence is a clause, such as `not ann`, or joins two. A connective of the outer kind stands with a comma
and joins clauses or pairs of them, `ann and bob , if not carol .`; one of the inner kind joins two clauses without a
comma. So every sentence has one reading. Arguments come in twos that differ in one connective: of one the conclusion
follows, of the other it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from operator import and_
from random import Random

from attrs import frozen

from peirce.errors import InputError
from peirce_logic.detection.trees import Token, tree_over
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


Table = Callable[[Sequence[Connective]], int]
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
class Argument:
    """Premises and a conclusion.

    Args:
        premises: in words, with `{0}` and so on where connectives stand.
        chosen: the connective at each of these places.
        conclusion: what may follow, a clause.
    """

    premises: str
    chosen: tuple[Connective, ...]
    conclusion: str

    def text(self, words: int) -> str:
        """The premises in words, with those of each connective that are `SEEN` or `UNSEEN`."""
        return self.premises.format(*(connective.words[words] for connective in self.chosen))


def arguments(sizes: Sequence[int], rng: Random) -> Iterator[tuple[Argument, Argument]]:
    """Arguments in twos without end: of the first the conclusion follows, of the other it does not.

    Args:
        sizes: the numbers of premises; each is as likely as the others, and so is each of `TURNS`. One premise
            alone does not turn on each of these.
        rng: where they come from.
    """
    while True:
        size, turn = rng.choice(sizes), rng.choice(TURNS)
        while (found := _Drawing(rng, max(MOST, size + 1)).two(size, turn)) is None:
            pass
        yield found


class _Drawing:
    """Two arguments in the making.

    A table has a bit for each valuation of the names: whether a sentence is true there. That of a sentence is a
    function of the connectives at all places.
    """

    def __init__(self, rng: Random, count: int) -> None:
        self.rng, self.names, self.kinds = rng, rng.sample(NAMES, count), list[bool]()
        self.every, self.clauses = (1 << (1 << count)) - 1, dict[str, int]()
        for i, name in enumerate(self.names):
            table = sum(1 << v for v in range(1 << count) if v >> i & 1)
            self.clauses |= {name: table, f"not {name}": self.every ^ table}

    def two(self, size: int, turn: tuple[str, str]) -> tuple[Argument, Argument] | None:
        """Arguments of `size` premises that differ in one connective; None where nothing turns on that."""
        rng = self.rng
        first, second = (next(each for each in CONNECTIVES if each.relation == name) for name in turn)
        premises = [self._sentence(iter(rng.sample(self.names, MOST)), 0.5, 0.2) for _ in range(size)]
        if first.outer not in self.kinds:
            return None
        chosen = [rng.choice(KINDS[outer]) for outer in self.kinds]
        slot = rng.choice([i for i, outer in enumerate(self.kinds) if outer is first.outer])
        one, other = ((*chosen[:slot], choice, *chosen[slot + 1 :]) for choice in (first, second))
        true, others = (
            reduce(and_, (table(choice) for _, table in premises), self.every) for choice in (one, other)
        )
        turning = [
            text for text, table in self.clauses.items() if true and not true & ~table and others & ~table
        ]
        if not turning:
            return None
        text, conclusion = "".join(f"{text} . " for text, _ in premises).strip(), rng.choice(turning)
        return Argument(text, one, conclusion), Argument(text, other, conclusion)

    def _sentence(self, names: Iterator[str], outer: float, inner: float) -> tuple[str, Table]:
        """A sentence with names in their order, which joins two others by a connective of a kind that likely."""
        luck = self.rng.random()
        if luck >= outer + inner:
            name = next(names)
            text = name if self.rng.random() < POSITIVE else f"not {name}"
            return text, lambda chosen: self.clauses[text]
        kind, slot = luck < outer, len(self.kinds)
        self.kinds.append(kind)
        (left, a), (right, b) = (self._sentence(names, 0, 0.3 if kind else 0) for _ in range(2))
        key, front = f"{{{slot}}}", kind and self.rng.random() < 0.5
        joined = f"{key} {right} , {left}" if front else f"{left} {', ' if kind else ''}{key} {right}"
        return joined, lambda chosen: chosen[slot].holds(self.every, a(chosen), b(chosen))


_CLAUSE = re.compile(rf"\b(?:not )?(?:{'|'.join(NAMES)})\b")


class Clauses(Parser):
    """The sentences of this grammar, without a model; a sentence of another has a flat tree or a meaningless one."""

    name = "clauses"
    example = "ann , if not bob ."

    def __init__(self, model: str | None = None) -> None:
        if model is not None:
            raise InputError(f"the parser 'clauses' has no model {model!r}; leave it out")
        super().__init__(model)

    def parse(self, text: str) -> Parsed:
        """The sentences of a text, which end at a full stop."""
        tokens = [Token(each[0], *each.span()) for each in re.finditer(r"[.,]|[^\s.,]+", text)]
        stops = [i + 1 for i, token in enumerate(tokens) if token.text == "." or i + 1 == len(tokens)]
        sentences = [tokens[start:stop] for start, stop in pairwise([0, *stops])]
        return Parsed(text, tuple(tree_over(_to_brackets(each), each, self.name) for each in sentences))


def _to_brackets(sentence: Sequence[Token]) -> str:
    """A sentence as a tree: a part before or after a comma that begins with no clause is subordinate."""
    marked = _CLAUSE.sub(r"(S \g<0>)", " ".join(token.text for token in sentence))
    stop = " ." * marked.endswith(".")
    parts = []
    for part in marked.removesuffix(".").strip().split(" , "):
        begin = max(0, part.find("("))
        key, clauses = part[:begin], part[begin:]
        parts.append(f"(SBAR {key} (S {clauses}))" if key else f"(S {clauses})")
    return f"(T (S {' , '.join(parts)}){stop})"

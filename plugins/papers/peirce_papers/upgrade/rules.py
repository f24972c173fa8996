"""Rules and facts in words: what follows is found by forward chaining, and two samplers draw problems.

Who is tall? A literal is an attribute or its negation. A problem has facts about a person, such as `anna is kind.`, and
rules of one premise or two, such as `tall if kind and not red.` It is asked which conclusions of rules follow. The
depth of what follows is how many rules its proof has in a row; of what does not, how many lead to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import cycle, product
from random import Random

from attrs import frozen

NAMES = (
    ("anna", "peter", "maria", "david", "laura", "james", "julia", "paul"),
    ("emma", "henry", "sarah", "frank", "alice", "mark", "helen", "simon"),
)
"""Of training and validation, and of tests."""
ATTRIBUTES = (
    (
        "kind", "tall", "red", "rich", "young", "cold", "loud", "green", "happy", "rough", "smart", "blue",
        "sad", "quiet", "big", "round", "nice", "poor", "strong", "white", "brave", "clean", "dark", "busy",
        "hungry", "proud", "sharp", "short", "warm", "wild", "tired", "tiny",
    ),
    (
        "old", "small", "hot", "weak", "calm", "black", "slow", "fast", "soft", "hard", "heavy", "light",
        "fresh", "dry", "wet", "sweet", "bright", "angry", "lazy", "lucky", "honest", "gentle", "shy", "thin",
    ),
)  # fmt: skip
"""Words that are one token for most tokenizers of English; of training and validation, and of tests."""
PLAIN = ("not", "is", "if", "and", ".")
"""The other words."""
RULES = 4, 7
"""The fewest and the most rules of a problem, which has more where its depth asks for more."""
JOINT, NEAR = 0.1, 0.9
"""How many rules have two premises, and how many go on from the last conclusion of a chain."""

Literal = tuple[str, bool]
"""An attribute, and whether it is not negated."""


@frozen
class Rule:
    """All of `premises` together give `conclusion`."""

    premises: tuple[Literal, ...]
    conclusion: Literal


@frozen(slots=False)
class Theory:
    """Facts of a person, and rules in the order of the text."""

    facts: tuple[Literal, ...]
    rules: tuple[Rule, ...]

    @cached_property
    def follows(self) -> dict[Literal, int]:
        """What follows, with the most rules in a row of its shortest proof; of a fact none."""
        found, depth = dict.fromkeys(self.facts, 0), 0
        while new := {
            rule.conclusion
            for rule in self.rules
            if rule.conclusion not in found and all(each in found for each in rule.premises)
        }:
            depth += 1
            found |= dict.fromkeys(sorted(new), depth)
        return found

    @property
    def consistent(self) -> bool:
        """Whether nothing follows together with its negation."""
        return not any((word, not said) in self.follows for word, said in self.follows)

    @property
    def conclusions(self) -> list[Literal]:
        """What rules conclude, in the order of the text."""
        return list(dict.fromkeys(rule.conclusion for rule in self.rules))

    def depth(self, literal: Literal) -> int:
        """Of what follows as `follows` has it; otherwise the most rules in a row that lead there."""
        return self.follows[literal] if literal in self.follows else self._ways_back(literal, ())

    def _ways_back(self, literal: Literal, seen: tuple[Literal, ...]) -> int:
        premises = [p for rule in self.rules if rule.conclusion == literal for p in rule.premises]
        return max((1 + self._ways_back(p, (*seen, literal)) for p in premises if p not in seen), default=0)


@frozen
class Problem:
    """Does `question`, which rules conclude, follow from a theory about a person?"""

    theory: Theory
    question: Literal
    name: str
    sampler: str

    @property
    def answer(self) -> bool:
        """Whether it follows."""
        return self.question in self.theory.follows

    @property
    def depth(self) -> int:
        """The depth of the question."""
        return self.theory.depth(self.question)

    def words(self, *, every: bool = True) -> list[tuple[str, bool | None]]:
        """The words; at a conclusion, or at the question alone, whether it follows, and None elsewhere."""
        plain = [word for fact in self.theory.facts for word in (self.name, "is", *_words(fact), ".")]
        found: list[tuple[str, bool | None]] = [(word, None) for word in plain]
        for rule in self.theory.rules:
            asked = every or rule.conclusion == self.question
            found += [("not", None)] * (not rule.conclusion[1])
            found.append((rule.conclusion[0], rule.conclusion in self.theory.follows if asked else None))
            for before, premise in zip(("if", "and"), rule.premises, strict=False):
                found += [(word, None) for word in (before, *_words(premise))]
            found.append((".", None))
        return found


def _words(literal: Literal) -> tuple[str, ...]:
    return (literal[0],) if literal[1] else ("not", literal[0])


def rules_first(rng: Random, words: Sequence[str], size: int) -> Theory:
    """Two chains of rules are drawn, most of them from the last attribute of a chain, and then facts near the roots."""
    new, rules = iter(_literals(rng, words, size + 2)), list[Rule]()
    chains = [next(new)], [next(new)]
    for _ in range(size):
        chain, other = chains if rng.random() < 0.5 else chains[::-1]
        premises = [chain[-1] if rng.random() < NEAR else rng.choice(chain)]
        premises += [rng.choice(other)] if rng.random() < JOINT else []
        conclusion = next(new) if rng.random() < NEAR else rng.choice(chain)
        rules.append(Rule(tuple(_turned(rng, each) for each in premises), _turned(rng, conclusion)))
        chain.append(conclusion)
    rng.shuffle(rules)
    facts = [rng.choice(chains)[0], *(rng.choice(rng.choice(chains)[:2]) for _ in range(rng.randint(0, 1)))]
    return Theory(tuple(dict.fromkeys(facts)), tuple(rules))


def labels_first(rng: Random, words: Sequence[str], size: int) -> Theory:
    """It is drawn what follows and what does not, and then a rule for each from others of its label."""
    first, second, *order = _literals(rng, words, size + 3)
    follows, others, facts, rules = [first], [second], [first], list[Rule]()
    for each in order:
        label = rng.random() < 0.5
        if label and len(facts) < 2 and rng.random() < 0.2:
            facts.append(each)
        else:
            known = follows if label else others
            given = [known[-1] if rng.random() < NEAR else rng.choice(known)]
            given += [rng.choice(follows)] if rng.random() < JOINT else []
            rules.append(Rule(tuple(dict.fromkeys(given)), each))
        (follows if label else others).append(each)
    rules = rules[:size]
    rng.shuffle(rules)
    return Theory(tuple(facts), tuple(rules))


SAMPLERS: Mapping[str, Callable[[Random, Sequence[str], int], Theory]] = {
    "rules first": rules_first,
    "labels first": labels_first,
}
"""The two samplers of the same problem; networks learn from the first."""


def problems(
    sampler: str, part: int, depths: Sequence[int], rng: Random, *, limited: bool = False
) -> Iterator[Problem]:
    """Problems without end; each depth and each answer come in turn.

    Each theory has conclusions of that depth of which one follows and another does not, so that the answer depends on
    which of them is asked, and on nothing that the theory has as a whole.

    Args:
        sampler: one of `SAMPLERS`.
        part: which words: 0 those of training, 1 those of tests.
        depths: of the questions.
        rng: where problems come from.
        limited: whether no other conclusion is deeper than the deepest question.
    """
    for depth, answer in cycle(product(depths, (True, False))):
        size = rng.randint(max(RULES[0], 2 * depth), max(RULES[1], 2 * depth + 2))
        while True:
            theory = SAMPLERS[sampler](rng, ATTRIBUTES[part], size)
            deep = {each: theory.depth(each) for each in theory.conclusions if each not in theory.facts}
            asked = [
                [e for e in deep if deep[e] == depth and (e in theory.follows) is a] for a in (True, False)
            ]
            if all(asked) and theory.consistent and not (limited and max(deep.values()) > max(depths)):
                yield Problem(theory, rng.choice(asked[not answer]), rng.choice(NAMES[part]), sampler)
                break


def _literals(rng: Random, words: Sequence[str], count: int) -> list[Literal]:
    return [(word, rng.random() < 0.75) for word in rng.sample(words, count)]


def _turned(rng: Random, literal: Literal, rate: float = 0.05) -> Literal:
    """A literal, or its negation."""
    return (literal[0], literal[1] != (rng.random() < rate))

"""A generated world, in which the relation of two people depends on facts that lie on no path between them.

Five guilds stand in a ring, and each person is of one. Facts say how far round the ring one person's guild is from
another's: exactly, or with two ways left (`near`, `far`), or only that they differ (`other`). Of some persons the guild
is known. No guild has two masters. The question is how far two people's guilds are apart. Facts of one person are
edges from a node to itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, pairwise, permutations
from random import Random
from typing import cast

from attrs import evolve

from peirce.errors import InputError, unknown
from peirce_relations.calculi.closure import InconsistentError
from peirce_relations.calculi.problems import TRIES
from peirce_relations.graphs import Problem

STEPS = ("same", "right", "right2", "left2", "left")
"""How far it is round the ring, by the number of guilds; the answers."""
WEAK = {"near": (1, 4), "far": (2, 3)}
GUILDS = ("baker", "cooper", "mason", "smith", "weaver")
OTHER, MASTER = "other", "master"
WORDS = (*STEPS, *WEAK, OTHER, *GUILDS, MASTER)
LEVELS = (1, 2, 3)
RULES = f"""
{{ of(X,0..4) }} = 1 :- person(X).
step({";".join(f'"{name}",{i}' for i, name in enumerate(STEPS))}).
allows(Word,Step) :- step(Word,Step).
allows({";".join(f'"{name}",{step}' for name, steps in WEAK.items() for step in steps)}).
allows("{OTHER}",1..4).
guild({";".join(f'"{name}",{i}' for i, name in enumerate(GUILDS))}).

:- fact(Word,X,Y), allows(Word,_), of(X,G), of(Y,H), not allows(Word,(H-G+5)\\5).
:- fact(Word,X,X), guild(Word,G), not of(X,G).
:- fact("{MASTER}",X,X), fact("{MASTER}",Y,Y), X < Y, of(X,G), of(Y,G).

answer(X,Y,Word) :- asked(X,Y), of(X,G), of(Y,H), step(Word,(H-G+5)\\5).
#show answer/3.
"""
"""The rules, for clingo: `fact(Word,X,Y)` for each edge, `person(X)` for each node and `asked(X,Y)` for each pair."""


class OffPath:
    """Problems of the world at one of three levels.

    A path of K facts leads from the one to the other. One or two of them leave two ways, and so cut the path into
    segments; the others are exact. A person of one segment is of a known guild, by a chain of facts that hangs there.
    The levels differ in how the other segments are told:

    1. other people's facts: by a chain of facts from a known person to each;
    2. exclusions: a chain ends in `other`, and excludes the wrong one of the two ways;
    3. constraints: a master of a segment is not of the wrong guild, since another master is, whom no fact connects to
       the path; another person who is not a master is of the right guild.

    Chains have between one and (K + 1) / 2 edges; one more hangs at the path and tells nothing.
    """

    branches: tuple[int, ...] = (1,)

    def __init__(self, level: int) -> None:
        if level not in LEVELS:
            raise InputError(f"offpath has no level {level}; use 1, 2 or 3")
        self.name, self.level = f"offpath:{level}", level

    def make(self, steps: int, branches: int, rng: Random) -> Problem:
        """One problem whose path has `steps` edges: one answer is left by all facts, and more by those of the path.

        Raises:
            InputError: more than one path is asked for, or no such problem was found.
        """
        if branches != 1:
            raise InputError(f"offpath makes one path, not {branches}; leave out --paths")
        cuts = min(steps, rng.choice((1, 2)))
        for _ in range(TRIES):
            problem = self._draw(steps, cuts, rng)
            try:
                if self.possible(problem) == [problem.answer] and len(self.possible(on_paths(problem))) > 1:
                    return problem
            except InconsistentError:  # two masters were drawn of one guild
                continue
        raise InputError(f"no problem of {self.name} with a path of {steps} edges was found")

    def possible(self, problem: Problem) -> list[str]:
        """The answers that some world has in which all facts hold.

        Raises:
            InconsistentError: there is no such world.
            InputError: a word is unknown, or a word about one person joins two.
        """
        return _possible_answers(problem, [problem.query])[problem.query]

    def decided_pairs(self, problem: Problem) -> list[tuple[int, int, str]]:
        """Every two people, how far whose guilds are apart all facts together decide, and the answer.

        Raises:
            InconsistentError, InputError: as `possible`.
        """
        left = _possible_answers(problem, permutations(range(problem.nodes), 2))
        return [(x, y, answers[0]) for (x, y), answers in left.items() if len(answers) == 1]

    def _draw(self, steps: int, cuts: int, rng: Random) -> Problem:
        """A world's problem, whose masters may contradict each other."""
        guilds, edges, labels, fresh = (
            [rng.randrange(5)],
            list[tuple[int, int]](),
            list[str](),
            count(steps + 1),
        )

        def fact(x: int, y: int, word: str) -> None:
            edges.append((x, y))
            labels.append(word)

        def chain(node: int, guild: int, *, longest: int, known: bool = True) -> None:
            for _ in range(longest and rng.randint(1, longest)):
                step, before = rng.randrange(5), next(fresh)
                fact(before, node, STEPS[step])
                node, guild = before, (guild - step) % 5
            if known:
                fact(node, node, GUILDS[guild])

        weak = sorted(rng.sample(range(steps), cuts))
        ways = []
        for i in range(steps):
            word = rng.choice(tuple(WEAK)) if i in weak else rng.choice(STEPS)
            step = rng.choice(WEAK[word]) if i in weak else STEPS.index(word)
            fact(i, i + 1, word)
            guilds.append((guilds[-1] + step) % 5)
            ways.append(step)
        segments = [*pairwise([0, *(i + 1 for i in weak), steps + 1])]
        anchored, longest = rng.randrange(len(segments)), (steps + 1) // 2
        for j, (start, stop) in enumerate(segments):
            node = rng.randrange(start, stop)
            if j == anchored or self.level == 1:
                chain(node, guilds[node], longest=longest)
                continue
            # The other way of the fact that leads here from the side of the segment that is told.
            turned = -2 * ways[weak[j - 1]] if j > anchored else 2 * ways[weak[j]]
            excluded, person = (guilds[node] + turned) % 5, next(fresh)
            if self.level == 2:
                fact(person, node, OTHER)
                chain(person, excluded, longest=longest - 1)
                continue
            fact(node, node, MASTER)
            fact(person, person, MASTER)
            chain(person, excluded, longest=longest)
            chain(next(fresh), guilds[node], longest=longest)
        node = rng.randrange(steps + 1)
        chain(node, guilds[node], longest=longest, known=False)
        order = rng.sample(range(len(edges)), len(edges))
        return Problem(
            nodes=next(fresh), edges=tuple(edges[i] for i in order), labels=tuple(labels[i] for i in order),
            query=(0, steps), answer=STEPS[(guilds[steps] - guilds[0]) % 5], steps=steps,
        )  # fmt: skip


def _possible_answers(problem: Problem, pairs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], list[str]]:
    """The answers for each of some pairs that some world has in which all facts hold."""
    import clingo

    facts, people = list[str](), {node for pair in problem.edges for node in pair}
    for (x, y), word in zip(problem.edges, problem.labels, strict=True):
        if word not in WORDS:
            raise InputError(unknown("relation of offpath", word, WORDS))
        if x != y and word in (*GUILDS, MASTER):
            raise InputError(
                f"{word!r} describes one node but joins {x} and {y}; give it as an edge from the node to itself"
            )
        facts.append(f'fact("{word}",{x},{y}).')
    found = {pair: set[str]() for pair in pairs}
    for x, y in found:
        people |= {x, y}
        facts.append(f"asked({x},{y}).")
    control = clingo.Control(["--models=0", "--enum-mode=brave"])
    control.add("base", [], f"{RULES}person({';'.join(map(str, sorted(people)))}).{''.join(facts)}")
    control.ground([("base", [])])
    with control.solve(yield_=True) as models:
        for model in models:
            for symbol in model.symbols(shown=True):
                x, y, word = symbol.arguments
                found[x.number, y.number].add(word.string)
    if not all(found.values()):
        raise InconsistentError("the facts contradict each other: no world satisfies them all")
    return {pair: sorted(answers, key=STEPS.index) for pair, answers in found.items()}


def on_paths(problem: Problem) -> Problem:
    """The problem with no other facts than those on simple paths between the two nodes, whichever way edges point.

    Facts of one node are kept where a path goes through it.
    """
    import networkx

    # With an edge between the two, the simple paths are the cycles through it: its biconnected component.
    graph = networkx.Graph([pair for pair in (*problem.edges, problem.query) if pair[0] != pair[1]])
    near = {*problem.query}
    if len(near) > 1:
        parts = cast("Iterable[set[int]]", networkx.biconnected_components(graph))
        near = next(part for part in parts if near <= part)
    kept = [i for i, (x, y) in enumerate(problem.edges) if x in near and y in near]
    return evolve(
        problem,
        edges=tuple(problem.edges[i] for i in kept),
        labels=tuple(problem.labels[i] for i in kept),
    )

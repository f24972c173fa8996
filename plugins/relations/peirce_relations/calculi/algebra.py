"""A finite relation algebra: the names of its basic relations, their converses, and how they compose.

The tables of Allen's intervals and of RCC-8 are counted from models of the calculus, so none is written down. A triple
(r, s, t) is in a table if there are x, y and z with x r y, y s z and x t z.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from peirce.errors import InputError, unknown

MOST = 40
"""Relations of an algebra that is drawn; the table of its laws grows with their fourth power."""
Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


def _unchanging(table: NDArray[Any]) -> NDArray[Any]:
    table.flags.writeable = False
    return table


@frozen(eq=False)
class RelationAlgebra:
    """Basic relations that hold of no pair together and of every pair one.

    Args:
        name: of the calculus.
        relations: the names of the basic relations; their places are their ids.
        converse: int [r], the id of each relation's converse.
        composition: bool [r, s, t], whether t may relate x to z where r relates x to y and s relates y to z.
        identity: the id of the relation of each thing to itself.
    """

    name: str
    relations: tuple[str, ...]
    converse: Ids = field(converter=_unchanging)
    composition: Flags = field(converter=_unchanging)
    identity: int

    def id(self, relation: str) -> int:
        """The id of a relation.

        Raises:
            InputError: there is none of that name; the message has the nearest.
        """
        if relation not in self.relations:
            raise InputError(unknown(f"relation of {self.name}", relation, self.relations))
        return self.relations.index(relation)

    @property
    def triples(self) -> int:
        """How many triples of basic relations are possible: the size of the table that papers print."""
        return int(self.composition.sum())


def flaws(algebra: RelationAlgebra) -> list[str]:
    """Which laws of relation algebras a table breaks; a table of a calculus breaks none.

    Identity, the converse of a converse and of a composition, and the cycle law: r;s meets t exactly if r~;t meets s.
    Associativity is a law of relation algebras too, and not of all algebras that are drawn at random: it is named last.
    """
    table, turned, size = algebra.composition, algebra.converse, len(algebra.relations)
    own, weak = algebra.identity, table.astype(np.int64)
    left = np.einsum("rsu,utv->rstv", weak, weak) > 0
    right = np.einsum("stu,ruv->rstv", weak, weak) > 0
    laws = {
        "the converse of a converse is the relation": turned[turned] == np.arange(size),
        "identity composes to the other relation": table[own] == np.eye(size, dtype=bool),
        "the converse of r;s is s~;r~": table == table[turned][:, turned][:, :, turned].transpose(1, 0, 2),
        "r;s meets t exactly if r~;t meets s": table == table[turned].transpose(0, 2, 1),
        "composition is associative": left == right,
    }
    return [law for law, holds in laws.items() if not holds.all()]


def _counted(name: str, relations: tuple[str, ...], related: Ids, identity: str) -> RelationAlgebra:
    """The algebra of a model: `related` [n, n] has the id of the relation of each pair of its things."""
    size = len(relations)
    holds = np.stack([related == r for r in range(size)]).astype(np.float32)
    composition = np.zeros((size, size, size), dtype=bool)
    for r in range(size):
        for s in range(size):
            composition[r, s, np.unique(related[holds[r] @ holds[s] > 0])] = True
    converse = np.array([related.T[related == r][0] for r in range(size)])
    return RelationAlgebra(name, relations, converse, composition, relations.index(identity))


@cache
def intervals() -> RelationAlgebra:
    """Allen's thirteen relations of intervals, counted over six instants, the most that three intervals have.

    Source: Allen (1983), Fig. 2 for the names; `=`, `<` and `>` for equals, before and after.
    """
    names = ("<", ">", "m", "mi", "o", "oi", "s", "si", "d", "di", "f", "fi", "=")
    begin, end = np.array(list(combinations(range(6), 2))).T
    x, y = (begin[:, None], end[:, None]), (begin[None], end[None])
    forwards = {
        "<": x[1] < y[0],
        "m": x[1] == y[0],
        "o": (x[0] < y[0]) & (y[0] < x[1]) & (x[1] < y[1]),
        "s": (x[0] == y[0]) & (x[1] < y[1]),
        "d": (y[0] < x[0]) & (x[1] < y[1]),
        "f": (y[0] < x[0]) & (x[1] == y[1]),
    }
    holds = {"=": (x[0] == y[0]) & (x[1] == y[1])}
    for name, pairs in forwards.items():
        holds |= {name: pairs, {"<": ">"}.get(name, name + "i"): pairs.T}
    return _counted("interval", names, np.argmax([holds[name] for name in names], axis=0), "=")


@cache
def rcc8() -> RelationAlgebra:
    """The eight relations of regions of RCC-8, counted over the regions of a line that are unions of unit segments.

    Two regions are connected where their closures meet, and overlap where their interiors do. Outside the line's
    segments there is nothing. The table has the 193 triples of the published one.

    Source: Randell, Cui & Cohn (1992), Section 4, for the relations.
    """
    names = ("DC", "EC", "PO", "TPP", "NTPP", "TPPI", "NTPPI", "EQ")
    cells = 8
    masks = np.arange(1, 2**cells)
    inside = (masks[:, None] >> np.arange(cells) & 1).astype(bool)
    padded = np.pad(inside, ((0, 0), (1, 1)))
    near = padded[:, :-2] | padded[:, 2:] | inside  # the cells that touch a region's closure
    beyond = np.pad(~padded, ((0, 0), (1, 1)), constant_values=True)
    edge = beyond[:, 1:-3] | beyond[:, 3:-1]  # the cells that touch what is outside of it
    overlap = inside @ inside.T
    touch = near @ inside.T
    part = ~(inside @ ~inside.T)  # x lies within y
    rim = inside @ edge.T  # a cell of x touches the outside of y
    equal = part & part.T
    proper = part & ~equal
    holds = {
        "DC": ~touch,
        "EC": touch & ~overlap,
        "PO": overlap & ~part & ~part.T,
        "TPP": proper & rim,
        "NTPP": proper & ~rim,
        "TPPI": (proper & rim).T,
        "NTPPI": (proper & ~rim).T,
        "EQ": equal,
    }
    return _counted("rcc8", names, np.argmax([holds[name] for name in names], axis=0), "EQ")


def drawn(relations: int, density: float, seed: int, *, associative: bool = False) -> RelationAlgebra:
    """A random algebra: each cycle of triples that the laws bind together is possible with the probability `density`.

    Args:
        relations: how many, the identity among them; its converse and that of each third relation is itself, the
            others are converses in pairs.
        density: the share of triples that are possible.
        seed: of the draw.
        associative: whether tables are drawn until one is associative.

    Raises:
        InputError: sizes are impossible, or no associative table was found among a thousand.
    """
    if not 2 <= relations <= MOST:
        raise InputError(f"a drawn algebra has 2 to {MOST} relations, not {relations}")
    if not 0 < density <= 1:
        raise InputError(f"a density is in (0, 1], not {density}")
    random = np.random.default_rng(seed)
    converse = np.arange(relations)
    for first in range(2, relations - 1, 3):
        converse[[first, first + 1]] = first + 1, first
    for _ in range(1000):
        table = np.zeros((relations,) * 3, dtype=bool)
        for r in range(relations):
            for s in range(relations):
                for t in range(relations):
                    if 0 in (r, s, t):
                        table[r, s, t] = (r, s) in ((0, t), (t, 0)) or (t == 0 and converse[r] == s)
                    elif (r, s, t) == (cycle := _cycle(r, s, t, converse))[0]:
                        possible = random.random() < density
                        for each in cycle:
                            table[each] = possible
        names = tuple(f"r{i}" for i in range(relations))
        algebra = RelationAlgebra("random", names, converse, table, 0)
        found = flaws(algebra)
        if not found or (found == ["composition is associative"] and not associative):
            return algebra
    raise InputError(
        f"no table of {relations} relations among a thousand is associative; give fewer, or another seed"
    )


def _cycle(r: int, s: int, t: int, converse: Ids) -> list[tuple[int, int, int]]:
    """The triples that the laws bind to x r y, y s z, x t z: the same triangle from each corner, both ways round."""

    def back(i: int) -> int:
        return int(converse[i])

    rotations = [(r, s, t), (s, back(t), back(r)), (back(t), r, back(s))]
    both = [*rotations, *((back(j), back(i), back(k)) for i, j, k in rotations)]
    return sorted({(int(i), int(j), int(k)) for i, j, k in both})


CALCULI: Mapping[str, Callable[[], RelationAlgebra]] = {"rcc8": rcc8, "interval": intervals}
"""The calculi by name."""
DENSITY = 0.2
"""Of algebras that are drawn by name."""
_DRAWN = re.compile(r"(random|associative)(?::(\d+))?(?::(\d+))?")


@cache
def calculus(name: str) -> RelationAlgebra:
    """The algebra of a name: a calculus, or one that is drawn.

    Args:
        name: `rcc8`, `interval`, `random:N:SEED` for a table of N relations (8 where it is not said) that is drawn by a
            seed (0), or `associative:N:SEED` for an associative one (of 5).

    Raises:
        InputError: there is none; the message lists them.
    """
    if said := _DRAWN.fullmatch(name):
        associative = said[1] == "associative"
        sizes = int(said[2] or (5 if associative else 8)), int(said[3] or 0)
        algebra = drawn(sizes[0], DENSITY, sizes[1], associative=associative)
        return evolve(algebra, name=":".join([said[1], *map(str, sizes)]))
    if name not in CALCULI:
        raise InputError(unknown("algebra", name, [*CALCULI, "random:N:SEED", "associative:N:SEED"]))
    return CALCULI[name]()

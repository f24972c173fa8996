"""A finite relation algebra: the names of its basic relations, their converses, and how they compose.

The tables of Allen's intervals and of RCC-8 are counted from models of the calculus, so none is written down. A triple
(r, s, t) is in a table if there are x, y and z with x r y, y s z and x t z.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from peirce.errors import InputError, RegistryError, one_line, unknown
from peirce.registry import Registry, default_catalogue

MOST = 40
"""The most relations of a random algebra; the tables of its laws grow with their fourth power."""
ASSOCIATIVE = "composition is associative"
"""The one law that an algebra may break."""
Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


def _read_only(table: NDArray[Any]) -> NDArray[Any]:
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
        decided_by_closure: whether a graph of basic relations has a model wherever path consistency leaves every pair
            a relation, as is proved of RCC-8 and of Allen's intervals.
    """

    name: str
    relations: tuple[str, ...]
    converse: Ids = field(converter=_read_only)
    composition: Flags = field(converter=_read_only)
    identity: int
    decided_by_closure: bool = False

    def id(self, relation: str) -> int:
        """The id of a relation.

        Raises:
            InputError: there is no such relation; the message suggests the nearest.
        """
        if relation not in self.relations:
            raise InputError(unknown(f"relation of {self.name}", relation, self.relations))
        return self.relations.index(relation)

    @property
    def triples(self) -> int:
        """How many triples of basic relations are possible: the size of the table that papers print."""
        return int(self.composition.sum())


def broken_laws(algebra: RelationAlgebra) -> list[str]:
    """The laws of relation algebras that a table breaks.

    Identity, the converse of a converse and of a composition, and the cycle law: r;s meets t exactly if r~;t meets s.
    Associativity stands last: not every random algebra has it.
    """
    table, turned, size = algebra.composition, algebra.converse, len(algebra.relations)
    weak = table.astype(np.int64)
    left = np.einsum("rsu,utv->rstv", weak, weak) > 0
    right = np.einsum("stu,ruv->rstv", weak, weak) > 0
    laws = {
        "the converse of a converse is the relation": turned[turned] == np.arange(size),
        "identity composes to the other relation": table[algebra.identity] == np.eye(size, dtype=bool),
        "the converse of r;s is s~;r~": table == table[turned][:, turned][:, :, turned].transpose(1, 0, 2),
        "r;s meets t exactly if r~;t meets s": table == table[turned].transpose(0, 2, 1),
        ASSOCIATIVE: left == right,
    }
    return [law for law, holds in laws.items() if not holds.all()]


def algebra_of_model(
    name: str, relations: tuple[str, ...], related: Ids, identity: str, *, decided_by_closure: bool = False
) -> RelationAlgebra:
    """The algebra of a model, whose table is counted.

    Args:
        name: of the calculus.
        relations: the names of the basic relations.
        related: int64 [n, n], the id of the relation of each pair of the model's things.
        identity: the relation of each thing to itself.
        decided_by_closure: as `RelationAlgebra` has it.
    """
    size = len(relations)
    holds = np.stack([related == r for r in range(size)]).astype(np.float32)
    composition = np.zeros((size, size, size), dtype=bool)
    for r in range(size):
        for s in range(size):
            composition[r, s, np.unique(related[holds[r] @ holds[s] > 0])] = True
    converse = np.array([related.T[related == r][0] for r in range(size)])
    return RelationAlgebra(
        name, relations, converse, composition, relations.index(identity), decided_by_closure
    )


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
    related = np.argmax([holds[name] for name in names], axis=0)
    return algebra_of_model("interval", names, related, "=", decided_by_closure=True)


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
    related = np.argmax([holds[name] for name in names], axis=0)
    return algebra_of_model("rcc8", names, related, "EQ", decided_by_closure=True)


def random_algebra(
    relations: int, density: float, seed: int, *, associative: bool = False
) -> RelationAlgebra:
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
        raise InputError(f"a random algebra has 2 to {MOST} relations, not {relations}")
    if not 0 < density <= 1:
        raise InputError(f"the density must be in (0, 1], not {density}")
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
        broken = broken_laws(algebra)
        if not broken or (broken == [ASSOCIATIVE] and not associative):
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


DENSITY = 0.2
"""The density of random algebras that are asked for by name."""
RANDOM = ("random:N:SEED", "associative:N:SEED")
"""The forms of their names."""
_RANDOM = re.compile(r"(random|associative)(?::(\d+))?(?::(\d+))?")


def calculi(registry: Registry | None = None) -> tuple[str, ...]:
    """The names of the calculi that plug-ins register by `register_calculi`."""
    return tuple((registry or default_catalogue()).names("calculi"))


@cache
def calculus(name: str, registry: Registry | None = None) -> RelationAlgebra:
    """The algebra of a name: a calculus that a plug-in registers, or a random one.

    Args:
        name: such as `rcc8` and `interval`; `random:N:SEED` for a random table of N relations (8 by default) by a seed
            (0), or `associative:N:SEED` for an associative one (of 5).
        registry: where calculi are looked up; what is installed and active if None.

    Raises:
        InputError: there is none; the message lists them.
        RegistryError: what is registered makes no algebra, or one that breaks a law other than associativity.
    """
    if match := _RANDOM.fullmatch(name):
        associative = match[1] == "associative"
        size, seed = int(match[2] or (5 if associative else 8)), int(match[3] or 0)
        algebra = random_algebra(size, DENSITY, seed, associative=associative)
        return evolve(algebra, name=f"{match[1]}:{size}:{seed}")
    known = calculi(registry)
    if name not in known:
        raise InputError(unknown("algebra", name, [*known, *RANDOM]))
    entry = (registry or default_catalogue()).entry("calculi", name)
    what = f"the calculus {name!r} of {entry.plugin}, {entry.part},"
    module, _, function = entry.part.partition(":")
    try:
        algebra = getattr(import_module(module), function)()
    except Exception as error:
        raise RegistryError(f"{what} cannot be made: {one_line(error)}") from error
    if not isinstance(algebra, RelationAlgebra):
        raise RegistryError(f"{what} is {algebra!r:.80}; return a RelationAlgebra")
    if broken := [law for law in broken_laws(algebra) if law != ASSOCIATIVE]:
        raise RegistryError(
            f"{what} breaks laws of relation algebras: {'; '.join(broken)}; correct its tables"
        )
    return evolve(algebra, name=name)

"""What follows from the labelled edges of a graph: path consistency, which decides calculi of basic relations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peirce.errors import InputError
from peirce_relations.calculi.algebra import Flags, RelationAlgebra


class InconsistentError(InputError):
    """No things stand in the relations that a graph says."""


def closure(
    algebra: RelationAlgebra, nodes: int, edges: Sequence[tuple[int, int]], labels: Sequence[str]
) -> Flags:
    """Which basic relations each pair may have, bool [x, y, r].

    Every pair keeps the relations that some composition over each third node allows, until nothing changes. A basic
    relation that is left may still be impossible in an algebra where this does not decide; for Allen's intervals and
    RCC-8 with basic labels it does (Vilain & Kautz, 1986; Renz & Nebel, 1999).

    Args:
        algebra: the calculus.
        nodes: how many there are.
        edges: pairs of nodes.
        labels: the relation of each edge.

    Raises:
        InconsistentError: some pair has no relation left.
        InputError: a label or a node is unknown.
    """
    size = len(algebra.relations)
    left = np.ones((nodes, nodes, size), dtype=bool)
    left[np.arange(nodes), np.arange(nodes)] = np.eye(size, dtype=bool)[algebra.identity]
    if len(edges) != len(labels):
        raise InputError(f"{len(edges)} edges have {len(labels)} labels; give each edge one")
    for (x, y), label in zip(edges, labels, strict=True):
        for node in (x, y):
            if not 0 <= node < nodes:
                raise InputError(f"edge ({x}, {y}) has node {node}, and the nodes are 0 to {nodes - 1}")
        r = algebra.id(label)
        left[x, y] &= np.eye(size, dtype=bool)[r]
        left[y, x] &= np.eye(size, dtype=bool)[algebra.converse[r]]
    table = algebra.composition.reshape(size, -1).astype(np.float32)
    while True:
        before = left.sum()
        for middle in range(nodes):
            # [x, r] with [r, s, t] -> [x, s, t]; then [x, s, t] with [y, s] -> [x, y, t]
            first = (left[:, middle].astype(np.float32) @ table).reshape(nodes, size, size) > 0
            allowed = left[middle].astype(np.float32) @ first.astype(np.float32)
            left &= allowed > 0
            if not (known := left.any(2)).all():
                x, y = np.argwhere(~known)[0]
                where = f"over node {middle} no relation is left from node {x} to node {y}"
                raise InconsistentError(f"the edges contradict each other: {where}")
        if left.sum() == before:
            return left

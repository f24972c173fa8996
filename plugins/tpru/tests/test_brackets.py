"""Distances in the tree of brackets, computed from ids, are those of the tree."""

from __future__ import annotations

import pytest
import torch

from peirce.parts import Dims, Tokens
from peirce_tpru.brackets import Brackets
from peirce_tpru.entailment.task import SYMBOLS

DIMS = Dims(layers=2, unary=8, heads=2, head_size=4, feedforward_unary=1, vocabulary=len(SYMBOLS))
TEXT = ["[CLS]", *"((p&q)>~((r|p)))", "[SEP]", *"(q>p)(p)", "[SEP]"]


def nodes(text: list[str]) -> list[tuple[int, ...]]:
    """The pairs of brackets that each token stands in, outermost first; a bracket stands in its own."""
    found, way, count = [], list[int](), 0
    for sign in text:
        if sign == "(":
            way, count = [*way, count], count + 1
        found.append(tuple(way))
        if sign == ")":
            way = way[:-1]
    return found


@pytest.mark.parametrize("far", [8, 3])
def test_distances_are_those_of_the_tree(far: int) -> None:
    position = Brackets(Brackets.Options(max_distance=far), DIMS)
    pad = 2
    ids = torch.tensor([[5] * pad + [SYMBOLS.index(sign) for sign in TEXT]])
    real = torch.arange(ids.shape[1]).unsqueeze(0) >= pad
    got = position.distances(
        Tokens({"input_ids": ids}, real, (real.long().cumsum(1) - 1).clamp(0), len(ids[0]))
    )
    ways = nodes(TEXT)
    for x, one in enumerate(ways):
        for y, other in enumerate(ways):
            common = sum(a == b for a, b in zip(one, other, strict=False))
            assert got[0, pad + x, pad + y] == min(len(one) + len(other) - 2 * common, far)

"""TEGA's logic-aware relative positions."""

import torch

from peirce.parts import Dims, Tokens
from peirce_kg.parts.positions.logirpe import LogiRPE

DIMS = Dims(layers=2, unary=8, heads=2, head_size=4, feedforward_unary=1, vocabulary=9)


def tokens(kinds: torch.Tensor) -> Tokens:
    length = kinds.shape[1]
    return Tokens({"token_kinds": kinds}, None, torch.arange(length).unsqueeze(0), length)


def test_the_key_term_alone_has_one_bank() -> None:
    position = LogiRPE(LogiRPE.Options(terms="key"), DIMS)
    assert position.pairs(tokens(torch.zeros(1, 4, dtype=torch.long)))[0].value is None
    assert {n: tuple(p.shape) for n, p in position.state_dict().items()} == {"keys.0.weight": (7 * 7 * 33, 8)}

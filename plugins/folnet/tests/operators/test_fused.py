"""What no kernel takes is left to torch by the operators that have one."""

from __future__ import annotations

import logging

import pytest
import torch

from peirce.algebra import Predicates, Scope
from peirce.parts import Dims, NoOptions
from peirce_folnet.operators.bool import Bool, BoolOptions
from peirce_folnet.operators.trans import Trans

DIMS = Dims(layers=1, unary=6, binary=4, feedforward_unary=10, feedforward_binary=8, vocabulary=9)


def test_trans_and_bool_leave_to_torch_what_no_kernel_takes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PEIRCE_KERNELS", "on")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    relations, scope = torch.ones(1, 2, 2, 4), Scope(pairs=torch.ones(1, 2, 2, dtype=torch.bool))
    state = Predicates(torch.ones(1, 2, 6), relations)
    with caplog.at_level(logging.DEBUG, "peirce"):
        assert Trans(NoOptions(), DIMS).fused(relations, relations, scope) is None
        assert Bool(BoolOptions(), DIMS).fused(state, scope, 1e-5, 0.0) is None
    reasons = ("torch, since triton is not installed", "torch, since kernels are not for cpu")
    for name, message in zip(("trans", "bool"), caplog.messages, strict=True):
        assert message in [f"{name}: {reason}" for reason in reasons]

"""Which path computes: the rule declines, says why, and never raises but for a value that it does not know."""

from __future__ import annotations

import logging

import pytest
import torch

from peirce.errors import InputError
from peirce.kernels import fused_norm, uses_kernel


def test_no_kernel_is_used_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEIRCE_KERNELS", raising=False)
    assert not uses_kernel("trans", torch.empty(4, device="meta"))
    monkeypatch.setenv("PEIRCE_KERNELS", "of")
    with pytest.raises(InputError, match="PEIRCE_KERNELS is 'of'; it is one of off, on, auto"):
        uses_kernel("trans", torch.empty(4))


def test_what_no_kernel_takes_is_left_to_torch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PEIRCE_KERNELS", "on")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    relations, pairs = torch.ones(1, 2, 2, 3), torch.ones(1, 2, 2, dtype=torch.bool)
    with caplog.at_level(logging.DEBUG, "peirce"):
        assert fused_norm(relations, None, None, pairs, 1e-5) is None
    reasons = ("torch, since triton is not installed", "torch, since kernels are not for cpu")
    assert caplog.messages in [[f"norm: {reason}"] for reason in reasons]
    integers = torch.empty(2, 2, dtype=torch.int64, device="meta")
    assert not uses_kernel("norm", integers)
    assert not uses_kernel("norm", torch.empty(2, 1000, device="meta"), whole=1000)
    assert not uses_kernel("trans", torch.empty(0, 2, device="meta"))

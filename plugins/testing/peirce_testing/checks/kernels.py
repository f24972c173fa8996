"""What an operator's own kernel computes, beside what the operator states."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from peirce.algebra import Predicates, Scope, standardise
from peirce.networks import add_increment
from peirce.parts import PureOperator, RecurrentOperator, StateOperator
from peirce_testing.check import check, on_examples
from peirce_testing.compare import NotApplicableError, NotRunError, assert_equal
from peirce_testing.examples import Example, Tensors
from peirce_testing.harness.base import Harness, modules

NEAR = 1e-4
"""How far values and gradients may lie apart, to the largest one: a kernel sums float32 in an order of its own."""
EPSILON = 1e-2
"""Added to variances. The slope of a norm of channels that are all alike is that of rounding errors without it."""


@check("operators", but=RecurrentOperator)
def kernel(harness: Harness) -> None:
    """An operator's own kernel gives what the operator gives, and the same gradients. In float32 on a CPU, where
    Triton's interpreter runs it: no evidence for a card. Gradients are those of a random cotangent, and of a sum.
    """
    pure = issubclass(harness.part, PureOperator)
    if harness.part.fused is (PureOperator if pure else StateOperator).fused:
        raise NotApplicableError("it brings no kernel")
    taken: list[bool] = []

    def body(harness: Harness, example: Example) -> None:
        view, instance, scope = example.view, harness.make(dtype=torch.float32), example.view.scope()
        tensors = harness.draw(view, example.generator(), torch.float32).leaves()
        with _kernels_on():
            fused = (_fused_channels if pure else _fused_atoms)(instance, tensors, scope)
        taken.append(fused is not None)
        if fused is None:
            return
        plain = (
            [each for _, each in harness.compute(instance, tensors, view, scope)]
            if pure
            else _plain_atoms(instance, tensors, scope)
        )
        leaves = dict(tensors.floats())
        leaves |= {name: p for module in modules(instance) for name, p in module.named_parameters()}
        slots = harness.writes(instance)
        ours, theirs = (
            harness.complete(Tensors(zip(slots, each, strict=True)), view, scope) for each in (fused, plain)
        )
        for (slot, one), (_, other) in zip(ours, theirs, strict=True):
            assert_equal(one.detach(), other.detach(), f"{slot.name} of the kernel", NEAR)
            noise = torch.randn(other.shape, generator=example.generator())
            for kind, cotangent in (("a random cotangent", noise), ("a sum", torch.ones_like(other))):
                grads = [_gradients(each, leaves, cotangent) for each in (one, other)]
                for name in leaves:
                    what = f"the gradient of {name} by {kind} of the kernel's {slot.name}"
                    assert_equal(grads[0][name], grads[1][name], what, NEAR)

    on_examples(harness, body, count=4)
    if not any(taken) and os.environ.get("TRITON_INTERPRET") == "1":
        raise NotApplicableError("its kernel declines these options")
    if not any(taken):
        raise NotRunError(
            "its kernel declines on a CPU; with triton and TRITON_INTERPRET=1 it is interpreted there"
        )


@contextmanager
def _kernels_on() -> Iterator[None]:
    """Ask for kernels, as `PEIRCE_KERNELS=on` does."""
    before = os.environ.get("PEIRCE_KERNELS")
    os.environ["PEIRCE_KERNELS"] = "on"
    try:
        yield
    finally:
        os.environ.pop("PEIRCE_KERNELS") if before is None else os.environ.update(PEIRCE_KERNELS=before)


def _fused_channels(operator: PureOperator, tensors: Tensors, scope: Scope) -> list[Tensor] | None:
    """What the kernel gives of channels as it gets them: softmax kernels of relations are logits."""
    given = [each for _, each in tensors]
    for i, reader in enumerate(operator.readings().values()):
        logits = reader.activation == "softmax"
        if reader.branch == "B" and operator.scope_rule == "reduce" and not logits:
            given[i] = scope.zero_binary(given[i])
    result = operator.fused(*given, scope)
    return None if result is None else [result]


def _fused_atoms(operator: StateOperator, tensors: Tensors, scope: Scope) -> list[Tensor] | None:
    """The atoms with what the kernel adds to them."""
    (_, unary), (_, binary) = tensors
    result = operator.fused(Predicates(unary, binary), scope, EPSILON, 0.0)
    return None if result is None else _both(result)


def _plain_atoms(operator: Any, tensors: Tensors, scope: Scope) -> list[Tensor]:
    """The atoms with the increments of their norms."""
    (_, unary), (_, binary) = tensors
    normal = [standardise(each, epsilon=EPSILON) for each in (unary, binary)]
    increment = operator(Predicates(scope.zero_unary(normal[0]), scope.zero_binary(normal[1])), scope)
    return _both(add_increment(Predicates(unary, binary), increment, 0.0))


def _both(state: Predicates) -> list[Tensor]:
    assert state.binary is not None
    return [state.unary, state.binary]


def _gradients(result: Tensor, leaves: dict[str, Tensor], cotangent: Tensor) -> dict[str, Tensor]:
    """The gradients by name; zeros where the result does not depend on a tensor."""
    if not result.requires_grad:
        return {name: torch.zeros_like(each) for name, each in leaves.items()}
    found = torch.autograd.grad(
        result, list(leaves.values()), cotangent, retain_graph=True, allow_unused=True
    )
    pairs = zip(leaves.items(), found, strict=True)
    return {name: torch.zeros_like(leaf) if grad is None else grad for (name, leaf), grad in pairs}

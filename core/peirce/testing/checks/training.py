"""A part in training: gradients that are right and reach everything, a loss that falls, and dropout alone beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from peirce.testing.check import NETWORK, Case, check, check_each, holds
from peirce.testing.checks.state import has_state
from peirce.testing.compare import BrokenError, NotApplicableError, alike, same
from peirce.testing.examples import Example, View, normal, plain_view
from peirce.testing.harness import ArchitectureHarness, Harness, SizedHarness
from peirce.testing.harness.base import modules, state_of

STEPS = (1e-6, 1e-8)
"""The step of finite differences. A kink between two points is not between two nearer ones."""
RELATIVE, ABSOLUTE = 1e-4, 1e-7
"""The tolerance of the gradient along a direction; float64 gives more, but for square roots of small numbers."""


@check(
    *NETWORK,
    contract="the gradients of all inputs and parameters are those of finite differences, and reach every parameter",
)
def gradients(case: Case) -> None:
    """In float64, along random directions: all at once, and one by one where that fails."""

    def each(harness: Harness) -> None:
        reached: dict[str, bool] = {}
        flat: dict[str, bool] = {}
        network = isinstance(harness, ArchitectureHarness)

        def body(sized: Harness, example: Example) -> None:
            made = sized.make()
            scale = (1.0, 4.0)[example.seed % 2]
            tensors = sized.draw(example.view, example.generator(), scale=scale).leaves()
            read, wanted = tensors.floats(), _parameters(made, example.view)
            leaves = read | {f"the parameter {name}": parameter for name, parameter in wanted.items()}
            for name in wanted:
                reached.setdefault(name, False)
            if read:
                reached.setdefault("", True)
            if not leaves:
                return

            def value() -> Tensor | None:
                outputs = sized.run(made, tensors, example.view).floats().values()
                generator = example.generator(7)
                found = [(t * normal(t.shape, generator)).sum() for t in outputs]
                return torch.stack(found).sum() if found else None

            found = compare_gradients(value, leaves, example.generator(8))
            for name in wanted:
                gradient = found.get(f"the parameter {name}")
                # In a network without positions some atoms are zero, and what they are mapped by has no gradient.
                reached[name] |= gradient is not None and (network or bool(gradient.any()))
            for name, tensor in read.items():
                gradient = found.get(name)
                if gradient is not None and bool(gradient.any()):
                    flat[name] = False
                elif flat.get(name, True) and _matters(value, tensor, example.generator(9)):
                    flat[name] = True

        kinds = harness.kinds[:2] if network else None
        padded = False if case.entry.kind == "operators" else None
        holds(harness, body, kinds=kinds, count=4 if network else 10, padded=padded)
        if steps := [name for name, only in flat.items() if only]:
            raise BrokenError(
                f"the output depends on {', '.join(steps)}, and the gradient is zero everywhere: it goes in steps, as "
                "after rounding, a comparison or a choice of the largest"
            )
        if missed := [name for name, found in reached.items() if not found]:
            raise BrokenError(
                f"no gradient ever reaches the parameter {', '.join(missed)}: nothing depends on it"
            )
        if not reached:
            raise NotApplicableError("it reads no floats, and has no parameters that are trained")

    case.each(each)


def compare_gradients(
    value: Callable[[], Tensor | None], leaves: dict[str, Tensor], generator: torch.Generator
) -> dict[str, Tensor | None]:
    """Hold autograd's gradient of a scalar to finite differences.

    Args:
        value: computes the scalar from the leaves; None where there is none.
        leaves: what it may depend on, by name.
        generator: of the directions.

    Returns:
        The gradients that autograd gives, by name; None where the scalar does not depend on a leaf.

    Raises:
        BrokenError: a gradient is another one.
    """
    total = value()
    if total is None:
        return {}
    tensors = list(leaves.values())
    given: Sequence[Tensor | None] = [None] * len(tensors)
    if total.requires_grad:
        given = torch.autograd.grad(total, tensors, allow_unused=True)
    directions = [normal(t.shape, generator) for t in tensors]
    expected = [0.0 if g is None else float((g * d).sum()) for g, d in zip(given, directions, strict=True)]
    if not _agrees(value, tensors, directions, sum(expected)):
        for name, tensor, direction, ours in zip(leaves, tensors, directions, expected, strict=True):
            if not _agrees(value, [tensor], [direction], ours):
                theirs = _difference(value, [tensor], [direction], STEPS[0])
                cause = "; it is detached on its way" if not ours else ""
                raise BrokenError(
                    f"the gradient of {name} along a direction is {ours:.6g}, and finite differences give "
                    f"{theirs:.6g}{cause}"
                )
    return dict(zip(leaves, given, strict=True))


def _matters(value: Any, tensor: Tensor, generator: torch.Generator) -> bool:
    """Whether a scalar is another one when a tensor of its inputs is."""
    with torch.no_grad():
        before, kept = float(value()), tensor.detach().clone()
        tensor.copy_(normal(tensor.shape, generator) * 3)
        after = float(value())
        tensor.copy_(kept)
    return abs(after - before) > RELATIVE * max(abs(after), abs(before)) + ABSOLUTE


def _agrees(value: Any, tensors: list[Tensor], directions: list[Tensor], ours: float) -> bool:
    for step in STEPS:
        theirs = _difference(value, tensors, directions, step)
        if abs(theirs - ours) <= RELATIVE * max(abs(ours), abs(theirs)) + ABSOLUTE * (STEPS[0] / step):
            return True
    return False


def _difference(value: Any, tensors: list[Tensor], directions: list[Tensor], step: float) -> float:
    """The slope of a scalar along a direction."""
    found = []
    before = [tensor.detach().clone() for tensor in tensors]
    with torch.no_grad():
        for sign in (step, -step):
            for tensor, direction in zip(tensors, directions, strict=True):
                tensor.add_(direction, alpha=sign)
            found.append(float(value()))
            for tensor, old in zip(tensors, before, strict=True):
                tensor.copy_(old)
    return (found[0] - found[1]) / (2 * step)


def _parameters(made: Any, view: View) -> dict[str, nn.Parameter]:
    """The parameters that are trained, of the model for the view's kind of scope where there are several."""
    chosen = [made[view.kind]] if isinstance(made, dict) else modules(made)
    return {name: p for module in chosen for name, p in module.named_parameters() if p.requires_grad}


@check_each(
    *NETWORK,
    contract="a part learns from its own initialisation: the error of a tiny task falls",
    covers=has_state,
)
def learning(harness: Harness) -> None:
    """Twenty steps of Adam towards what another instance of the part gives."""
    view = plain_view(harness.kinds[0], 2, 4)
    tensors = harness.draw(view)
    wanted = harness.run(harness.make(seed=5), tensors, view).cloned().floats()
    harness.forget()
    made = harness.make(seed=1, random=False)
    parameters = list(_parameters(made, view).values())
    if not parameters or not wanted:
        raise NotApplicableError("it has no parameters that are trained")
    optimiser = torch.optim.Adam(parameters, lr=0.03)
    errors = []
    for _ in range(20):
        outputs = harness.run(made, tensors, view).floats()
        error = torch.stack([((t - wanted[name]) ** 2).mean() for name, t in outputs.items()]).sum()
        errors.append(float(error.detach()))
        optimiser.zero_grad()
        if error.requires_grad:
            torch.autograd.backward(error)
            optimiser.step()
    harness.forget()
    if not errors[-1] < 0.99 * errors[0] and errors[0] > 1e-9:
        raise BrokenError(
            f"it does not learn: the error is {errors[0]:.4g}, and {errors[-1]:.4g} after {len(errors)} steps; "
            "do all its gradients vanish where it begins?"
        )


@check_each(
    *NETWORK,
    contract="training differs from evaluation by dropout alone, at the rate of `dims.dropout`",
    covers=has_state,
)
def modes(harness: Harness) -> None:
    """Without dropout both modes give the same; with it evaluation does not change, and no buffer ever does."""
    for view in (plain_view(harness.kinds[0], 2, 4), plain_view(harness.kinds[0], 3, 5)):
        tensors, made = harness.draw(view, 1), harness.make()
        expected = harness.run(made, tensors, view).cloned()
        state = state_of(made)
        try:
            for module in modules(made):
                module.train()
            given = harness.run(made, tensors, view)
            alike(given, expected, "in training, where dims.dropout is 0")
        finally:
            for module in modules(made):
                module.eval()
        _unchanged(state, made)
        if not isinstance(harness, SizedHarness):
            continue
        dropping = attrs.evolve(harness, dims=attrs.evolve(harness.dims, dropout=0.5)).make()
        alike(harness.run(dropping, tensors, view), expected, "in evaluation, where dims.dropout is 0.5")
        state = state_of(dropping)
        drawn = []
        for _ in range(2):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(3)
                drawn.append(harness.run(dropping.train(), tensors, view))
        alike(drawn[1], drawn[0], "in training, twice from one state of torch's generator")
        _unchanged(state, dropping)


def _unchanged(state: dict[str, Tensor], made: Any) -> None:
    for name, value in state_of(made).items():
        same(value, state[name], f"the state {name} after a call in training", tolerance=0.0)

"""A part in training: gradients that are right and reach everything, a loss that falls, and dropout alone beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from peirce.parts import Operator
from peirce.testing.check import Case, check, holds
from peirce.testing.checks.calls import modules
from peirce.testing.checks.declared import NETWORK
from peirce.testing.compare import same
from peirce.testing.failures import BrokenError, NotApplicableError
from peirce.testing.strategies import Example, normal
from peirce.testing.subjects import ArchitectureSubject, Subject
from peirce.testing.subjects.sized import SizedSubject
from peirce.testing.views import View, plain_view

STEPS = (1e-6, 1e-8)
"""Of finite differences. A kink between two points is not between two nearer ones."""
RELATIVE, ABSOLUTE = 1e-4, 1e-7
"""Of the gradient along a direction; float64 gives more, but for square roots of small numbers."""


@check(
    *NETWORK,
    contract="the gradients of all inputs and parameters are those of finite differences, and reach every parameter",
)
def gradients(case: Case) -> None:
    """In float64, along random directions: all at once, and one by one where that fails."""

    def each(subject: Subject) -> None:
        reached: dict[str, bool] = {}
        flat: dict[str, bool] = {}
        network = isinstance(subject, ArchitectureSubject)

        def body(sized: Subject, example: Example) -> None:
            made = sized.make()
            scale = (1.0, 4.0)[example.seed % 2]
            tensors = [_leaf(t) for t in sized.draw(example.view, example.generator(), scale=scale)]
            named = {
                slot.name: tensor
                for slot, tensor in zip(sized.reads(), tensors, strict=True)
                if tensor.is_floating_point()
            }
            if named:
                reached.setdefault("", True)
            wanted = _parameters(made, example.view)
            for name in wanted:
                reached.setdefault(name, False)
            leaves = named | {f"the parameter {name}": parameter for name, parameter in wanted.items()}
            if not leaves:
                return

            def value() -> Tensor | None:
                outputs = [t for _, t in sized.run(made, tensors, example.view) if t.is_floating_point()]
                if not outputs:
                    return None
                generator = example.generator(7)
                return torch.stack([(t * normal(t.shape, generator)).sum() for t in outputs]).sum()

            found = compare_gradients(value, leaves, example.generator(8))
            for name in wanted:
                gradient = found.get(f"the parameter {name}")
                # In a network without positions some atoms are zero, and what they are mapped by has no gradient.
                reached[name] |= gradient is not None and (network or bool(gradient.any()))
            for name, tensor in named.items():
                gradient = found.get(name)
                if gradient is not None and bool(gradient.any()):
                    flat[name] = False
                elif flat.get(name, True) and _matters(value, tensor, example.generator(9)):
                    flat[name] = True

        kinds = subject.kinds[:2] if network else None
        padded = False if case.entry.kind == "operators" else None
        holds(subject, body, kinds=kinds, count=10 if kinds is None else 4, padded=padded)
        if steps := [name for name, only in flat.items() if only]:
            raise BrokenError(
                f"the output depends on {', '.join(steps)}, and the gradient is zero everywhere: it goes in steps, as "
                "after rounding, a comparison or a choice of the largest"
            )
        missed = [name for name, found in reached.items() if not found]
        if missed:
            raise BrokenError(
                f"no gradient ever reaches the parameter {', '.join(missed)}: nothing depends on it"
            )
        if not reached:
            raise NotApplicableError("it reads no floats, and has no parameters that are trained")

    case.each(each)


def compare_gradients(
    value: Any, leaves: dict[str, Tensor], generator: torch.Generator
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


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor


def _parameters(made: Any, view: View) -> dict[str, nn.Parameter]:
    """The parameters that are trained, of the model for the view's kind of scope where there are several."""
    chosen = [made[view.kind]] if isinstance(made, dict) else modules(made)
    return {name: p for module in chosen for name, p in module.named_parameters() if p.requires_grad}


def _has_parameters(part: type[Any]) -> bool:
    return not issubclass(part, Operator)


@check(
    *NETWORK,
    contract="a part learns from its own initialisation: the error of a tiny task falls",
    covers=_has_parameters,
)
def learning(case: Case) -> None:
    """Twenty steps of Adam towards what another instance of the part gives."""

    def body(subject: Subject) -> None:
        kind = subject.kinds[0]
        view = plain_view(kind, 2, 4)
        tensors = subject.draw(view, torch.Generator().manual_seed(0))
        wanted = [t.detach().clone() for _, t in subject.run(subject.make(seed=5), tensors, view)]
        if isinstance(subject, ArchitectureSubject):
            subject.forget()
        made = subject.make(seed=1, random=False)
        parameters = list(_parameters(made, view).values())
        if not parameters or not any(t.is_floating_point() for t in wanted):
            raise NotApplicableError("it has no parameters that are trained")
        optimiser = torch.optim.Adam(parameters, lr=0.03)
        errors = []
        for _ in range(20):
            outputs = subject.run(made, tensors, view)
            error = torch.stack(
                [
                    ((t - w) ** 2).mean()
                    for (_, t), w in zip(outputs, wanted, strict=True)
                    if t.is_floating_point()
                ]
            ).sum()
            errors.append(float(error.detach()))
            optimiser.zero_grad()
            if error.requires_grad:
                torch.autograd.backward(error)
                optimiser.step()
        if isinstance(subject, ArchitectureSubject):
            subject.forget()
        if not errors[-1] < 0.99 * errors[0] and errors[0] > 1e-9:
            raise BrokenError(
                f"it does not learn: the error is {errors[0]:.4g}, and {errors[-1]:.4g} after {len(errors)} steps; "
                "do all its gradients vanish where it begins?"
            )

    case.each(body)


@check(
    *NETWORK,
    contract="training differs from evaluation by dropout alone, at the rate of `dims.dropout`",
    covers=_has_parameters,
)
def modes(case: Case) -> None:
    """Without dropout both modes give the same; with it evaluation does not change, and no buffer ever does."""

    def body(subject: Subject) -> None:
        kind = subject.kinds[0]
        views = [plain_view(kind, 2, 4), plain_view(kind, 3, 5)]
        for view in views:
            tensors = subject.draw(view, torch.Generator().manual_seed(1))
            made = subject.make()
            expected = [(slot, t.detach().clone()) for slot, t in subject.run(made, tensors, view)]
            _trained(subject, made, tensors, view, expected, "in training, where dims.dropout is 0")
            if isinstance(subject, SizedSubject):
                dropping = attrs.evolve(subject, dims=attrs.evolve(subject.dims, dropout=0.5)).make()
                for (slot, result), (_, wanted) in zip(
                    subject.run(dropping, tensors, view), expected, strict=True
                ):
                    same(result, wanted, f"{slot.name} in evaluation, where dims.dropout is 0.5")
                state = _state(dropping)
                for module in modules(dropping):
                    module.train()
                drawn = []
                for _ in range(2):
                    with torch.random.fork_rng(devices=[]):
                        torch.manual_seed(3)
                        drawn.append(subject.run(dropping, tensors, view))
                for (slot, one), (_, two) in zip(*drawn, strict=True):
                    same(two, one, f"{slot.name} in training, twice from one state of torch's generator")
                _unchanged(state, dropping)

    case.each(body)


def _trained(
    subject: Subject, made: Any, tensors: list[Tensor], view: View, expected: Any, what: str
) -> None:
    state = _state(made)
    try:
        for module in modules(made):
            module.train()
        for (slot, result), (_, wanted) in zip(subject.run(made, tensors, view), expected, strict=True):
            same(result, wanted, f"{slot.name} {what}")
    finally:
        for module in modules(made):
            module.eval()
    _unchanged(state, made)


def _state(made: Any) -> dict[str, Tensor]:
    return {
        f"{i} {name}": t.clone() for i, m in enumerate(modules(made)) for name, t in m.state_dict().items()
    }


def _unchanged(state: dict[str, Tensor], made: Any) -> None:
    for name, value in _state(made).items():
        same(
            value, state[name], f"the state {name.partition(' ')[2]} after a call in training", tolerance=0.0
        )

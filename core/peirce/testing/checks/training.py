"""A part in training: gradients that are right and reach everything, a loss that falls, and dropout alone beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from peirce.parts import PureOperator, RecurrentOperator
from peirce.testing.check import NETWORK, check, on_examples
from peirce.testing.compare import BrokenError, NotApplicableError, alike, same_state
from peirce.testing.examples import Example, View, normal, plain_view
from peirce.testing.harness.architectures import ArchitectureHarness
from peirce.testing.harness.base import Harness, modules, state_of
from peirce.testing.harness.sized import LayerHarness, SizedHarness


@check(*NETWORK)
def gradients(harness: Harness) -> None:
    """The gradients of all inputs and parameters are those of finite differences, and reach every parameter. In
    float64, along random directions: all at once, and one by one where that fails.
    """
    reached: dict[str, bool] = {}
    flat: dict[str, bool] = {}
    network, tried = isinstance(harness, ArchitectureHarness), False

    def body(sized: Harness, example: Example) -> None:
        nonlocal tried
        made, view = sized.make(), example.view
        for module in modules(made):  # without dropout, training is as evaluation
            module.train(example.seed % 2 == 1)
        tensors = sized.draw(view, example.generator(), scale=(1.0, 4.0)[example.seed % 2]).leaves()
        read = tensors.floats()
        wanted = {f"the parameter {name}": p for name, p in _parameters(made, view).items()}
        reached.update({name: reached.get(name, False) for name in wanted})
        if not (leaves := read | wanted):
            return
        tried = True

        def value() -> Tensor | None:
            generator = example.generator(7)
            outputs = sized.run(made, tensors, view).floats().values()
            found = [(t * normal(t.shape, generator)).sum() for t in outputs]
            return torch.stack(found).sum() if found else None

        found = compare_gradients(value, leaves, example.generator(8))
        some = {name for name, gradient in found.items() if gradient is not None and bool(gradient.any())}
        for name in wanted:
            # In a network without positions some atoms are zero, and what they are mapped by has no gradient.
            reached[name] |= name in some or (network and found.get(name) is not None)
        for name, tensor in read.items():
            if name in some:
                flat[name] = False
            elif flat.get(name, True) and _matters(value, tensor, example.generator(9)):
                flat[name] = True

    # Rows of padding see nothing, which is what `empty_rows` is about.
    padded = False if isinstance(harness, LayerHarness) else None
    kinds, count = (harness.kinds[:2], 4) if network else (None, 10)
    lengths = (1, 2, 3, 4, 5, 24) if issubclass(harness.part, RecurrentOperator) else (1, 2, 3, 4, 5)
    try:
        on_examples(harness, body, kinds=kinds, count=count, padded=padded, lengths=lengths)
    finally:
        harness.forget()  # a model that is kept may be in training
    if steps := [name for name, only in flat.items() if only]:
        raise BrokenError(
            f"the output depends on {', '.join(steps)}, and the gradient is zero everywhere: it goes in steps, as "
            "after rounding, a comparison or a choice of the largest"
        )
    if missed := [name for name, found in reached.items() if not found]:
        raise BrokenError(f"no gradient ever reaches {', '.join(missed)}: nothing depends on it")
    if not tried:
        raise NotApplicableError("it reads no floats, and has no parameters that are trained")


def compare_gradients(
    value: Callable[[], Tensor | None],
    leaves: dict[str, Tensor],
    generator: torch.Generator,
    *,
    steps: tuple[float, float] = (1e-6, 1e-8),
    relative: float = 1e-4,
    absolute: float = 1e-7,
) -> dict[str, Tensor | None]:
    """Hold autograd's gradient of a scalar to finite differences.

    Args:
        value: computes the scalar from the leaves; None where there is none.
        leaves: what it may depend on, by name.
        generator: of the directions.
        steps: of the differences. A kink between two points is not between two nearer ones.
        relative: tolerance of the gradient along a direction; float64 gives more, but for square roots of small
            numbers.
        absolute: tolerance at the first of the steps.

    Returns:
        The gradients that autograd gives, by name; None where the scalar does not depend on a leaf.

    Raises:
        BrokenError: a gradient is another one.
    """
    total, tensors = value(), list(leaves.values())
    if total is None:
        return {}
    given: Sequence[Tensor | None] = [None] * len(tensors)
    if total.requires_grad:
        given = torch.autograd.grad(total, tensors, allow_unused=True)
    moves = [(tensor, normal(tensor.shape, generator)) for tensor in tensors]
    expected = [0.0 if g is None else float((g * d).sum()) for g, (_, d) in zip(given, moves, strict=True)]

    def misses(moves: list[tuple[Tensor, Tensor]], ours: float) -> float | None:
        """The slope along a direction, if it is another one than autograd's."""
        for step in steps:
            theirs = _slope(value, moves, step)
            if abs(theirs - ours) <= relative * max(abs(ours), abs(theirs)) + absolute * (steps[0] / step):
                return None
        return theirs

    if misses(moves, sum(expected)) is not None:
        for name, move, ours in zip(leaves, moves, expected, strict=True):
            if (theirs := misses([move], ours)) is not None:
                cause = "; it is detached on its way" if not ours else ""
                raise BrokenError(
                    f"the gradient of {name} along a direction is {ours:.6g}, and finite differences give "
                    f"{theirs:.6g}{cause}"
                )
    return dict(zip(leaves, given, strict=True))


@torch.no_grad()
def _slope(value: Any, moves: list[tuple[Tensor, Tensor]], step: float) -> float:
    """The slope of a scalar along directions of some leaves."""
    found, before = [], [tensor.detach().clone() for tensor, _ in moves]
    for sign in (step, -step):
        for tensor, direction in moves:
            tensor.add_(direction, alpha=sign)
        found.append(float(value()))
        for (tensor, _), old in zip(moves, before, strict=True):
            tensor.copy_(old)
    return (found[0] - found[1]) / (2 * step)


@torch.no_grad()
def _matters(value: Any, tensor: Tensor, generator: torch.Generator) -> bool:
    """Whether a scalar is another one when a tensor of its inputs is."""
    before, kept = float(value()), tensor.detach().clone()
    tensor.copy_(normal(tensor.shape, generator) * 3)
    after = float(value())
    tensor.copy_(kept)
    return abs(after - before) > 1e-4 * max(abs(after), abs(before)) + 1e-7


def _parameters(made: Any, view: View) -> dict[str, nn.Parameter]:
    """The parameters that are trained, of the model for the view's kind of scope where there are several."""
    chosen = [made[view.kind]] if isinstance(made, dict) else modules(made)
    return {name: p for module in chosen for name, p in module.named_parameters() if p.requires_grad}


@check(*NETWORK, but=PureOperator)
def learning(harness: Harness) -> None:
    """A part learns from its own initialisation: the error of a tiny task falls. Twenty steps of Adam towards what
    another instance of the part gives.
    """
    view = plain_view(harness.kinds[0], 2, 4)
    tensors = harness.draw(view)
    wanted = harness.run(harness.make(seed=5), tensors, view).cloned().floats()
    harness.forget()
    made = harness.make(seed=1, random=False)
    for module in modules(made):
        module.train()
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


@check(*NETWORK, but=PureOperator)
def modes(harness: Harness) -> None:
    """Training differs from evaluation by dropout alone, at the rate of `dims.dropout`. Without dropout both modes give
    the same; with it evaluation does not change, and no buffer ever does.
    """
    for view in (plain_view(harness.kinds[0], 2, 4), plain_view(harness.kinds[0], 3, 5)):
        tensors, made = harness.draw(view, 1), harness.make()
        expected = harness.run(made, tensors, view).cloned()
        _in_training(made, partial(harness.run, made, tensors, view), expected, "where dims.dropout is 0")
        if isinstance(harness, SizedHarness):
            dropping = attrs.evolve(harness, dims=attrs.evolve(harness.dims, dropout=0.5)).make()
            alike(harness.run(dropping, tensors, view), expected, "in evaluation, where dims.dropout is 0.5")
            drawn = partial(_seeded, harness, dropping.train(), tensors, view)
            _in_training(dropping, drawn, drawn(), "twice from one state of torch's generator")


def _seeded(harness: Harness, made: Any, tensors: Any, view: View) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return harness.run(made, tensors, view)


def _in_training(made: Any, call: Callable[[], Any], expected: Any, when: str) -> None:
    """Hold what a part gives in training to what is expected, and its buffers to what they were."""
    state = state_of(made)
    try:
        for module in modules(made):
            module.train()
        alike(call(), expected, f"in training, {when}")
    finally:
        for module in modules(made):
            module.eval()
    same_state(state_of(made), state, "after a call in training")

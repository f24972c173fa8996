"""A part in training: gradients that are right and reach everything, a loss that falls, and dropout alone beside it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.utils.checkpoint import checkpoint

from peirce.parts import Head, PureOperator, RecurrentOperator, StateOperator
from peirce_testing.check import NETWORK, check, on_examples
from peirce_testing.checks.inputs import any_differ
from peirce_testing.checks.values import kept_tensors
from peirce_testing.compare import (
    BrokenError,
    NotApplicableError,
    assert_all_equal,
    assert_equal,
    assert_finite,
    assert_gradients,
    assert_same_state,
)
from peirce_testing.examples import Example, Slot, Tensors, View, normal, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import Harness, modules, state_of
from peirce_testing.harness.labels import WHOLE_GROUPS, losses
from peirce_testing.harness.sized import HeadHarness, LayerHarness, StateOperatorHarness


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
        instance, view = sized.make(), example.view
        for module in modules(instance):  # without dropout, training is as evaluation
            module.train(example.seed % 2 == 1)
        tensors = sized.draw(view, example.generator(), scale=(1.0, 4.0)[example.seed % 2]).leaves()
        read = tensors.floats()
        wanted = {f"the parameter {name}": p for name, p in _parameters(instance, view).items()}
        reached.update({name: reached.get(name, False) for name in wanted})
        if not (leaves := read | wanted):
            return
        tried = True

        def value() -> Tensor | None:
            generator = example.generator(7)
            outputs = sized.run(instance, tensors, view).floats().values()
            found = [(t * normal(t.shape, generator)).sum() for t in outputs]
            if isinstance(instance, StateOperator) and instance.training:
                found += [term.sum() for term in instance.terms().values()]
            return torch.stack(found).sum() if found else None

        found = assert_gradients(value, leaves, example.generator(8))
        some = {name for name, gradient in found.items() if gradient is not None and bool(gradient.any())}
        for name in wanted:
            # In a network without positions some atoms are zero, and what they are mapped by has no gradient.
            reached[name] |= name in some or (network and found.get(name) is not None)
        for name, tensor in read.items():
            if name in some:
                flat[name] = False
            elif flat.get(name, True) and _depends_on(value, tensor, example.generator(9)):
                flat[name] = True

    # Rows of padding see nothing, which is what `empty_rows` is about.
    padded = False if isinstance(harness, LayerHarness) else None
    kinds, count = (harness.kinds[:2], 4) if network else (None, 10)
    lengths = (1, 2, 3, 4, 5, 24) if issubclass(harness.part, RecurrentOperator) else (1, 2, 3, 4, 5)
    try:
        on_examples(harness, body, kinds=kinds, count=count, padded=padded, lengths=lengths)
        if harness.effort < 1 and not all(
            reached.values()
        ):  # few examples do not show that nothing depends on it
            more = round(1 / harness.effort)
            on_examples(harness, body, kinds=kinds, count=count, factor=more, padded=padded, lengths=lengths)
    finally:
        harness.forget()  # a model that is kept may be in training
    if steps := [name for name, only in flat.items() if only]:
        raise BrokenError(
            f"the output depends on {', '.join(steps)}, and the gradient is zero everywhere: it changes in steps, as "
            "after rounding, a comparison or a choice of the largest"
        )
    if missed := [name for name, found in reached.items() if not found]:
        raise BrokenError(f"no gradient ever reaches {', '.join(missed)}: nothing depends on it")
    if not tried:
        raise NotApplicableError("it reads no floats, and has no parameters that are trained")


@torch.no_grad()
def _depends_on(value: Any, tensor: Tensor, generator: torch.Generator) -> bool:
    """Whether a scalar is another one when a tensor of its inputs is."""
    before, kept = float(value()), tensor.detach().clone()
    tensor.copy_(normal(tensor.shape, generator) * 3)
    after = float(value())
    tensor.copy_(kept)
    return abs(after - before) > 1e-4 * max(abs(after), abs(before)) + 1e-7


def _parameters(instance: Any, view: View) -> dict[str, nn.Parameter]:
    """The parameters that are trained, of the model for the view's kind of scope where there are several."""
    chosen = [instance[view.kind]] if isinstance(instance, dict) else modules(instance)
    return {name: p for module in chosen for name, p in module.named_parameters() if p.requires_grad}


DRAWS = 60
"""Passes in training whose mean is compared with evaluation."""


@check(*NETWORK, but=PureOperator)
def learning(harness: Harness) -> None:
    """A part learns from its own initialisation: the error of a tiny task falls. Twenty steps of Adam towards what
    another instance of the part gives; and a head's `fit` raises no loss of what it is given.
    """
    view = plain_view(harness.kinds[0], 2, 4)
    tensors = harness.draw(view)
    wanted = harness.run(harness.make(seed=5), tensors, view).clone_all().floats()
    harness.forget()
    instance = harness.make(seed=1, random=False)
    for module in modules(instance):
        module.train()
    parameters: list[Tensor] = list(_parameters(instance, view).values())
    if not parameters or not wanted:
        raise NotApplicableError("it has no parameters that are trained")
    # Making a `torch.optim.Adam` imports torch's compiler, which takes longer than most checks; its function does not.
    means, squares = ([torch.zeros_like(each) for each in parameters] for _ in range(2))
    steps = [torch.zeros(()) for _ in parameters]
    errors = []
    for _ in range(20):
        outputs = harness.run(instance, tensors, view).floats()
        error = torch.stack([((t - wanted[name]) ** 2).mean() for name, t in outputs.items()]).sum()
        errors.append(float(error.detach()))
        if error.requires_grad:
            slopes = torch.autograd.grad(error, parameters, allow_unused=True, materialize_grads=True)
            with torch.no_grad():
                adam(
                    parameters, list(slopes), means, squares, [], steps, foreach=False, amsgrad=False, maximize=False,
                    beta1=0.9, beta2=0.999, lr=0.03, weight_decay=0.0, eps=1e-8,
                )  # fmt: skip
    harness.forget()
    if not errors[-1] < 0.99 * errors[0] and errors[0] > 1e-9:
        raise BrokenError(
            f"it does not learn: the error is {errors[0]:.4g}, and {errors[-1]:.4g} after {len(errors)} steps; "
            "do all its gradients vanish where it begins?"
        )
    if isinstance(harness, HeadHarness) and harness.part.fit is not Head.fit:
        before, after = harness.fit_losses(harness.make(seed=1, random=False))
        harness.forget()
        if not after <= before:
            raise BrokenError(f"`fit` raises the loss of what it is given, from {before:.4g} to {after:.4g}")


@check(*NETWORK, but=PureOperator)
def modes(harness: Harness) -> None:
    """Training differs from evaluation by dropout alone, at the rate of `dims.dropout`. Without dropout both modes give
    the same; with it evaluation does not change, and no buffer ever does. Losses too, and without gradients, as the
    first pass of what is recomputed.
    """
    half, most = harness.with_dropout(0.5), harness.with_dropout(0.9)
    batch = WHOLE_GROUPS if isinstance(harness, HeadHarness) else 2
    instance, dropping, more = harness.make(), half.make(), most.make()
    kept: list[int] = []
    for view in (plain_view(harness.kinds[0], batch, length) for length in (4, 5)):
        tensors = harness.draw(view, 1)
        expected = _outputs_and_losses(harness, instance, tensors, view)
        assert_all_equal(
            _outputs_and_losses(half, dropping, tensors, view),
            expected,
            "in evaluation, where dims.dropout is 0.5",
        )
        assert_all_equal(
            _train_outputs(harness, instance, tensors, view), expected, "in training, where dims.dropout is 0"
        )
        kept.append(len(kept_tensors(instance)))
        dropped = [_train_outputs(half, dropping, tensors, view, seed) for seed in range(6)]
        for what, mode in (("again", torch.enable_grad), ("without gradients", torch.no_grad)):
            with mode():
                again = _train_outputs(half, dropping, tensors, view, 0)
                assert_all_equal(
                    again, dropped[0], f"in training, {what}, from one state of torch's generator"
                )
        # Whole examples may be dropped, so that two rates do the same from one state of the generator.
        others = [_train_outputs(most, more, tensors, view, seed) for seed in range(6)]
        if any(any_differ(one, expected) for one in dropped):
            if not any(map(any_differ, dropped, others)):
                raise BrokenError("it drops out as much with dims.dropout = 0.9 as with 0.5")
            if not isinstance(harness, ArchitectureHarness):  # layer behind layer, any mean may come out
                _check_mean(half, dropping, tensors, view, expected)
        _check_recomputed(half, dropping, tensors, view)
    if kept[0] < kept[1]:
        raise BrokenError(
            f"each call in training leaves tensors behind: {kept[0]} after one, {kept[1]} after more"
        )


def _check_recomputed(harness: Harness, instance: Any, tensors: Tensors, view: View) -> None:
    """Compare gradients where the pass is recomputed, as gradient checkpointing does, with those where it is kept."""

    def gradients(recompute: bool) -> dict[str, Tensor]:
        leaves = tensors.leaves()

        def run() -> list[Tensor]:
            return [*harness.run(instance, leaves, view).floats().values()]

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            results = checkpoint(run, use_reentrant=False) if recompute else run()
            total = sum(result.cos().sum() for result in results if result.requires_grad)
        wanted = leaves.floats() | {f"the parameter {n}": p for n, p in _parameters(instance, view).items()}
        if not wanted or not isinstance(total, Tensor):
            return {}
        slopes = torch.autograd.grad(total, [*wanted.values()], allow_unused=True, materialize_grads=True)
        return dict(zip(wanted, slopes, strict=True))

    for module in modules(instance):
        module.train()
    kept, recomputed = gradients(False), gradients(True)
    for module in modules(instance):
        module.eval()
    for name, slope in kept.items():
        assert_equal(recomputed[name], slope, f"the gradient of {name} where the pass is recomputed")


def _check_mean(harness: Harness, instance: Any, tensors: Tensors, view: View, expected: Tensors) -> None:
    """Check that what is kept is scaled up for what is dropped: values in the mean over many draws, about as they are.

    A map behind the dropout may be curved, so half and one and a half times as much are near enough.
    """
    with torch.no_grad():
        drawn = [_train_outputs(harness, instance, tensors, view, seed) for seed in range(DRAWS)]
    for place, (slot, wanted) in enumerate(expected):
        if wanted.is_floating_point() and slot.axes:
            mean = torch.stack([each[place][1].double() for each in drawn]).mean(0)
            size = float((wanted.double() ** 2).sum())
            share = float((mean * wanted).sum()) / size if size else 1.0
            if not 0.6 < share < 1.7:
                raise BrokenError(
                    f"{slot.name} in training is in the mean {share:.2f} times that of evaluation, with dims.dropout = "
                    "0.5; divide what is kept by what is kept in the mean, as torch's dropout does"
                )


def _outputs_and_losses(
    harness: Harness, instance: Any, tensors: Tensors, view: View, seed: int = 0
) -> Tensors:
    """What a part gives from one state of torch's generator, a head its losses too."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        outputs = harness.run(instance, tensors, view).clone_all()
        if isinstance(harness, HeadHarness):
            predicted = {slot.name: tensor for slot, tensor in outputs}
            found = losses(instance, predicted, torch.Generator().manual_seed(2))
            outputs += [(Slot(f"the loss with {form}", ()), value.detach()) for form, _, value in found]
    return outputs


def _train_outputs(harness: Harness, instance: Any, tensors: Tensors, view: View, seed: int = 0) -> Tensors:
    """What it gives in training, which leaves its buffers as they were."""
    state = state_of(instance)
    try:
        for module in modules(instance):
            module.train()
        found = _outputs_and_losses(harness, instance, tensors, view, seed)
    finally:
        for module in modules(instance):
            module.eval()
    assert_same_state(state_of(instance), state, "after a call in training")
    return found


@check("operators", but=(PureOperator, RecurrentOperator))
def terms(harness: StateOperatorHarness) -> None:
    """What an operator adds to the loss are finite scalars, and padding counts for nothing in them. Of one example with
    padding and without, and of padding alone.
    """
    instance = harness.make().train()

    def terms_of(view: View, tensors: Tensors) -> dict[str, Tensor]:
        harness.run(instance, tensors, view)
        return {name: term.detach() for name, term in instance.terms().items()}

    real = torch.tensor([[True, True, True, False, False]])
    view, where = plain_view(harness.kinds[0], 1, 5, real), torch.arange(3)
    tensors = harness.draw(view)
    padded, alone = terms_of(view, tensors), terms_of(view.example(0, where), tensors.example(0, where))
    if not padded:
        raise NotApplicableError("it adds nothing to the loss")
    nothing = terms_of(plain_view(harness.kinds[0], 1, 5, torch.zeros_like(real)), tensors)
    for name, term in (*padded.items(), *nothing.items()):
        if term.dim():
            raise BrokenError(f"the term {name!r} has the shape {list(term.shape)} and must be a scalar")
        assert_finite(term, f"the term {name!r}, of padding alone too,")
    for name, term in padded.items():
        assert_equal(term, alone[name], f"the term {name!r} of an example with padding, against it without")

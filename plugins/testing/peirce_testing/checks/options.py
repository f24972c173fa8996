"""The options of a part: each does something, and the defaults work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import attrs
import torch
from torch import Tensor

from peirce.errors import PeirceError
from peirce.parts import Head, PureOperator, StateOperator
from peirce_testing.check import NETWORK, Case, check
from peirce_testing.checks.numerics import OperationObserver
from peirce_testing.compare import BrokenError, NotApplicableError
from peirce_testing.examples import dims_of, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import Harness, modules
from peirce_testing.harness.labels import WHOLE_GROUPS, losses
from peirce_testing.harness.sized import HeadHarness, SizedHarness, refusal
from peirce_testing.options import choices, variations, with_value
from peirce_testing.tiny_models import fit_scope, tiny_spec

LARGER = attrs.evolve(dims_of(2, 16, 5, 7), max_length=40)
"""Sizes at which options do what they cannot do to a head of two channels."""
ORDINARY = attrs.evolve(dims_of(8, 64, 64, 128), layers=12, vocabulary=30_000, max_length=512)
"""Sizes that defaults may be meant for."""


@check(*NETWORK)
def options(case: Case) -> None:
    """Each option changes something: values, parameters, shapes, the loss, or how it is computed. Other values of one
    option at a time, from the example's options and from each other choice, and at larger sizes.
    """
    silent: dict[str, list[str]] = {}
    harnesses = [*map(_few_scopes, case.harnesses)]
    larger = (each.resize(LARGER) for each in harnesses if isinstance(each, SizedHarness))
    for harness in (*harnesses, *larger):
        before: list[Any] = []
        for name, value in variations(harness.options):
            if silent.get(name) == []:
                continue  # it has done something already
            if (other := with_option(harness, name, value)) is not None:
                before = before or _observe_with_count(harness)
                tried = silent.setdefault(name, [])
                tried.append(f"{value!r}")
                if _differs(before, _observe_with_count(other)):
                    tried.clear()
    if dead := {name: ", ".join(dict.fromkeys(tried)) for name, tried in silent.items() if tried}:
        now = case.harness.options
        messages = (
            f"option {n!r} has no effect: {tried} give the same as {getattr(now, n)!r}"
            for n, tried in dead.items()
        )
        raise BrokenError("\n".join(messages))
    if not silent:
        raise NotApplicableError("it has no options that can be varied")


def with_option(harness: Harness, name: str, value: Any) -> Harness | None:
    """The part with another value of one option; None where it is refused."""
    with suppress(TypeError, ValueError, PeirceError):
        return with_options(harness, with_value(harness.options, name, value))
    return None


def with_options(harness: Harness, options: Any) -> Harness | None:
    """The part with other options; None where it refuses them.

    Raises:
        PeirceError: the architecture refuses them.
    """
    if isinstance(harness, ArchitectureHarness):
        tiny = {kind: tiny_spec(harness.part, options, scope=kind) for kind in harness.specs}
        specs = {kind: fit_scope(spec, harness.registry) for kind, spec in tiny.items()}
        return attrs.evolve(harness, options=options, specs=specs)
    refused = refusal(harness.part, options, harness.dims)
    return attrs.evolve(harness, options=options) if refused is None else None


def _few_scopes(harness: Harness) -> Harness:
    """An architecture in two kinds of scope, so that what is seen of two choices is of the same kinds."""
    return harness.few(2) if isinstance(harness, ArchitectureHarness) else harness


def _observe_with_count(harness: Harness) -> list[Any]:
    """What `observations` gives, then the number of operations that it took."""
    with _OperationCounter() as counter:
        found = list(observations(harness))
    if isinstance(harness, HeadHarness) and harness.part.fit is not Head.fit:
        found.append(str(harness.fit_losses(harness.make())))
        harness.forget()
    return [*found, str(counter.count)]


def observations(harness: Harness) -> Iterator[Any]:
    """What a part shows: texts (shapes, declarations, errors) and tensors (state, results, losses)."""
    for module in modules(harness.make(seed=3, random=False)):
        yield str([(name, p.requires_grad, tuple(p.shape)) for name, p in module.named_parameters()])
        yield from module.state_dict().values()
    instance = harness.make()
    if isinstance(instance, PureOperator):
        yield repr((instance.readings(), instance.output()))
    if isinstance(harness, SizedHarness):
        yield str(
            [
                str(getattr(instance, method)())
                for method in ("inputs", "outputs")
                if hasattr(instance, method)
            ]
        )
        few = attrs.evolve(harness.dims, token_types=1, binary=0, feedforward_binary=0)
        yield str([refusal(harness.part, harness.options, sizes) for sizes in (harness.dims, few)])
    kinds, batch = harness.kinds, WHOLE_GROUPS if isinstance(harness, HeadHarness) else 2
    for kind, length in ((kinds[0], 4), (kinds[-1], 7), (kinds[0], 38)):
        view = plain_view(kind, batch, length)
        tensors = harness.draw(view, length)
        results = harness.run(instance, tensors, view)
        yield from (result.detach() for _, result in results)
        if isinstance(harness, HeadHarness):
            found = losses(
                instance, harness.predict(instance, tensors, view), torch.Generator().manual_seed(0)
            )
            yield from (loss.detach() for _, _, loss in found)
        if isinstance(harness, ArchitectureHarness):
            yield from _in_training(harness, instance, tensors, view)
        if isinstance(instance, StateOperator):
            harness.run(instance.train(), tensors, view)
            yield from (term.detach() for term in instance.terms().values())
            instance.eval()


def _in_training(harness: Harness, instance: Any, tensors: Any, view: Any) -> list[Tensor]:
    """What a network gives in training, where it may draw, such as the rounds that it leaves out."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for module in modules(instance):
            module.train()
        found = [result.detach() for _, result in harness.run(instance, tensors, view)]
    for module in modules(instance):
        module.eval()
    return found


class _OperationCounter(OperationObserver):
    """Counts torch's operations."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def _differs(one: list[Any], other: list[Any]) -> bool:
    def alike(a: Any, b: Any) -> bool:
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return torch.equal(a, b)
        return type(a) is type(b) and bool(a == b)

    return len(one) != len(other) or not all(map(alike, one, other))


@check(*NETWORK)
def defaults(case: Case) -> None:
    """The defaults of the options work, where all options have one; every choice can be built. The part with no options
    given, where its example gives some; and each choice, built and run.
    """
    try:
        plain: Any = case.part.Options()
    except (TypeError, ValueError):
        raise NotApplicableError("an option has no default") from None
    harness = case.harness.few(1) if isinstance(case.harness, ArchitectureHarness) else case.harness
    for label, chosen in (("its defaults", plain), *(choices(plain) if plain != harness.options else ())):
        other = with_options(harness, chosen)
        if other is None and chosen is plain:
            answers = [refusal(case.part, plain, sizes) for sizes in (LARGER, ORDINARY)]
            if None not in answers:
                raise BrokenError(f"`check` refuses the part's own defaults at every size: {answers[0]}")
        if other is not None and other.kinds:
            view = plain_view(other.kinds[0], 2, 4)
            try:
                other.once(other.draw(view), view)
            except Exception as error:
                error.add_note(f"with {label}")
                raise

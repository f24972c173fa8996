"""Where limits lie: several hundred tokens, many heads, widths that are no multiples of eight, one of everything."""

from __future__ import annotations

import attrs
import torch

from peirce.parts import Operator, RecurrentOperator, StateOperator
from peirce.testing.check import Case, check
from peirce.testing.checks.declared import NETWORK
from peirce.testing.checks.values import hold_reference
from peirce.testing.compare import finite, same
from peirce.testing.composed import fitting
from peirce.testing.strategies import sized
from peirce.testing.subjects import ArchitectureSubject, Subject
from peirce.testing.views import View, both, plain_view

LONG = 300
"""Tokens of a long text."""
WHERE = (0, 7, 131, 258, 299)
"""Where it has real tokens, in the half of the cases that has padding."""
WIDE = attrs.evolve(sized(17, 3, 13, 11), max_length=512, vocabulary=37)
NARROW = attrs.evolve(sized(1, 1, 1, 1), max_length=512)
ONE = attrs.evolve(sized(1, 1, 1, 1), layers=1, token_types=1, vocabulary=2, max_length=1)


@check(
    *NETWORK,
    contract="a part works at every size: several hundred tokens, many heads, odd widths, one of everything",
)
def limits(case: Case) -> None:
    """Few real tokens of many against these alone; many in another order; every size one, and every size odd."""

    def body(subject: Subject) -> None:
        kinds = subject.kinds[:2]
        for kind in kinds:
            one = _small(subject)
            view = plain_view(kind, 1, 1)
            for slot, result in one.once(one.draw(view, torch.Generator().manual_seed(0)), view):
                if result.is_floating_point():
                    finite(result.detach(), f"{slot.name} with one of everything")
        wide = _wide(subject)
        for kind in kinds:
            _few_of_many(wide, kind, LONG, WHERE)
        _few_of_many(wide, kinds[-1], 6, (1, 2, 5))
        if issubclass(subject.part, Operator):
            view = plain_view(kinds[-1], 1, 3)
            hold_reference(wide, view, wide.draw(view, torch.Generator().manual_seed(0)))
            _long_reference(subject.resized(NARROW))
        elif not isinstance(subject, ArchitectureSubject):
            view = plain_view(kinds[0], 1, LONG)
            with torch.no_grad():
                for slot, result in wide.once(wide.draw(view, torch.Generator().manual_seed(0)), view):
                    if result.is_floating_point():
                        finite(result, f"{slot.name} of {LONG} tokens")
        if issubclass(subject.part, Operator | StateOperator):
            _in_another_order(subject.resized(attrs.evolve(sized(2, 2, 2, 2), max_length=512)))
        if issubclass(subject.part, RecurrentOperator):
            _whole_reference(subject)

    case.each(body, where=lambda subject: bool(subject.kinds))


def _small(subject: Subject) -> Subject:
    return subject if isinstance(subject, ArchitectureSubject) else subject.resized(ONE)


def _wide(subject: Subject) -> Subject:
    if not isinstance(subject, ArchitectureSubject):
        return subject.resized(WIDE)
    specs = {
        kind: fitting(spec.replace({"model.input.max_length": 512}), subject.registry)
        for kind, spec in list(subject.specs.items())[:2]
    }
    return attrs.evolve(subject, specs=specs)


def _few_of_many(subject: Subject, kind: str, length: int, where: tuple[int, ...]) -> None:
    """What few real tokens get among padding, against what they get alone."""
    picked = torch.tensor(where)
    real = torch.zeros(1, length, dtype=torch.bool)
    real[0, picked] = True
    view = View(
        kind=kind, batch=1, length=length, real=real,
        prefix=torch.tensor([2]) if kind == "prefix" else None,
        relation=torch.ones(1, length, length, dtype=torch.bool) if kind == "relation" else None,
    )  # fmt: skip
    tensors = subject.draw(view, torch.Generator().manual_seed(0))
    made = subject.make()
    with torch.no_grad():
        results = subject.run(made, tensors, view)
        alone = [slot.example(tensor, 0, picked) for slot, tensor in both(subject.reads(), tensors)]
        expected = subject.run(made, alone, view.example(0, picked))
    for (slot, result), (_, single) in zip(results, expected, strict=True):
        what = f"{slot.name} of the real tokens {list(where)} among {length}, against these alone"
        same(slot.example(result, 0, picked), single, what)


def _in_another_order(subject: Subject) -> None:
    """A long text, and the same with its tokens in another order."""
    if "relation" not in subject.kinds:
        return
    generator = torch.Generator().manual_seed(0)
    length = 140 if getattr(subject.part, "typing", "") == "B <- B x B" else LONG
    pairs = (torch.rand(1, length, length, generator=generator) < 0.5) | torch.eye(length, dtype=torch.bool)
    view = View(kind="relation", batch=1, length=length, relation=pairs)
    order = torch.randperm(length, generator=generator)
    tensors = subject.draw(view, generator)
    moved = [slot.pick(tensor, order) for slot, tensor in both(subject.reads(), tensors)]
    made = subject.make()
    with torch.no_grad():
        results, others = subject.run(made, tensors, view), subject.run(made, moved, view.reordered(order))
    for (slot, result), (_, other) in zip(results, others, strict=True):
        same(other, slot.pick(result, order), f"{slot.name} of {length} tokens in another order")


def _long_reference(subject: Subject) -> None:
    """All of a long text against `reference`, which loops over pairs; over triples, that would take minutes."""
    if subject.part.typing != "B <- B x B":
        view = plain_view(subject.kinds[0], 1, LONG)
        hold_reference(subject, view, subject.draw(view, torch.Generator().manual_seed(0)))


def _whole_reference(subject: Subject) -> None:
    made = subject.make()
    view = plain_view(subject.kinds[0], 1, LONG)
    tensors = subject.draw(view, torch.Generator().manual_seed(0))
    parameters = {name: value.tolist() for name, value in made.state_dict().items()}
    expected = torch.tensor([made.reference(tensors[0][0].tolist(), parameters)], dtype=torch.float64)
    with torch.no_grad():
        fused = made.fused(tensors[0])
    for what, result in (("step by step", subject.run(made, tensors, view)[0][1]), ("fused", fused)):
        if result is not None:
            same(result.detach(), expected, f"the outputs of {LONG} tokens {what}, against `reference`")

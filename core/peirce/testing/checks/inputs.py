"""What a part says of its inputs is true: which may be absent, what stands for them, what is read, what heads need."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from torch import Tensor

from peirce.algebra import Predicates
from peirce.parts import Augmenter, Head
from peirce.testing.check import Case, check
from peirce.testing.checks.declared import NETWORK
from peirce.testing.compare import same
from peirce.testing.failures import BrokenError, NotApplicableError
from peirce.testing.strategies import normal
from peirce.testing.subjects import (
    ArchitectureSubject,
    HeadSubject,
    Outputs,
    StateOperatorSubject,
    Subject,
    TokenSubject,
)
from peirce.testing.views import Slot, View, plain_view

VIEW_LENGTH = 5


@check(
    *NETWORK,
    contract="an optional input may be absent and then equals its default; every declared one is read, up to `high`",
)
def inputs(case: Case) -> None:
    """The inputs that the part declares, the standard ones, and a mask that hides nothing."""

    def body(subject: Subject) -> None:
        view = plain_view(subject.kinds[0], 2, VIEW_LENGTH)
        tensors = subject.draw(view, torch.Generator().manual_seed(0))
        results = subject.once(tensors, view)
        everyone = attrs.evolve(view, real=torch.ones(2, VIEW_LENGTH, dtype=torch.bool))
        _equal(subject.once(tensors, everyone), results, "with a mask that hides nothing, against no mask")
        if isinstance(subject, StateOperatorSubject):
            _without_pairs(subject)
        elif isinstance(subject, TokenSubject):
            _declared(subject, view, tensors)
        elif isinstance(subject, ArchitectureSubject):
            _optional(subject, view, tensors)

    case.each(body, where=lambda subject: bool(subject.kinds))


def _equal(results: Outputs, expected: Outputs, what: str) -> None:
    for (slot, result), (_, wanted) in zip(results, expected, strict=True):
        same(result, wanted, f"{slot.name} {what}")


def _without_pairs(subject: StateOperatorSubject) -> None:
    """A network of one branch has no binary atoms."""
    dims = attrs.evolve(subject.dims, binary=0, feedforward_binary=0)
    alone = subject.resized(dims)
    if alone.dims != dims:
        return  # it refuses such a network, in words
    view = plain_view(subject.kinds[0], 2, VIEW_LENGTH)
    atoms = normal((2, VIEW_LENGTH, dims.unary), torch.Generator().manual_seed(0))
    try:
        result = alone.make()(Predicates(atoms, None), view.scope())
    except Exception as error:
        error.add_note("in a network without binary atoms, where dims.binary is 0 and state.binary is None")
        raise
    if result.binary is not None:
        raise BrokenError("it gives an increment of the binary atoms in a network that has none")


def _declared(subject: TokenSubject, view: View, tensors: list[Tensor]) -> None:
    specs = {spec.name: spec for spec in subject.make().inputs()}
    for i, slot in enumerate(subject.token_slots()):
        spec = specs.get(slot.name)
        if slot.name == "token_type_ids" or (spec is not None and not spec.required):
            absent = attrs.evolve(subject, absent=frozenset({slot.name}))
            default = 0 if spec is None else spec.default
            try:
                results = absent.once(tensors, view)
            except Exception as error:
                error.add_note(f"without the optional input {slot.name!r}")
                raise
            if default is not None:
                filled = [*tensors]
                filled[i] = torch.full_like(tensors[i], default)
                _equal(
                    results, subject.once(filled, view), f"without {slot.name}, against its default {default}"
                )
        if spec is None or slot.dtype == "float":
            continue
        if slot.high is not None:
            most = [*tensors]
            most[i] = torch.full_like(tensors[i], slot.high - 1)
            try:
                subject.once(most, view)
            except Exception as error:
                error.add_note(f"with {slot.name!r} = {slot.high - 1} everywhere, where high = {slot.high}")
                raise
        # What a head reads may depend on its other inputs, and random ones seldom make sense together.
        if not isinstance(subject, HeadSubject) and not _is_read(subject, i, slot):
            raise BrokenError(f"it declares the input {slot.name!r}, and nothing depends on it")


def _is_read(subject: TokenSubject, place: int, slot: Slot) -> bool:
    """Whether other values of an input ever give other outputs."""
    for seed in range(8):
        view = plain_view(subject.kinds[0], 2, 2 + seed)
        tensors = subject.draw(view, torch.Generator().manual_seed(seed))
        others = [*tensors]
        others[place] = subject.draw(view, torch.Generator().manual_seed(seed + 100))[place]
        results = zip(subject.once(tensors, view), subject.once(others, view), strict=True)
        if any(not torch.equal(one, two) for (_, one), (_, two) in results):
            return True
    return False


def _optional(subject: ArchitectureSubject, view: View, tensors: list[Tensor]) -> None:
    model = subject.make()[view.kind]
    given = {slot.name: tensor for slot, tensor in zip(subject.reads(), tensors, strict=True)}
    if view.prefix is not None:
        given["prefix_length"] = view.prefix
    if view.relation is not None:
        given["relation"] = view.relation
    for spec in model.signature.inputs:
        if spec.required or spec.name not in given:
            continue
        without = {name: value for name, value in given.items() if name != spec.name}
        results = model(**without)
        if spec.default is not None:
            filled = model(**without, **{spec.name: torch.full_like(given[spec.name], spec.default)})
            for name, value in results.items():
                same(value, filled[name], f"{name} without {spec.name}, against its default {spec.default}")


@check(
    "heads",
    contract="a head reads what `needs` lists and nothing else that may be absent; with `past`, nothing of the future",
)
def needs(case: Case) -> None:
    """Without the outputs that it does not need, with others where it needs them, and with another future."""

    def body(subject: Subject) -> None:
        assert isinstance(subject, HeadSubject)
        assert issubclass(subject.part, Head)
        kind = "causal" if "past" in subject.part.needs else "bidirectional"
        view = plain_view(kind, 2, VIEW_LENGTH)
        tensors = subject.draw(view, torch.Generator().manual_seed(0))
        results = subject.once(tensors, view)
        names = [slot.name for slot in subject.reads()]
        for name in ("pooled", "binary"):
            if name not in subject.part.needs:
                absent = attrs.evolve(subject, absent=frozenset({name}))
                try:
                    others = absent.once(tensors, view)
                except Exception as error:
                    error.add_note(f"where there is no {name} output, which `needs` does not list")
                    raise
                _equal(others, results, f"without the {name} output, which `needs` does not list")
                continue
            changed = [*tensors]
            place = names.index(name)
            changed[place] = normal(tensors[place].shape, torch.Generator().manual_seed(9))
            pairs = zip(subject.once(changed, view), results, strict=True)
            if all(torch.equal(one, two) for (_, one), (_, two) in pairs):
                raise BrokenError(f"needs lists {name!r}, and no prediction depends on it")
        if kind == "causal":
            cut = VIEW_LENGTH // 2
            future = (torch.arange(VIEW_LENGTH) >= cut).expand(2, -1)
            drawn = subject.draw(view, torch.Generator().manual_seed(1))
            mixed = [
                slot.mixed(tensor, new, future) if slot.tokens else tensor
                for slot, tensor, new in zip(subject.reads(), tensors, drawn, strict=True)
            ]
            for (slot, new), (_, old) in zip(subject.once(mixed, view), results, strict=True):
                if slot.tokens:
                    past = torch.arange(cut)
                    what = f"it looks at the future: {slot.name} of the first {cut} tokens with other tokens after them"
                    same(slot.pick(new, past), slot.pick(old, past), what, tolerance=1e-11)

    case.each(body)


@check(
    "augmenters",
    contract="`words` changes the word embeddings as `forward` changes those of tokens, where the id alone decides",
)
def words(case: Case) -> None:
    """Each token in a text, alone, and as a word."""

    def body(subject: Subject) -> None:
        made = subject.make()
        assert isinstance(made, Augmenter)
        dims = subject.dims
        table = normal((dims.vocabulary, dims.unary), torch.Generator().manual_seed(0))
        view = plain_view("bidirectional", 2, 6)
        tensors = subject.draw(view, torch.Generator().manual_seed(1))
        ids = tensors[0]
        inside = _augmented(subject, made, ids, table, view, tensors)
        alone = torch.stack([_alone(subject, made, row, table, tensors) for row in ids])
        if not torch.allclose(inside, alone, atol=1e-9):
            raise NotApplicableError("more than the token's id decides")
        same(made.words(table)[ids], inside, "words of the ids in a text, against forward")

    case.each(body)


def _augmented(
    subject: Any, made: Augmenter, ids: Tensor, table: Tensor, view: View, tensors: list[Tensor]
) -> Tensor:
    given = [ids, *tensors[1:-1], table[ids]]
    return made(given[-1], subject.tokens(given, view))


def _alone(subject: Any, made: Augmenter, row: Tensor, table: Tensor, tensors: list[Tensor]) -> Tensor:
    """Each token of a row in a text of its own, without its own inputs."""
    view = plain_view("bidirectional", len(row), 1)
    drawn = subject.draw(view, torch.Generator().manual_seed(2))
    return _augmented(subject, made, row.unsqueeze(1), table, view, [*drawn[:1], *drawn[1:]]).squeeze(1)

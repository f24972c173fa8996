"""What a part says of its inputs is true: which may be absent, what stands for them, what is read, what heads need."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from torch import Tensor

from peirce.algebra import Predicates
from peirce_testing.check import NETWORK, check
from peirce_testing.checks.numerics import OperationObserver
from peirce_testing.compare import BrokenError, NotApplicableError, assert_all_equal, assert_equal
from peirce_testing.examples import Tensors, View, normal, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import Harness
from peirce_testing.harness.sized import AugmenterHarness, HeadHarness, StateOperatorHarness, TokenHarness

LENGTH = 5


@check(*NETWORK)
def inputs(harness: Harness) -> None:
    """An optional input may be absent and then equals its default; every declared one is read, up to `high`. The inputs
    that the part declares, the standard ones, and a mask that hides nothing; no id is below zero.
    """
    view = plain_view(harness.kinds[0], 2, LENGTH)
    tensors = harness.draw(view)
    everyone = attrs.evolve(view, real=torch.ones(2, LENGTH, dtype=torch.bool))
    what = "with a mask that hides nothing, against no mask"
    assert_all_equal(harness.once(tensors, everyone), harness.once(tensors, view), what)
    if isinstance(harness, StateOperatorHarness):
        _check_without_pairs(harness)
    elif isinstance(harness, TokenHarness):
        with _Ids():
            _check_declared_inputs(harness, view, tensors)
    elif isinstance(harness, ArchitectureHarness):
        _check_optional(harness, view, tensors)


class _Ids(OperationObserver):
    """Refuses ids below zero, which torch counts from the end of what they choose from."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.index.Tensor:
            least = min((int(ids.min()) for ids in args[1] if ids is not None and ids.numel()), default=0)
            if least < 0:
                raise BrokenError(f"the negative id {least} indexes {list(args[0].shape)} from its end")
        return func(*args, **(kwargs or {}))


def _check_without_pairs(harness: StateOperatorHarness) -> None:
    """A network of one branch has no binary atoms."""
    dims = attrs.evolve(harness.dims, binary=0, feedforward_binary=0)
    alone = harness.resize(dims)
    if alone.dims != dims:
        return  # it refuses such a network, in words
    atoms = normal((2, LENGTH, dims.unary), torch.Generator().manual_seed(0))
    try:
        result = alone.make()(Predicates(atoms, None), plain_view(harness.kinds[0], 2, LENGTH).scope())
    except Exception as error:
        error.add_note("in a network without binary atoms, where dims.binary is 0 and state.binary is None")
        raise
    if result.binary is not None:
        raise BrokenError("it gives an increment of the binary atoms in a network that has none")


def _run_with_note(harness: Harness, tensors: Tensors, view: View, note: str) -> Tensors:
    """Run a part; if it fails, add the note to the error."""
    try:
        return harness.once(tensors, view)
    except Exception as error:
        error.add_note(note)
        raise


def _check_declared_inputs(harness: TokenHarness, view: View, tensors: Tensors) -> None:
    specs = {spec.name: spec for spec in harness.make().inputs()}
    for slot in TokenHarness.reads(harness):
        name, spec = slot.name, specs.get(slot.name)
        if name == "token_type_ids" or (spec is not None and not spec.required):
            absent = attrs.evolve(harness, absent=frozenset({name}))
            results = _run_with_note(absent, tensors, view, f"without the optional input {name!r}")
            default = 0 if spec is None else spec.default
            if default is not None:
                what = f"without {name}, against its default {default}"
                assert_all_equal(results, harness.once(tensors.fill(name, default), view), what)
        if spec is None or slot.dtype == "float":
            continue
        if slot.high is not None:
            note = f"with {name!r} = {slot.high - 1} everywhere, where high = {slot.high}"
            _run_with_note(harness, tensors.fill(name, slot.high - 1), view, note)
        # What a head reads may depend on its other inputs, and random ones seldom make sense together.
        if not isinstance(harness, HeadHarness) and not _has_effect(harness, name):
            raise BrokenError(f"it declares the input {name!r}, and nothing depends on it")


def _has_effect(harness: TokenHarness, name: str) -> bool:
    """Whether other values of an input ever give other outputs."""
    for seed in range(8):
        view = plain_view(harness.kinds[0], 2, 2 + seed)
        tensors, others = harness.draw(view, seed), harness.draw(view, seed + 100)
        changed = tensors.replace_named(name, others.get(name))
        if any_differ(harness.once(tensors, view), harness.once(changed, view)):
            return True
    return False


def any_differ(one: Tensors, other: Tensors) -> bool:
    """Whether any tensor differs."""
    return any(not torch.equal(a, b) for (_, a), (_, b) in zip(one, other, strict=True))


def _check_optional(harness: ArchitectureHarness, view: View, tensors: Tensors) -> None:
    model = harness.make()[view.kind]
    given = harness.inputs(model, tensors, view)
    for spec in (each for each in model.signature.inputs if not each.required and each.name in given):
        without = {name: value for name, value in given.items() if name != spec.name}
        results = model(**without)
        if spec.default is not None:
            filled = model(**without, **{spec.name: torch.full_like(given[spec.name], spec.default)})
            for name, value in results.items():
                assert_equal(
                    value, filled[name], f"{name} without {spec.name}, against its default {spec.default}"
                )


@check("heads")
def needs(harness: HeadHarness) -> None:
    """A head reads what `needs` and `tied` say and nothing else that may be absent. Without the outputs that it does
    not need, with others where it needs them, and with other word embeddings.
    """
    wanted = harness.part.needs
    view = plain_view("causal" if "past" in wanted else "bidirectional", 2, LENGTH)
    tensors, drawn = harness.draw(view), harness.draw(view, 1)
    results = harness.once(tensors, view)
    for name in ("pooled", "binary"):
        if name not in wanted:
            absent = attrs.evolve(harness, absent=frozenset({name}))
            what = f"without the {name} output, which `needs` does not list"
            assert_all_equal(_run_with_note(absent, tensors, view, what), results, what)
        elif not any_differ(harness.once(tensors.replace_named(name, drawn.get(name)), view), results):
            raise BrokenError(f"needs lists {name!r}, and no prediction depends on it")
    words = tensors.replace_named("embeddings", drawn.get("embeddings"))
    if not harness.part.tied and any_differ(harness.once(words, view), results):
        raise BrokenError("it reads the word embeddings, and does not say so by `tied = True`")


@check("augmenters")
def words(harness: AugmenterHarness) -> None:
    """`words` changes the word embeddings as `forward` changes those of tokens, where the id alone decides. Each token
    in a text, alone, and as a word.
    """
    instance, dims = harness.make(), harness.dims
    table = normal((dims.vocabulary, dims.unary), torch.Generator().manual_seed(0))

    def augmented(tensors: Tensors, view: View, ids: Tensor) -> Tensor:
        given = tensors.replace_named("input_ids", ids).replace_named("embeddings", table[ids])
        result: Tensor = instance(table[ids], harness.tokens(given, view))
        return result

    view = plain_view("bidirectional", 2, 6)
    tensors = harness.draw(view, 1)
    ids = tensors.get("input_ids")
    inside = augmented(tensors, view, ids)
    apart = plain_view("bidirectional", ids.numel(), 1)  # each token in a text of its own, with other inputs
    alone = augmented(harness.draw(apart, 2), apart, ids.reshape(-1, 1)).reshape(inside.shape)
    if not torch.allclose(inside, alone, atol=1e-9):
        raise NotApplicableError("its change of a token depends on more than the token's id")
    assert_equal(instance.words(table)[ids], inside, "words of the ids in a text, against forward")

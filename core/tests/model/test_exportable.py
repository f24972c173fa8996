"""A random batch that a model takes, and the model as exporters trace it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_specs import DECODER, ENCODER_DECODER, FOLNET, RECURRENT, TRANSFORMER

from peirce import InputError
from peirce.compose import build
from peirce.errors import ExportError
from peirce.model import Model, example_arrays, example_sizes, exportable
from peirce.registry import Registry

SPECS = {"folnet": FOLNET, "transformer": TRANSFORMER, "two stacks": ENCODER_DECODER, "recurrent": RECURRENT}


@pytest.fixture(scope="module")
def model(registry: Registry) -> Model:
    return build(FOLNET.replace({"model.dims.layers": 1}), seed=1, registry=registry)


@pytest.mark.parametrize("name", SPECS)
def test_every_model_takes_its_examples(name: str, registry: Registry) -> None:
    model = build(SPECS[name].replace({"model.dims.layers": 1}), seed=1, registry=registry).eval()
    given = model.example_inputs()
    assert list(given) == [spec.name for spec in model.signature.inputs]
    sizes = {
        dim: tensor.shape[axis]
        for spec, tensor in zip(model.signature.inputs, given.values(), strict=True)
        for axis, dim in enumerate(spec.dims)
    }
    assert len(set(sizes.values())) == len(sizes)  # no two dims are mistaken for each other
    for padding in ("all", "padded", "empty"):
        batch = model.example_inputs({"batch": 3}, seed=4, padding=padding)
        assert {len(tensor) for tensor in batch.values()} == {3}
        with torch.no_grad():
            outputs = model(**batch)
        assert all(value.isfinite().all() for value in outputs.values())
        whole = model.exportable()
        assert len(whole.signature.inputs) == len(batch)
        for value, found in zip(outputs.values(), whole(*batch.values()), strict=True):
            torch.testing.assert_close(found, value, rtol=1e-5, atol=1e-7)


def test_examples_follow_sizes_seed_and_choice(model: Model) -> None:
    (ids,) = model.example_inputs({"batch": 1, "length": 32}, optional=()).values()
    assert ids.shape == (1, 32)
    assert ids.min() >= 0
    assert ids.max() < 40
    assert list(model.example_inputs(optional=["attention_mask"])) == ["input_ids", "attention_mask"]
    one, again, other = (model.example_inputs(seed=seed)["input_ids"] for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"sizes": {"lenght": 3}}, "unknown symbolic dim 'lenght'. Did you mean 'length'"),
        ({"sizes": {"length": 33}}, "the size of length is 33; give 1 to 32"),
        ({"sizes": {"batch": 0}}, "the size of batch is 0; give 1 to any number"),
        ({"sizes": {"batch": True}}, "the size of batch is True"),
        (
            {"optional": ["atention_mask"]},
            "unknown optional input 'atention_mask'. Did you mean 'attention_mask'",
        ),
        ({"optional": ["input_ids"]}, "unknown optional input 'input_ids'"),
    ],
)
def test_what_no_batch_has_is_refused_by_name(model: Model, how: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        model.example_inputs(**how)  # type: ignore[arg-type]


def test_chosen_outputs_come_in_the_order_that_was_asked_for(model: Model) -> None:
    wanted = ["nsp_logits", "unary"]
    chosen = model.exportable(wanted)
    assert [spec.name for spec in chosen.signature.outputs] == wanted
    outputs = model.eval()(**model.example_inputs())
    for name, value in zip(wanted, chosen(*chosen.example_inputs()), strict=True):
        torch.testing.assert_close(value, outputs[name], rtol=0, atol=0)
    with pytest.raises(InputError, match=r"unknown output 'unarry'\. Did you mean 'unary'"):
        model.exportable(["unarry"])
    with pytest.raises(InputError, match=r"unknown role 'stp'\. Did you mean 'step'"):
        model.exportable(role="stp")  # type: ignore[arg-type]


def test_it_shares_memory_and_nothing_else(model: Model) -> None:
    model.train()
    module = model.exportable()
    mine, its = dict(model.named_parameters()), dict(module.model.named_parameters())
    assert list(its) == list(mine)
    assert all(its[name].data_ptr() == mine[name].data_ptr() for name in mine)
    assert not any(parameter.requires_grad for parameter in its.values())
    module.to(torch.float16)
    assert {value.dtype for value in module(*module.example_inputs())} == {torch.float16}
    assert {p.dtype for p in mine.values()} == {torch.float32}
    assert all(parameter.requires_grad for parameter in mine.values())
    assert model.training
    assert not module.training
    assert not any(inner.training for inner in module.modules())


def test_symbolic_dims_are_those_of_the_signature(model: Model) -> None:
    module = model.exportable()
    ((ids, *others),) = module.dynamic_shapes()
    assert {axis: dim.__name__ for axis, dim in ids.items()} == {0: "batch", 1: "length"}
    assert ids[1].max == 32
    assert all(each[1] is ids[1] for each in others)  # one Dim for a symbol, wherever it stands


def test_prefill_and_step_give_what_advance_gives(registry: Registry) -> None:
    model = build(DECODER.replace({"model.dims.layers": 1}), seed=2, registry=registry).eval()
    prefill, step = model.exportable(role="prefill"), model.exportable(role="step")
    names = [spec.name for spec in step.signature.inputs]
    batch = model.example_inputs({"batch": 2, "length": 5})
    read = dict(zip((s.name for s in prefill.signature.outputs), prefill(*batch.values()), strict=True))
    _, cache = model.advance(batch, {})
    assert names == [step.signature.inputs[0].name, *cache]
    new = torch.tensor([[3], [4]])
    outputs, kept = model.advance({names[0]: new}, cache)
    found = step(new, *(read[name] for name in names[1:]))
    expected = {**outputs, **{f"next_{name}": value for name, value in kept.items()}}
    assert [spec.name for spec in step.signature.outputs] == list(expected)
    for value, wanted in zip(found, expected.values(), strict=True):
        torch.testing.assert_close(value, wanted, rtol=0, atol=0)
    sizes = {"batch": 2, "past": 6}
    for spec, tensor in zip(step.signature.inputs, step.example_inputs(sizes), strict=True):
        assert list(tensor.shape) == [sizes.get(dim, dim) for dim in spec.dims]  # type: ignore[call-overload]
    one = model.exportable([step.signature.outputs[0].name], role="step")
    assert len(one(*one.example_inputs())) == 1


def test_a_model_that_does_not_generate_says_why(model: Model) -> None:
    with pytest.raises(InputError, match="has no head that predicts next tokens"):
        model.exportable(role="step")


def test_an_output_that_does_not_come_is_named(model: Model) -> None:
    module = model.exportable()
    module.named = lambda inputs: {"unary": inputs["input_ids"]}  # type: ignore[method-assign]
    with pytest.raises(
        ExportError, match="declares binary, pooled, mlm_logits, nsp_logits, but the model returns only"
    ):
        module(*module.example_inputs())


def test_a_signature_has_examples_without_torch(model: Model) -> None:
    sizes = example_sizes(model.signature, {"length": 7})
    arrays = example_arrays(model.signature, sizes, seed=3)
    for name, tensor in model.example_inputs(sizes, seed=3).items():
        np.testing.assert_array_equal(arrays[name], tensor.numpy())
    assert exportable(model).signature == model.signature

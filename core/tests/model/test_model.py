"""The composed model: inputs and outputs by name, padding, the future, precision, seeds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_specs import FOLNET, PAPER_CJOIN, TRANSFORMER
from torch import Tensor

import peirce
from peirce.errors import InputError, RenamedWarning, SpecError
from peirce.model import Model
from peirce.registry import Registry
from peirce.spec import Spec

BOTH = pytest.mark.parametrize("spec", [FOLNET, TRANSFORMER], ids=lambda s: s.name)


def ids(batch: int = 2, length: int = 6, seed: int = 0) -> Tensor:
    return torch.randint(1, 40, (batch, length), generator=torch.Generator().manual_seed(seed))


def build(spec: Spec, registry: Registry) -> Model:
    return peirce.build(spec, registry=registry, dtype=torch.float64).eval()


def close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-9, atol=1e-11)


@BOTH
def test_outputs_are_as_the_signature_says(spec: Spec, registry: Registry) -> None:
    model = build(spec, registry)
    outputs = model(input_ids=ids(3, 7))
    assert list(outputs) == [s.name for s in model.signature.outputs]
    sizes = {"batch": 3, "length": 7}
    for declared in model.signature.outputs:
        expected = [sizes[d] if isinstance(d, str) else d for d in declared.dims]
        assert list(outputs[declared.name].shape) == expected
        assert outputs[declared.name].dtype == torch.float64


@BOTH
@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "input 'input_ids' is missing: int64 \\[batch, length"),
        ({"input_id": ids()}, "unknown input 'input_id'. Did you mean 'input_ids'"),
        ({"input_ids": ids().int()}, "'input_ids' is int32, but the model takes int64"),
        ({"input_ids": ids()[0]}, "'input_ids' has shape .6., but the model takes .batch, length.: 2 dims"),
        (
            {"input_ids": ids(), "attention_mask": torch.ones(2, 5).bool()},
            "must be 6: that is the 'length' of",
        ),
        (
            {"input_ids": ids(), "attention_mask": torch.ones(2, 6)},
            "'attention_mask' is float32, but .* bool",
        ),
        ({"input_ids": ids() + 99}, "'input_ids' contains [0-9]+, but valid values are 0 to"),
        ({"input_ids": ids() - 99}, "'input_ids' contains -[0-9]+, but valid values are 0 to"),
        ({"input_ids": ids(), "token_type_ids": ids() + 1}, "'token_type_ids' contains"),
        (
            {"input_ids": ids()[:, :0]},
            r"'input_ids' has shape \[2, 0\], but dim 1 \(length\) must be at least 1",
        ),
        ({"input_ids": ids()[:0]}, r"'input_ids' has shape \[0, 6\], but dim 0 \(batch\) must be at least 1"),
        ({"input_ids": ids(), "attention_mask": None}, "must be a Tensor, and is a NoneType; leave it out"),
        ({"input_ids": [[1]]}, "must be a Tensor, and is a list"),
    ],
)
def test_wrong_inputs_are_named(spec: Spec, inputs: dict[str, Any], said: str, registry: Registry) -> None:
    with pytest.raises(InputError, match=said):
        build(spec, registry)(**inputs)


@BOTH
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing_real_and_its_own_outputs_are_zero(
    spec: Spec, side: str, registry: Registry
) -> None:
    model = build(spec, registry)
    real, amount = ids(1, 5), 3
    padding = ids(1, amount, seed=1)
    parts = [padding, real] if side == "left" else [real, padding]
    mask = torch.ones(1, 8, dtype=torch.bool)
    here = slice(amount, None) if side == "left" else slice(5)
    there = slice(amount) if side == "left" else slice(5, None)
    mask[:, there] = False
    alone, padded = model(input_ids=real), model(input_ids=torch.cat(parts, 1), attention_mask=mask)
    assert close(alone["unary"], padded["unary"][:, here])
    assert padded["unary"][:, there].eq(0).all()
    assert close(alone["mlm_logits"], padded["mlm_logits"][:, here])
    assert padded["mlm_logits"][:, there].eq(0).all()
    for name in ("pooled", "nsp_logits"):
        if name in alone:
            assert close(alone[name], padded[name])
    if "binary" in alone:
        assert close(alone["binary"], padded["binary"][:, here, here])
        assert padded["binary"][:, there].eq(0).all()
        assert padded["binary"][:, :, there].eq(0).all()


@BOTH
def test_without_masking_padding_takes_part(spec: Spec, registry: Registry) -> None:
    model = build(spec.replace({"model.scope.mask_padding": False}), registry)
    mask = torch.tensor([[True] * 5 + [False]] * 2)
    assert torch.equal(model(input_ids=ids())["unary"], model(input_ids=ids(), attention_mask=mask)["unary"])


@BOTH
def test_a_row_of_padding_alone_is_zero_and_finite(spec: Spec, registry: Registry) -> None:
    model = peirce.build(spec, registry=registry)
    mask = torch.tensor([[True] * 6, [False] * 6])
    outputs = model(input_ids=ids(), attention_mask=mask)
    assert outputs["unary"][1].eq(0).all()
    sum(v.square().sum() for v in outputs.values()).backward()
    for name, p in model.named_parameters():
        assert p.grad is None or p.grad.isfinite().all(), name


@pytest.mark.parametrize("layer", ["jmc.atp", "c.p", "m.t", "j.a"])
@pytest.mark.parametrize("kind", ["causal", "prefix"])
@pytest.mark.parametrize("wiring", ["cascaded", "parallel"])
def test_nothing_depends_on_the_future(layer: str, kind: str, wiring: str, registry: Registry) -> None:
    change = {"model.operators.layer": layer, "model.scope.kind": kind, "model.options.wiring": wiring}
    spec = FOLNET.replace({**change, **(PAPER_CJOIN if "c" in layer else {})})
    spec = spec.replace({"model.regularisation.init_std": 0.5, "model.operators.layer": layer})
    model = build(spec, registry)
    extra = {"prefix_length": torch.tensor([2])} if kind == "prefix" else {}
    now, later = ids(1, 7), ids(1, 7)
    later[:, 5:] = torch.tensor([[3, 4]])
    one, other = model(input_ids=now, **extra), model(input_ids=later, **extra)
    assert close(one["unary"][:, :5], other["unary"][:, :5])
    assert not close(one["unary"][:, 5:], other["unary"][:, 5:])
    assert close(one["binary"][:, :5], other["binary"][:, :5])
    future = torch.ones(7, 7, dtype=torch.bool).triu(1)
    if kind == "prefix":
        future[:2, :2] = False
    assert one["binary"][0, future].eq(0).all()


def test_a_relation_is_a_scope(registry: Registry) -> None:
    spec = FOLNET.replace({"model.scope.kind": "relation", **PAPER_CJOIN})
    model = build(spec, registry)
    past = torch.ones(2, 6, 6, dtype=torch.bool).tril()
    causal = build(spec.replace({"model.scope.kind": "causal"}), registry)
    one, other = model(input_ids=ids(), relation=past), causal(input_ids=ids())
    for name, value in one.items():
        assert close(value, other[name]), name


@BOTH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_stays_near(spec: Spec, dtype: torch.dtype, registry: Registry) -> None:
    exact = build(spec, registry)(input_ids=ids())
    rough = peirce.build(spec, registry=registry, dtype=dtype).eval()(input_ids=ids())
    for name, value in rough.items():
        assert value.dtype == dtype
        error = (value.double() - exact[name]).abs().max() / exact[name].abs().max()
        assert error < (0.02 if dtype == torch.float16 else 0.1), name


@BOTH
def test_a_seed_determines_the_parameters_and_leaves_the_world_alone(spec: Spec, registry: Registry) -> None:
    before = torch.get_rng_state()
    one, same, other = (peirce.build(spec, seed=s, registry=registry).state_dict() for s in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("activation", ["modus_ponens", "shifted_relu"])
def test_every_operator_takes_an_activation(activation: str, registry: Registry) -> None:
    names = ("join", "mu", "cjoin", "assoc", "trans", "prod")
    tables = [{"use": name, "activation": activation} for name in names]
    model = build(FOLNET.replace({"model.operators.layer": tables}), registry)
    plain = build(FOLNET, registry)
    plain.load_state_dict(model.state_dict(), strict=False)
    outputs = model(input_ids=ids())
    assert not close(outputs["unary"], plain(input_ids=ids())["unary"])
    outputs["unary"].sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_training_drops_and_evaluation_does_not(registry: Registry) -> None:
    model = peirce.build(FOLNET, registry=registry)
    torch.manual_seed(0)
    one, other = model.train()(input_ids=ids()), model(input_ids=ids())
    assert not torch.equal(one["unary"], other["unary"])
    assert torch.equal(model.eval()(input_ids=ids())["unary"], model(input_ids=ids())["unary"])


def test_the_older_name_of_generation_names_is_known(registry: Registry) -> None:
    model = build(FOLNET, registry)
    with pytest.warns(RenamedWarning, match="generation_names"), pytest.raises(InputError, match="no head"):
        model.generates()


def test_a_loss_needs_the_outputs_of_its_head(registry: Registry) -> None:
    with pytest.raises(InputError, match="needs the output 'mlm_logits'; pass all"):
        build(FOLNET.replace({"model.heads": [{"use": "mlm"}]}), registry).loss("mlm", {}, ids())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model.dims.unary": 10**12}, "there is not enough memory for a model of these sizes"),
        ({"model.input.vocabulary": 10**15}, "this machine has .* GB"),
        ({"model.heads": [{"use": "mlm", "as": "items"}]}, "torch's modules have an attribute 'items'"),
        ({"model.heads": [{"use": "contrastive", "as": "pooled"}]}, "two outputs .* are called 'pooled'"),
        ({"model.operators.layer": ""}, "the shorthand '' names no operator"),
    ],
)
def test_a_model_that_cannot_be_built_says_why(
    change: dict[str, Any], message: str, registry: Registry
) -> None:
    with pytest.raises(SpecError, match=message):
        peirce.build(FOLNET.replace(change), registry=registry)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "nope"}, "cannot be moved to device 'nope'"),
        ({"dtype": torch.float8_e4m3fn}, "models compute in torch.float64"),
        ({"dtype": "float16"}, "models compute in torch.float64"),
        ({"seed": 2**70}, "integer of at most 64 bits"),
    ],
)
def test_where_a_model_goes_is_checked(arguments: dict[str, Any], message: str, registry: Registry) -> None:
    with pytest.raises(InputError, match=message):
        peirce.build(FOLNET, registry=registry, **arguments)


def test_an_input_without_a_name_is_refused(registry: Registry) -> None:
    model = peirce.build(FOLNET, registry=registry)
    with pytest.raises(InputError, match=r"inputs are given by name: model\(input_ids=\.\.\.\)"):
        model(torch.ones(1, 2, dtype=torch.int64))

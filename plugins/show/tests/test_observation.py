"""What is kept of a run is what the layers compute, of any operator that the composer composes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from small_specs import ENCODER_DECODER, FOLNET, TRANSFORMER
from torch import Tensor

from peirce.algebra import Scope, attention_of, standardise
from peirce.compose import build
from peirce.errors import TaskError
from peirce.model import Model
from peirce.parts import Operator, Reader, Writer
from peirce.registry import Registry, hookimpl, load_spec
from peirce_show import Matrix, observe

IDS = np.array([[5, 17, 3, 9]])
TOKENS = ("five", "seventeen", "three", "nine")
WIDE = {"model.regularisation.init_std": 0.3}


class Conjoin(Operator):
    """A stranger's: u[d](x,y) = K[d](x,y) v[d](x,y)."""

    name, letter, typing, scope_rule = "conjoin", "n", "B <- B x B", "pairwise"

    def kernel(self) -> Reader:
        return Reader(branch="B", shape={"d": self.dims.binary})

    premise = kernel

    def output(self) -> Writer:
        return Writer(branch="B", shape={"d": self.dims.binary})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return kernel * premise

    def reference(self, kernel: list[Any], premise: list[Any], scope: Any) -> list[Any]:
        return (np.array(kernel) * np.array(premise)).tolist()


def _seen(model: Model, **more: Any) -> dict[tuple[str, str], Matrix]:
    found = observe(model, {"input_ids": IDS}, TOKENS, **more)
    return {(each.layer, each.title): each for each in found}


def test_every_operator_is_read_as_it_computes(registry: Registry) -> None:
    model = build(FOLNET.replace(WIDE), registry=registry, seed=1).eval()
    seen = _seen(model, channels=99)
    every = {"join.weights", "mu.kernel", "mu.premise", "cjoin.kernel", "cjoin.premise", "assoc.output"}
    every |= {"trans.kernel", "trans.premise", "trans.output", "prod.premise", "prod.output", "atoms"}
    assert set(seen) == {("0", "atoms"), *((layer, title) for layer in "12" for title in every)}
    for each in seen.values():
        assert (each.rows, each.columns) == (TOKENS, TOKENS)
        np.testing.assert_allclose(each.values[0], each.values[1:].mean(0), atol=1e-6)
        if each.share:
            np.testing.assert_allclose(each.values.sum(2), 1, rtol=1e-5)
    trans = {name: seen["2", f"trans.{name}"].values[1:] for name in ("kernel", "premise", "output")}
    np.testing.assert_allclose(
        trans["output"], np.einsum("dxa,day->dxy", trans["kernel"], trans["premise"]), rtol=1e-4, atol=1e-5
    )
    with torch.no_grad(), attention_of(model) as read:
        binary = model(input_ids=torch.tensor(IDS))["binary"][0]
    assert np.array_equal(seen["1", "join.weights"].values[1:], read[0].weights[0].permute(2, 0, 1).numpy())
    final = standardise(torch.tensor(seen["2", "atoms"].values[1:]).permute(1, 2, 0))
    torch.testing.assert_close(final, binary)
    assert seen["1", "cjoin.kernel"].channels[-1] == "12 of 12"


def test_a_strangers_operator_is_read_like_any_other() -> None:
    plugin = ModuleType("lab")
    plugin.register_operators = hookimpl(lambda: [Conjoin])  # type: ignore[attr-defined]
    registry = Registry.of("peirce_folnet.plugin", plugin)
    spec = FOLNET.replace({**WIDE, "model.operators.layer": "j.n"})
    seen = _seen(build(spec.replace({"model.heads": []}), registry=registry).eval(), channels=6)
    kernel, premise, output = (seen["1", f"conjoin.{name}"] for name in ("kernel", "premise", "output"))
    np.testing.assert_allclose(output.values[1:], kernel.values[1:] * premise.values[1:], rtol=1e-5)
    assert not output.share


def test_attention_has_the_softmax_of_its_scores(registry: Registry) -> None:
    for layer in ("j.a", "attention"):
        seen = _seen(
            build(TRANSFORMER.replace({**WIDE, "model.operators.layer": layer}), registry=registry).eval()
        )
        assert {title for _, title in seen} == {"attention.scores", "attention.weights"}
        scores, weights = (seen["2", f"attention.{name}"].values[1:] for name in ("scores", "weights"))
        expected = torch.tensor(scores).softmax(2).numpy()
        np.testing.assert_allclose(weights, expected, rtol=1e-5)


def test_a_decoder_has_both_texts_as_columns(registry: Registry) -> None:
    model = build(ENCODER_DECODER.replace(WIDE), registry=registry).eval()
    written = ("a", "b")
    found = observe(model, {"input_ids": IDS, "decoder_input_ids": np.array([[1, 2]])}, TOKENS, written)
    sides = {(each.layer, each.rows, each.columns) for each in found if each.operator == "join"}
    assert sides >= {("encoder 1", TOKENS, TOKENS), ("1", written, (*TOKENS, *written))}


def test_layers_that_run_again_are_further_layers(registry: Registry) -> None:
    small = {"model.dims.layers": 3, "model.dims.binary": 8, "model.dims.heads": 2, "model.dims.head_size": 4}
    model = build(load_spec("relational-trans", small), registry=registry).eval()
    inputs = model.example_inputs({"batch": 1, "length": 4}, optional=[])
    found = observe(model, inputs, TOKENS)
    assert [each.layer for each in found if each.title == "trans.output"] == ["1", "2", "3"]
    assert [each.layer for each in found if each.title == "atoms"] == ["0", "1", "2", "3"]


def test_one_channel_is_kept_and_too_much_is_refused(registry: Registry) -> None:
    model = build(FOLNET, registry=registry).eval()
    seen = _seen(model, channel=7)  # heads are three, and relations six
    assert {title for _, title in seen} == {"cjoin.kernel"}
    assert seen["1", "cjoin.kernel"].channels == ("7 of 12",)
    with pytest.raises(TaskError, match="there is no channel 99: there are at most 12, counted from 1"):
        _seen(model, channel=99)
    with pytest.raises(
        TaskError, match="the text has 129 tokens, and at most 128 are looked at; give a part"
    ):
        observe(model, {"input_ids": np.ones((1, 129), np.int64)}, ("x",) * 129)

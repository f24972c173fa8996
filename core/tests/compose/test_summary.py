"""A summary counts what a real model has and does."""

from __future__ import annotations

import pytest
import torch
from small_specs import FOLNET, RECURRENT
from thorough import often
from torch import nn

from peirce.compose import build, summarise
from peirce.compose.summaries import _ByteCounter
from peirce.errors import InputError
from peirce.registry import load_spec, ready_specs

OF_EACH_ARCHITECTURE = {
    load_spec(name).architecture: name for name in sorted(ready_specs(), reverse=True)
}.values()


def test_parameters_are_those_of_the_model() -> None:
    found, model = summarise(FOLNET, length=8), build(FOLNET)
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.parameters == sum(found.groups.values())
    assert found.parameter_bytes == 4 * found.parameters
    assert found.groups["embedding"] == 40 * 24
    assert {"operator join", "operator bool", "position distance", "head mlm", "head nsp"} <= set(
        found.groups
    )


def test_a_recurrent_operator_has_the_parameters_of_its_layers() -> None:
    found = summarise(RECURRENT, length=8)
    assert found.groups["operator lstm"] == 2 * 4 * 6 * (6 + 6 + 2)
    (lstm,) = found.operators
    assert (lstm["name"], lstm["typing"], lstm["scope"], lstm["reads"]) == (
        "lstm",
        "U <- U x U",
        "causal",
        {},
    )


def test_the_published_size_of_folnet_base() -> None:
    assert summarise(load_spec("folnet-base"), length=4).parameters == 140_733_322


def test_the_plan_is_typed() -> None:
    found = summarise(FOLNET, length=8)
    assert (found.layers, found.architecture) == (2, "folnet")
    assert list(found.operators[0].values()) == [
        "0-1", 0, "join", "U <- B x U", {"kernel": "B: h=3", "premise": "U: h=3 s=4"}, "U: h=3 s=4", "reduce",
        "softmax",
    ]  # fmt: skip
    assert [row["name"] for row in found.operators] == [
        "join",
        "mu",
        "cjoin",
        "assoc",
        "trans",
        "prod",
        "bool",
    ]
    assert found.inputs["input_ids"] == "int64 [batch, length]"
    assert found.outputs["binary"] == "float [batch, length, length, 6]"


def test_work_grows_with_batch_and_length() -> None:
    two, four = summarise(FOLNET, batch=2, length=8), summarise(FOLNET, batch=4, length=8)
    assert four.flops == 2 * two.flops
    # What is shared by the whole batch, such as the distances, is written once.
    assert 1.9 * two.activation_bytes < four.activation_bytes <= 2 * two.activation_bytes
    # Every pair of tokens costs, so twice the length is more than twice the work.
    assert summarise(FOLNET, batch=2, length=16).flops > 3 * two.flops


def test_flops_are_two_for_each_multiplication_and_addition() -> None:
    small = {"model.dims": {"layers": 1, "unary": 16, "heads": 2, "head_size": 8, "feedforward": 32}}
    plain = load_spec("bert-base", {**small, "model.input.vocabulary": 32, "model.heads": []})
    tokens, width = 8, 16
    layer = 2 * tokens * (4 * width * width + 2 * width * 32 + 2 * tokens * width)
    pooler = 2 * width * width
    assert summarise(plain, length=tokens).flops == layer + pooler


def test_written_bytes_leave_views_out() -> None:
    linear, x = nn.Linear(4, 6, bias=False), torch.zeros(2, 4)
    with torch.no_grad(), _ByteCounter() as written:
        y = linear(x)  # writes [2, 6] float32
        y.view(3, 4).transpose(0, 1).unsqueeze(0)
        (y > 0).sum()  # writes [2, 6] bool, and one int64
    assert written.bytes == 2 * 6 * 4 + 2 * 6 + 8


@pytest.mark.parametrize("name", often(sorted(ready_specs()), OF_EACH_ARCHITECTURE))
def test_every_ready_spec_is_summed_up(name: str) -> None:
    spec = load_spec(name)
    few = {"model.dims.layers": max(1, sum(each.repeat for each in spec.operators.layers))}
    found = summarise(spec.replace(few if "layers" in spec.dims else {}), length=4)
    assert found.parameters == sum(found.groups.values()) > 10**4
    assert found.flops > 0
    assert found.activation_bytes > 0


def test_a_summary_of_a_short_model_is_of_its_own_length() -> None:
    assert summarise(FOLNET).length == FOLNET.input.max_length < 128
    assert summarise(FOLNET.replace({"model.input.max_length": 512})).length == 128


def test_sizes_that_cannot_be_counted_are_refused() -> None:
    for sizes in ({"length": 0}, {"length": 10**12}, {"batch": 10**30}):
        with pytest.raises(InputError, match=f"{next(iter(sizes))} must be from 1 to 1,000,000"):
            summarise(FOLNET, **sizes)


def test_a_text_longer_than_the_positions_is_refused() -> None:
    bert = load_spec("bert-base", {"model.dims.layers": 1, "model.input.vocabulary": 32})
    with pytest.raises(InputError, match=r"length of the inputs is 513, and the model reads at most 512"):
        summarise(bert, length=513)

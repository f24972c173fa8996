"""What parts may refuse, bring and raise: scopes, pretrained weights, places without operators, errors by name."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from attrs import field, frozen
from peirce.compose import build, load, summarise
from peirce.errors import PlanError
from peirce.kernels import PairBias, pair_scores
from peirce.networks import TokenInput, unary_output
from peirce.parts import (
    Architecture,
    Dims,
    Encoded,
    Head,
    PairPosition,
    Plan,
    TensorSpec,
    Tokens,
    UnaryPosition,
)
from peirce.registry import Registry, hookimpl
from peirce.spec import Spec
from small_specs import TRANSFORMER
from torch import Tensor, nn


class LooksAhead(UnaryPosition):
    """Adds a mean over all tokens."""

    name = "looks_ahead"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.vector = nn.Parameter(torch.ones(dims.unary))

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return None if scope == "bidirectional" else f"it looks ahead, which the scope {scope!r} forbids"

    def unary(self, tokens: Tokens) -> Tensor:
        return tokens.index.float().mean(1)[:, None, None] * self.vector


class Narrow(UnaryPosition):
    """A position with a mistake in what it gives."""

    name = "narrow"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)

    def unary(self, tokens: Tokens) -> Tensor:
        return torch.zeros(1, tokens.length, 3)


class Fails(Head):
    """A head with a mistake in its forward."""

    name = "fails"
    labels = "none"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)

    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec(name="logits", dtype="float", dims=("batch", 2)),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        return {"logits": encoded.unary @ encoded.unary}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        return outputs["logits"].sum()


class Offset(PairPosition):
    """A score for each offset between two tokens."""

    name = "offset"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.table = nn.Parameter(torch.randn(1, 64, 1))
        self.layers = dims.layers

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        ids = (tokens.index.unsqueeze(1) - tokens.index.unsqueeze(2)).abs()
        return [PairBias(ids=ids, score=self.table)] * self.layers


@frozen(kw_only=True)
class OneDims:
    """The sizes of the attention network."""

    unary: int = field()


class OwnAttention(Architecture):
    """One attention of its own, without operators; begins with pretrained word vectors."""

    name = "own_attention"
    Dims = OneDims
    places = frozenset({"unary", "pair"})
    branches = "U"
    layer = ""
    fixed_layer = True
    own_attention = True
    pretrained: ClassVar[Tensor] = torch.arange(40 * 12, dtype=torch.float32).view(40, 12) / 100

    @classmethod
    def sizes(cls, options: Any, dims: OneDims) -> Mapping[str, int]:
        width = dims.unary
        return {"layers": 1, "unary": width, "heads": 1, "head_size": width, "feedforward_unary": width}

    def __init__(self, options: Any, plan: Plan) -> None:
        super().__init__(options, plan)
        self.plan = plan
        self.input = TokenInput(plan, ("unary", "pair"))

    def begin(self) -> None:
        with torch.no_grad():
            self.input.embedding.weight.copy_(self.pretrained)

    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.input.specs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        return (unary_output(self.plan.dims.unary),)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        atoms = self.input.unary(tokens)
        scores = (atoms @ atoms.transpose(1, 2)).unsqueeze(3)
        for bias in self.input.pairs(tokens)[0]:
            scores = scores + pair_scores(atoms.unsqueeze(2), bias)
        mixed = scope.softmax(scores).squeeze(3) @ atoms
        return Encoded(scope.zero_unary(mixed), None, None, scope, self.input.words()), tokens


class Plugin:
    @hookimpl
    def register_positions(self) -> list[type]:
        return [LooksAhead, Narrow, Offset]

    @hookimpl
    def register_heads(self) -> list[type[Head]]:
        return [Fails]

    @hookimpl
    def register_architectures(self) -> list[type[Architecture]]:
        return [OwnAttention]


@pytest.fixture(scope="module")
def parts() -> Registry:
    return Registry.of("peirce_basics.plugin", "peirce_folnet.plugin", Plugin())


OWN = Spec.from_toml(
    """
format = 1
[model]
name = "own"
architecture = "own_attention"
dims = { unary = 12 }
input = { vocabulary = 40, max_length = 32 }
positions = [{ use = "offset" }]
"""
)
IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


def test_a_position_may_refuse_a_scope(parts: Registry) -> None:
    spec = TRANSFORMER.replace({"model.positions": [{"use": "looks_ahead"}], "model.heads": []})
    build(spec, registry=parts)(input_ids=IDS)
    with pytest.raises(PlanError, match="position 'looks_ahead' cannot be used here: it looks ahead"):
        build(spec.replace({"model.scope.kind": "causal"}), registry=parts)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model.positions": [{"use": "narrow"}], "model.heads": []}, "position 'narrow'"),
        ({"model.heads": [{"use": "fails"}]}, "head 'fails'"),
    ],
)
def test_an_error_of_a_part_names_it(parts: Registry, changes: dict[str, Any], named: str) -> None:
    model = build(TRANSFORMER.replace(changes), registry=parts)
    with pytest.raises(RuntimeError) as caught:
        model(input_ids=IDS)
    assert f"raised in {named}" in "".join(traceback.format_exception(caught.value))


def test_an_architecture_with_attention_of_its_own_has_pair_positions(parts: Registry) -> None:
    model = build(OWN, registry=parts)
    before = model(input_ids=IDS)["unary"]
    with torch.no_grad():
        model.get_parameter("network.input.positions.0.table").mul_(3)
    assert not torch.equal(model(input_ids=IDS)["unary"], before)


def test_an_architecture_brings_pretrained_weights(parts: Registry, tmp_path: Path) -> None:
    model = build(OWN, registry=parts)
    name = "network.input.embedding.weight"
    assert torch.equal(model.get_parameter(name), OwnAttention.pretrained)
    with torch.no_grad():
        model.get_parameter(name).add_(1)
    model.save(tmp_path / "own")
    assert torch.equal(
        load(tmp_path / "own", registry=parts).get_parameter(name), OwnAttention.pretrained + 1
    )


def test_a_summary_of_a_short_model_is_of_its_own_length(parts: Registry) -> None:
    spec = TRANSFORMER.replace({"model.input.max_length": 9, "model.positions": [{"use": "absolute"}]})
    assert summarise(spec, registry=parts).length == 9
    assert summarise(TRANSFORMER.replace({"model.input.max_length": 512}), registry=parts).length == 128

"""Sizes: those that an architecture has, those that it lacks, and the pooled output's own width."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attrs import evolve
from small_specs import FOLNET, TRANSFORMER
from torch import Tensor

import peirce
from peirce.compose import build, resolve
from peirce.errors import PlanError
from peirce.parts import Augmenter, Dims, Tokens
from peirce.registry import Registry
from peirce_basics import plugin as basics
from peirce_folnet import plugin as folnet
from peirce_folnet.architectures.folnet import FolNet, FolNetDims, FolNetOptions


class Headless(FolNet):
    """folnet without a word about heads."""

    name = "headless"

    @classmethod
    def sizes(cls, options: FolNetOptions, dims: FolNetDims) -> Mapping[str, int]:
        sizes = FolNet.sizes(options, dims)
        return {name: size for name, size in sizes.items() if name not in ("heads", "head_size")}


class Shifts(Augmenter):
    """Adds a number for each head."""

    name = "shifts"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.shift = torch.nn.Parameter(torch.zeros(dims.heads))

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        return embeddings + self.shift.sum()


class Widens(Augmenter):
    """Gives a channel more than it was given."""

    name = "widens"

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        return torch.cat([embeddings, embeddings[..., :1]], -1)


@pytest.fixture(scope="module")
def own() -> Registry:
    """The parts above beside those that ship."""
    parts = SimpleNamespace(
        register_architectures=peirce.hookimpl(lambda: [Headless]),
        register_augmenters=peirce.hookimpl(lambda: [Shifts, Widens]),
    )
    return Registry.of(basics, folnet, parts)


def test_a_size_that_is_not_there_is_named_with_the_architecture() -> None:
    dims = Dims(layers=2, unary=8, vocabulary=5, architecture="mine")
    assert dims.known() == {
        "layers": 2, "unary": 8, "vocabulary": 5, "token_types": 2, "max_length": 512
    }  # fmt: skip
    for name in ("heads", "head_size", "feedforward_unary", "recurrent"):
        with pytest.raises(PlanError, match=f"needs the size '{name}', which architecture 'mine' does not"):
            getattr(dims, name)
        assert getattr(evolve(dims, **{name: 3}), name) == 3
    assert evolve(dims, unary=9).pooled == 9
    assert evolve(dims, pooled=3, unary=9).pooled == 3


def test_an_operator_that_needs_heads_is_refused_where_there_are_none(own: Registry) -> None:
    spec = FOLNET.replace({"model.architecture": "headless", "model.positions": [], "model.heads": []})
    with pytest.raises(
        PlanError, match=r"operator 'join' cannot .* 'heads', which architecture 'headless' does not"
    ):
        resolve(spec.replace({"model.operators.layer": "jm.a"}), own)
    with pytest.raises(PlanError, match="operator 'mu' cannot be used here: it needs the size 'heads'"):
        resolve(spec.replace({"model.operators.layer": "m.t"}), own)
    assert resolve(spec.replace({"model.operators.layer": [{"use": "trans"}]}), own)


def test_a_part_that_needs_heads_is_refused_when_it_is_built(own: Registry) -> None:
    changes = {
        "model.architecture": "recurrent", "model.dims": {"layers": 1, "unary": 4}, "model.operators": {},
        "model.positions": [], "model.augmenters": [{"use": "shifts"}],
    }  # fmt: skip
    with pytest.raises(
        PlanError, match=r"augmenter 'shifts' cannot .* 'heads', which architecture 'recurrent'"
    ):
        build(FOLNET.replace(changes), registry=own)


def test_an_augmenter_that_gives_another_shape_is_named(own: Registry) -> None:
    model = build(FOLNET.replace({"model.augmenters": [{"use": "widens"}]}), registry=own)
    with pytest.raises(ValueError, match=r"shape \[1, 3, 25\] for atoms of shape \[1, 3, 24\]") as caught:
        model(input_ids=torch.tensor([[1, 2, 3]]))
    assert caught.value.__notes__ == ["raised in augmenter 'widens'"]


def test_an_operator_of_relations_names_the_architectures_that_keep_them() -> None:
    registry = Registry.of(basics, folnet)
    with pytest.raises(
        PlanError, match=r"keeps no relations; set model.architecture to one that does: folnet"
    ):
        resolve(TRANSFORMER.replace({"model.operators": {"layer": "j.at"}}), registry)

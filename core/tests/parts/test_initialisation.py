"""What parameters begin with: the spec's spread, unless a part chose something else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from small_specs import TRANSFORMER
from torch import Tensor, nn

from peirce.compose import build
from peirce.compose.building import SeededGenerators
from peirce.parts import Augmenter, Dims, Tokens, initialise, record_defaults, set_small_normal
from peirce.registry import Registry, hookimpl


class Chooses(Augmenter):
    """Begins with maps that do nothing, each said in another way."""

    name = "chooses"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.zeroed = nn.Linear(dims.unary, dims.unary)
        nn.init.zeros_(self.zeroed.weight)
        self.through_data = nn.Linear(dims.unary, dims.unary, bias=False)
        self.through_data.weight.data.fill_(0.5)
        self.replaced = nn.Linear(dims.unary, dims.unary, bias=False)
        self.replaced.weight = nn.Parameter(torch.eye(dims.unary))
        self.biased = nn.Linear(dims.unary, dims.unary)
        nn.init.ones_(self.biased.bias)
        self.padded = nn.Embedding(7, dims.unary, padding_idx=0)
        self.left = nn.Linear(dims.unary, dims.unary)
        self.narrowed = nn.Linear(dims.unary, dims.unary)
        set_small_normal(self.narrowed)

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        return embeddings + self.zeroed(embeddings)


class Plugin:
    @hookimpl
    def register_augmenters(self) -> list[type[Augmenter]]:
        return [Chooses]


@pytest.fixture(scope="module")
def parts() -> Registry:
    return Registry.of("peirce_basics.plugin", "peirce_folnet.plugin", Plugin())


SPEC = TRANSFORMER.replace({"model.augmenters": [{"use": "chooses"}], "model.regularisation.init_std": 0.3})


def test_what_a_part_initialises_itself_stays(parts: Registry) -> None:
    part: Any = build(SPEC, registry=parts).network.input.augmenters[0]  # type: ignore[union-attr, index]
    assert not part.zeroed.weight.any()
    assert (part.through_data.weight == 0.5).all()
    assert torch.equal(part.replaced.weight, torch.eye(24))
    assert (part.biased.bias == 1).all()
    assert not part.padded.weight[0].any()


def test_what_no_part_initialises_has_the_spec_s_spread(parts: Registry) -> None:
    model = build(SPEC, registry=parts)
    part: Any = model.network.input.augmenters[0]  # type: ignore[union-attr, index]
    weights = (part.left.weight, part.narrowed.weight, part.biased.weight, part.padded.weight[1:])
    for weight in weights:
        assert weight.std().item() == pytest.approx(0.3, rel=0.2)
    for bias in (part.zeroed.bias, part.left.bias, part.narrowed.bias):
        assert not bias.any()
    again = build(SPEC, registry=parts)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_notes_are_of_one_thread() -> None:
    maps: list[nn.Linear] = []
    with record_defaults() as found:
        worker = threading.Thread(target=lambda: maps.append(nn.Linear(4, 4)))
        worker.start()
        worker.join()
        maps.append(nn.Linear(4, 4))
    elsewhere, here = (each.weight.detach().clone() for each in maps)
    initialise(nn.ModuleList(maps), 1.0, found)
    assert torch.equal(maps[0].weight, elsewhere)
    assert not torch.equal(maps[1].weight, here)


def test_a_seed_gives_the_numbers_of_torch_s_own_generator_and_leaves_it_alone() -> None:
    def draws() -> list[Tensor]:
        made = [nn.Linear(4, 3), nn.Embedding(5, 2), nn.LSTM(3, 2)]
        drawn = [torch.randn(3), torch.rand(2, 2), torch.randperm(9), nn.init.orthogonal_(torch.empty(3, 3))]
        return [*(p.detach() for module in made for p in module.parameters()), *drawn]

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = draws()
    before = torch.get_rng_state()
    with SeededGenerators(7):
        found = draws()
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert torch.equal(before, torch.get_rng_state())


def test_models_built_in_threads_are_those_built_alone(parts: Registry) -> None:
    def made(seed: int) -> list[Tensor]:
        return [p.detach() for p in build(SPEC, seed=seed, registry=parts).parameters()]

    seeds = [7, 8, 7, 9]
    alone = [made(seed) for seed in seeds]
    with ThreadPoolExecutor(len(seeds)) as threads:
        together = [*threads.map(made, seeds)]
    for one, other in zip(alone, together, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))

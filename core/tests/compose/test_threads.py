"""Models that are made and loaded by many threads at once, as a server does."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from small_specs import FOLNET, TRANSFORMER

import peirce
from peirce.model import Model, weights_digest
from peirce.registry import Registry


def digest(model: Model) -> str:
    return weights_digest(model.state_dict())


def test_threads_make_and_load_the_models_that_one_thread_does(tmp_path: Path, registry: Registry) -> None:
    specs = [FOLNET, TRANSFORMER]
    alone = {
        (spec.name, seed): digest(peirce.build(spec, seed, registry=registry))
        for spec in specs
        for seed in (7, 8)
    }
    for spec in specs:
        peirce.build(spec, 7, registry=registry).save(tmp_path / spec.name)

    def work(number: int) -> None:
        spec, seed = specs[number % 2], 7 + number // 2 % 2
        assert digest(peirce.build(spec, seed, registry=registry)) == alone[spec.name, seed]
        assert digest(peirce.load(tmp_path / spec.name, registry=registry)) == alone[spec.name, 7]
        torch.rand(9)  # another's draw
        peirce.build(spec, seed, registry=registry).save(tmp_path / f"own {number % 3}")

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, number) for number in range(16)]:
            done.result()
    assert sorted(os.listdir(tmp_path)) == sorted(
        [spec.name for spec in specs] + [f"own {n}" for n in range(3)]
    )


def test_what_others_draw_from_torch_is_as_if_no_model_had_been_made(
    tmp_path: Path, registry: Registry
) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    peirce.build(FOLNET, registry=registry).save(tmp_path)
    peirce.load(tmp_path, registry=registry)
    assert torch.equal(torch.rand(4), wanted)

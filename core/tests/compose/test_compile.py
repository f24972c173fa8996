"""Composed models compile as one graph, and one graph serves every length once the length is dynamic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from small_specs import FOLNET, TRANSFORMER
from thorough import often
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from peirce.compose import build
from peirce.registry import Registry
from peirce.spec import Spec

SPECS = {"folnet": FOLNET, "transformer": TRANSFORMER}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.compiler.config.patch(force_disable_caches=False):  # whatever ran before in this process
        yield
    torch._dynamo.reset()


def _inputs(batch: int, length: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(length)
    real = torch.ones(batch, length, dtype=torch.bool)
    real[0, length // 2 :] = False
    return {"input_ids": torch.randint(0, 40, (batch, length), generator=random), "attention_mask": real}


@pytest.mark.parametrize("name", often(SPECS, ["folnet"]))
def test_one_graph_for_every_length(name: str, registry: Registry) -> None:
    spec: Spec = SPECS[name].replace({"model.dims.layers": 1})
    model = build(spec, registry=registry).eval()
    # The graph that any backend gets; what is generated from it is torch's own matter.
    backend = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    counts = []
    with torch.no_grad():
        for length in (7, 12, 19):
            inputs = _inputs(3, length)
            found, expected = compiled(**inputs), model(**inputs)
            assert list(found) == list(expected)
            for key, value in found.items():
                torch.testing.assert_close(value, expected[key], atol=1e-5, rtol=1e-5)
            counts.append(backend.frame_count)
    assert counts == [1, 2, 2]  # the first length as it is, then any length

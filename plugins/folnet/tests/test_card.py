"""What FOLNet does on a GPU, seen without one: its layouts give the same values, and `meta` counts its passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import peirce
from peirce.kernels import weighing
from peirce.networks import mixing
from peirce_folnet.operators import bool as boolean


class Made(TorchDispatchMode):
    """Counts the tensors of a size or more that operations make, by operation and dtype."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.count = size, Counter[tuple[str, torch.dtype]]()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor) and tensor.numel() >= self.size:
                self.count[function.overloadpacket.__name__, tensor.dtype] += 1
        return found


def small(operators: str, **changes: Any) -> Any:
    """One layer of folnet-base at a small width, in evaluation."""
    dims = {"layers": 1, "unary": 24, "binary": 8, "heads": 3, "head_size": 8}
    changes |= {f"model.dims.{name}": size for name, size in dims.items()}
    changes |= {"model.input.vocabulary": 50, "model.operators.layer": operators}
    return peirce.build(peirce.load_spec("folnet-base", changes), seed=0).eval()


@pytest.mark.parametrize("operators", ["jmc.atp", "c.ap"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_no_pass_over_pairs_copies_them_to_float32(operators: str, dtype: torch.dtype) -> None:
    model = small(operators).to("meta", dtype)
    batch, length = 2, 40
    ids = torch.zeros(batch, length, dtype=torch.int64, device="meta")
    with Made(batch * length**2 * 8) as made:
        found, _ = model.network({"input_ids": ids, "attention_mask": torch.ones_like(ids, dtype=torch.bool)})
        found.binary.sum().backward()
    assert made.count["native_layer_norm", dtype]
    assert not [each for each in made.count if each[1] == torch.float32]


@pytest.mark.parametrize("activation", ["gelu", "reglu"])
def test_the_layouts_of_a_gpu_give_the_same_values_and_gradients(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small("jmc.atp", **{"model.operators.options.bool.activation": activation}).double()
    ids = torch.randint(5, 50, (3, 7))
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3, [0] * 2 + [1] * 5]).bool()

    def values() -> list[Tensor]:
        model.zero_grad()
        found, _ = model.network({"input_ids": ids, "attention_mask": mask})
        (found.unary.square().sum() + found.binary.square().sum()).backward()
        gradients = [p.grad.clone() for p in model.network.parameters() if p.grad is not None]
        return [found.unary.detach(), found.binary.detach(), *gradients]

    expected = values()
    asked = set()
    for module in (mixing, weighing, boolean):
        monkeypatch.setattr(module, "on_cpu", lambda sample, name=module.__name__: bool(asked.add(name)))
    for one, other in zip(values(), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    assert len(asked) == 3

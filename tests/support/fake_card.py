"""Runs ready specs on a device that has shapes and no values, neither a CPU nor `meta`: what would hold up a GPU.

torch without CUDA makes fake tensors of CUDA that cannot be sliced and have no gradients, so the device is one of
torch's backends in Python. A pass that asks for a value, or for a shape that hangs on values, ends there. What is made
on the CPU, or copied from or to it, is noted. Each spec, at its smallest widths, makes a forward pass in inference and
a training step, and reads one token more where it is causal; then all as while a CUDA graph is recorded.

python fake_card.py SPEC ...    # prints {SPEC: {"forward": [...], "step": [...], "recorded forward": [...], ...}}
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import torch
from every_part import SPECS
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import peirce

DEVICE = "card"


class Backend(backend_registration._DummyBackendModule):
    """What torch asks of a device's module where passes are computed anew for gradients."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """What autocast knows."""
        return [torch.bfloat16, torch.float16]


class Copies(TorchDispatchMode):
    """Notes tensors on the CPU but for numbers, which kernels take as arguments, and copies between devices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        tensors = [each for each in tree_leaves((args, kwargs, result)) if isinstance(each, Tensor)]
        copies = "copy" in function.__name__ and len({each.device for each in tensors}) > 1
        if copies or any(each.is_cpu and each.dim() for each in tensors):
            self.found.append(f"{function.__name__} on the CPU at {line(traceback.extract_stack())}")
        return result


def line(stack: traceback.StackSummary) -> str:
    """The last line of Peirce in a stack."""
    ours = [frame for frame in stack if "/peirce" in frame.filename]
    return f"{'/'.join(ours[-1].filename.split('/')[-2:])}:{ours[-1].lineno}" if ours else "no line of Peirce"


def find_waits(name: str, what: str) -> list[str]:
    """What would hold up a GPU in a `forward` pass of a spec, in a `step`, or to `advance` by a token."""
    step = what == "step"
    model: Any = peirce.build(SPECS[name], seed=0).train(step)
    feeds = model.example_inputs()

    def empty(tensor: Tensor) -> Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=DEVICE)

    with FakeTensorMode(), Copies() as copies, torch.set_grad_enabled(step):
        try:
            there = {key: empty(each) for key, each in feeds.items()}
            model._apply(empty)
            if what == "advance":
                _, cache = model.advance({"input_ids": there["input_ids"]}, {})
                model.advance({"input_ids": there["input_ids"][:, :1]}, cache)
                return copies.found
            outputs = model(**there)
            if step:
                torch.autograd.backward([each.sum() for each in outputs.values() if each.requires_grad])
        except Exception as error:
            copies.found.append(
                f"{str(error).splitlines()[0][:90]} at {line(traceback.extract_tb(error.__traceback__))}"
            )
    return copies.found


def gru(module: nn.GRU, atoms: Tensor) -> tuple[Tensor, None]:
    """The shapes of torch's GRU, whose own kernel has none on such a device; on CUDA it is one of cuDNN's."""
    gates = atoms @ module.weight_ih_l0.T + module.bias_ih_l0 + module.bias_hh_l0
    return gates[..., : module.hidden_size] @ module.weight_hh_l0[: module.hidden_size], None


def main() -> None:
    warnings.simplefilter("ignore")
    backend_registration._setup_privateuseone_for_python_backend(DEVICE, Backend())
    found = {}
    with patch.object(nn.GRU, "forward", gru):
        for name in sys.argv[1:]:
            passes = ("forward", "step", *["advance"] * (SPECS[name].scope.kind == "causal"))
            found[name] = {what: find_waits(name, what) for what in passes}
            with (
                patch.object(torch.backends.cuda, "is_built", lambda: True),
                patch.object(torch.cuda, "is_current_stream_capturing", lambda: True),
            ):
                found[name] |= {f"recorded {what}": find_waits(name, what) for what in passes}
    print(json.dumps(found))


if __name__ == "__main__":
    main()

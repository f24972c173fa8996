"""Copies of a model in another precision, and its outputs for arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from peirce.kernels import make_weights_constant
from peirce.model import Exportable, sharing_copy
from peirce_export.metadata import Precision

DTYPES: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


def precision_of(model: nn.Module) -> Precision:
    """The precision of a model's weights; float64, which only tests use, is exported as float32."""
    for parameter in model.parameters():
        if parameter.is_floating_point():
            name = str(parameter.dtype).removeprefix("torch.")
            return name if name in DTYPES else "float32"
    return "float32"


def rounded_copy(model: nn.Module, dtype: torch.dtype) -> Any:
    """A float64 copy of the model, its constants rounded to `dtype` as an export rounds them, the fused ones too."""
    rounded = cast_copy(model, dtype)
    make_weights_constant(rounded, torch.float64)
    return rounded.to(torch.float64)


def cast_copy(model: nn.Module, *dtypes: torch.dtype) -> Any:
    """A copy on the CPU, in evaluation mode, its weights cast to each dtype in turn; without any they are shared."""
    twin = sharing_copy(model).cpu().eval()
    for dtype in dtypes:
        twin = twin.to(dtype)
    return twin


@torch.no_grad()
def outputs_of(model: Exportable, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The outputs of a model for arrays, computed where its weights are, in their dtype."""
    weight = next((each for each in model.parameters() if each.is_floating_point()), torch.zeros(()))
    tensors = [torch.from_numpy(feeds[spec.name]).to(weight.device) for spec in model.signature.inputs]
    found = model(*(t.to(weight.dtype) if t.is_floating_point() else t for t in tensors))
    return {
        spec.name: value.cpu().numpy() for spec, value in zip(model.signature.outputs, found, strict=True)
    }

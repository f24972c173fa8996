"""The files of published models, a JSON configuration and tensors: read within limits and checked against shapes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from peirce.errors import ModelFileError
from peirce.files import near_names, read_json, read_tensors

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""What models compute in; nothing multiplies matrices of the other floating dtypes."""
_log = logging.getLogger("peirce")


def published_config(path: Path) -> dict[str, Any]:
    """The table of a JSON file.

    Raises:
        ModelFileError: it cannot be read, or does not contain a table.
    """
    try:
        settings = read_json(path)
        if not isinstance(settings, dict):
            raise ValueError("it does not contain a table")
    except FileNotFoundError:
        raise ModelFileError(
            f"there is no file {path}{near_names(path)}; give the folder of a checkpoint as it was published"
        ) from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ModelFileError(f"{path} is not a JSON configuration: {error}") from error
    return settings


def published_tensors(path: Path, inside: str = "") -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a torch file of a state dict, or of one under the key `inside`.

    Nothing in it is executed.

    Raises:
        ModelFileError: it contains something else, or tensors that are not dense and complete.
    """
    try:
        return read_tensors(path, inside)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read as tensors: {error.strerror or error}") from error


def check_published(
    found: Mapping[str, Tensor], shapes: Mapping[str, Sequence[int]], source: Path
) -> dict[str, Tensor]:
    """Tensors that were checked against the names and shapes that a model needs: all are finite floating numbers.

    A model has one dtype. Where there are several, as of norms that were kept in float32 beside weights in bfloat16,
    tensors of a narrower one are cast to the narrowest that holds all values, and a warning names them.

    Raises:
        ModelFileError: they differ; one error lists everything.
    """
    problems = weight_differences(found, shapes)
    problems["not floating"] = [
        f"{key} is {_dtype_name(tensor)}" for key, tensor in found.items() if not tensor.is_floating_point()
    ]
    if not any(problems.values()):
        problems["not finite"] = [key for key, tensor in found.items() if not tensor.isfinite().all()]
    if any(problems.values()):
        listed = list_differences(problems)
        raise ModelFileError(f"{source} does not have the tensors that its configuration needs. {listed}")
    widest = reduce(torch.promote_types, {tensor.dtype for tensor in found.values()})
    if cast := [f"{key} from {_dtype_name(each)}" for key, each in found.items() if each.dtype != widest]:
        _log.warning(
            "%s has tensors of several dtypes; cast to %s: %s",
            *(source, str(widest).removeprefix("torch."), shorten_list(cast)),
        )
    return {key: tensor.to(widest) for key, tensor in found.items()}


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def weight_differences(
    found: Mapping[str, Tensor], shapes: Mapping[str, Sequence[int]]
) -> dict[str, list[str]]:
    """The names of tensors that differ from those that a model needs, by what is wrong with them.

    A size that is 0 in a new model is any: of a buffer as long as the data that a part reads when it is trained.
    """

    def fits(its: list[int], shape: list[int]) -> bool:
        return len(its) == len(shape) and all(
            wanted in (0, size) for size, wanted in zip(its, shape, strict=True)
        )

    both = [(key, list(found[key].shape), list(shape)) for key, shape in shapes.items() if key in found]
    return {
        "missing": [key for key in shapes if key not in found],
        "unknown": [key for key in found if key not in shapes],
        "misshapen": [
            f"{key} is {its} and must be {shape}" for key, its, shape in both if not fits(its, shape)
        ],
    }


def dtype_differences(found: Mapping[str, Tensor], needed: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The names of tensors whose dtype a model cannot have: any that it computes in for floating ones."""
    return {
        "of the wrong type": [
            f"{name} is {_dtype_name(value)} and must be {_dtype_name(needed[name])}"
            for name, value in found.items()
            if name in needed
            and value.dtype not in (FLOATS if needed[name].is_floating_point() else [needed[name].dtype])
        ]
    }


def list_differences(problems: Mapping[str, Sequence[str]]) -> str:
    """Differences as one clause, a short list of names for each."""
    return "; ".join(f"{what}: {shorten_list(names)}" for what, names in problems.items() if names)


def shorten_list(items: Sequence[str], most: int = 12) -> str:
    """The first items with commas between them, and how many more there are."""
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest

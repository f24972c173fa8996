"""The files of published models, a JSON configuration and tensors: read within limits and checked against shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from peirce.errors import ModelFileError
from peirce.files import read_json, read_tensors


def published_config(path: Path) -> dict[str, Any]:
    """The table of a JSON file.

    Raises:
        ModelFileError: it cannot be read, or does not contain a table.
    """
    try:
        settings = read_json(path)
        if not isinstance(settings, dict):
            raise ValueError("it does not contain a table")
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


def check_published(found: Mapping[str, Tensor], shapes: Mapping[str, Sequence[int]], source: Path) -> None:
    """Check tensors against the names and shapes that a model needs: all must be finite and of one floating dtype.

    Raises:
        ModelFileError: they differ; one error lists everything.
    """
    both = [(key, list(found[key].shape), list(shape)) for key, shape in shapes.items() if key in found]
    problems = {
        "missing": [key for key in shapes if key not in found],
        "unknown": [key for key in found if key not in shapes],
        "misshapen": [f"{key} is {its} and must be {shape}" for key, its, shape in both if its != shape],
    }
    kinds = {tensor.dtype for tensor in found.values()}
    if len(kinds) > 1 or not all(kind.is_floating_point for kind in kinds):
        problems["not in one floating dtype"] = [
            f"{key} is {str(tensor.dtype).removeprefix('torch.')}"
            for key, tensor in found.items()
            if tensor.dtype != torch.float32
        ]
    if not any(problems.values()):
        problems["not finite"] = [key for key, tensor in found.items() if not tensor.isfinite().all()]
    if any(problems.values()):
        listed = "; ".join(f"{what}: {shorten_list(names)}" for what, names in problems.items() if names)
        raise ModelFileError(f"{source} does not have the tensors that its configuration needs. {listed}")


def shorten_list(items: Sequence[str], most: int = 12) -> str:
    """The first items with commas between them, and how many more there are."""
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest

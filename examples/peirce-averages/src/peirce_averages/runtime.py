"""The runtime of `arrays`: a deep averaging network in NumPy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peirce.errors import InputError, ModelFileError
from peirce.model import Report
from peirce.parts import Signature
from peirce_export import LoadedModel, Progress, Runtime, Source

if TYPE_CHECKING:
    from peirce import Model

ALLOWED = {False: ("float32", 1e-5), True: ("float16", 5e-3)}
"""The precision, and how far scores may be from torch's, without and with half word vectors."""


class OpenArrays(LoadedModel):
    """An opened file."""

    providers = ("numpy",)

    def __init__(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            self.about: Mapping[str, Any] = json.loads(arrays.pop("about").tobytes())
            self.signature = Signature.from_dict(self.about["signature"])
            self.words = arrays["words"].astype(np.float32)
            self.dense = {
                name.removeprefix("weight_"): (value, arrays[name.replace("weight", "bias")])
                for name, value in arrays.items()
                if name.startswith("weight_")
            }
        except (EOFError, OSError, ValueError, KeyError) as error:
            raise ModelFileError(
                f"{path} is not a file that `peirce export --to arrays` wrote: {error}"
            ) from error

    def dtype(self, name: str) -> np.dtype[Any]:
        """Ids are int64, masks bool, and all else float32."""
        specs = {spec.name: spec for spec in (*self.signature.inputs, *self.signature.outputs)}
        return np.dtype({"int64": np.int64, "bool": np.bool_, "float": np.float32}[specs[name].dtype])

    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Look up [b, x, d], average [b, d], layer by layer, score [b, classes]."""
        mask = feeds["attention_mask"].astype(np.float32)
        words = self.words[feeds["input_ids"]] * mask[..., None]
        state = words.sum(1) / np.maximum(mask.sum(1, keepdims=True), 1)
        found = {"unary": words}
        for name, (weight, bias) in self.dense.items():
            if name.isdigit():
                found["pooled"] = state = np.tanh(state @ weight.T + bias)
            else:
                found[f"{name}_logits"] = state @ weight.T + bias
        return [found[name] for name in outputs]

    def close(self) -> None:
        """Let go of the arrays."""
        del self.words, self.dense


class ArraysRuntime(Runtime):
    """Opens files that `arrays` wrote."""

    def open(self, path: Path, providers: Sequence[str] | None, threads: int | None) -> OpenArrays:
        """Read a file; NumPy alone computes."""
        if unknown := [name for name in providers or () if name != "numpy"]:
            raise InputError(f"{path} is computed by numpy, and not by {unknown[0]!r}; leave providers out")
        return OpenArrays(path)

    def source(self, path: Path) -> Source:
        """The spec that the file was made from."""
        return Source(spec=OpenArrays(path).about["spec"], weights=None)

    def verify(
        self,
        path: Path,
        model: Model,
        *,
        seed: int = 0,
        providers: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Report:
        """Hold all outputs against torch's, on random texts with padding."""
        from peirce_export import verify_read  # with torch

        opened = self.open(path, providers, None)
        precision, tolerance = ALLOWED[bool(opened.about["half"])]
        return verify_read(
            lambda path, shell: opened, path, model,
            precision=precision, tolerance=tolerance, seed=seed, progress=progress,
        )  # fmt: skip

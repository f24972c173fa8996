"""Served models as a loaded model, for the pipeline in front of them, and what it knows of them; without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from peirce.errors import InputError, ModelFileError
from peirce.files import read_json, write_json
from peirce_export.metadata import Metadata
from peirce_export.pipelines import Field
from peirce_export.runtimes import LoadedModel
from peirce_export.stepper import GraphStepper

ARRAYS: Mapping[str, Any] = {"int64": np.int64, "float": np.float32, "bool": np.bool_, "text": np.object_}
"""The numpy dtype of each kind of field."""
FRONT, GRAPH = "front.json", "model.onnx"
FORMAT = 1
"""The file beside a pipeline's `model.py` that describes the models behind it, and the version of its format."""
Call = Callable[[str, Mapping[str, NDArray[Any]], Sequence[str]], list[NDArray[Any]]]
"""Runs a served model by its name: arrays in, the outputs asked for out.

Raises:
    InputError: the model does not take them.
"""


def values_of(fields: Sequence[Field], given: Mapping[str, NDArray[Any]]) -> dict[str, list[Any]]:
    """The values in the inputs of a request, whose texts are bytes, by the names of a pipeline's fields.

    Raises:
        InputError: one is of another dtype, or is not UTF-8.
    """
    found: dict[str, list[Any]] = {}
    for each in (each for each in fields if each.name in given):
        array = given[each.name]
        if array.dtype != ARRAYS[each.kind]:
            raise InputError(f"input {each.name!r} is {array.dtype}, and must be {each.kind}")
        found[each.name] = array.ravel().tolist()
        if each.kind == "text":
            try:
                found[each.name] = [value.decode() for value in found[each.name]]
            except UnicodeDecodeError as error:
                raise InputError(f"input {each.name!r} is not UTF-8: {error}") from error
    return found


@define
class ServedFile(LoadedModel):
    """A model of the server; of one that generates, also the model that adds a token.

    Args:
        name: the model's name at the server.
        metadata: of its file.
        call: runs a model.
        step: the name and the metadata of the model that adds a token; None for a file that does not generate.
        batched: whether the server batches its requests.
    """

    name: str
    metadata: Metadata
    call: Call
    step: tuple[str, Metadata] | None = None
    batched: bool = True
    providers: tuple[str, ...] = field(default=("Triton",), init=False)
    generated: str | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.signature = self.metadata.signature

    def dtype(self, name: str) -> np.dtype[Any]:
        """The numpy dtype of an input or output."""
        return self.metadata.array_dtype(name)

    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Let the server compute outputs, in that order."""
        if not self.batched:
            return self.call(self.name, feeds, outputs)
        # Triton has no tensor of the batch alone: that is [batch, 1].
        given = {name: array[:, None] if array.ndim == 1 else array for name, array in feeds.items()}
        flat = {spec.name for spec in self.signature.outputs if len(spec.dims) == 1}
        found = self.call(self.name, given, outputs)
        return [array[:, 0] if name in flat else array for name, array in zip(outputs, found, strict=True)]

    def stepper(self) -> Callable[[Mapping[str, NDArray[Any]]], GraphStepper]:
        """Generation with the two models.

        Raises:
            InputError: the model was not exported to generate.
        """
        if self.step is None:
            raise InputError(f"the model {self.name!r} was not exported to generate; use --generate")
        name, metadata = self.step
        self.generated = metadata.signature.inputs[0].name
        return partial(GraphStepper, self.run, partial(self.call, name), (self.signature, metadata.signature))

    def close(self) -> None:
        """The server keeps its models."""


@frozen(kw_only=True)
class Front:
    """A pipeline and the models that it asks, at its own version.

    Args:
        pipeline: its name.
        model: the name of the model.
        metadata: of the model's file.
        step: the name and the metadata of the model that adds a token; None if the model does not generate.
        batched: whether the server batches the models' requests.
    """

    pipeline: str
    model: str
    metadata: Metadata
    step: tuple[str, Metadata] | None = None
    batched: bool = True

    def write(self, path: Path) -> None:
        """Write the file."""
        models = [(self.model, self.metadata), *([self.step] if self.step else [])]
        write_json(
            path,
            {
                "format": FORMAT,
                "pipeline": self.pipeline,
                "batched": self.batched,
                "models": [{"name": name, "metadata": data.to_properties()} for name, data in models],
            },
        )

    @classmethod
    def read(cls, path: Path) -> Front:
        """The inverse of `write`.

        Raises:
            ModelFileError: the file is missing, damaged, or of a newer Peirce.
        """
        try:
            content = read_json(path)
            if content["format"] != FORMAT:
                raise ModelFileError(
                    f"{path} was written by a newer Peirce; upgrade peirce, or export the model again"
                )
            first, *steps = [
                (each["name"], Metadata.from_properties(each["metadata"], str(path)))
                for each in content["models"]
            ]
            return cls(
                pipeline=content.get("pipeline") or content["answerer"],
                model=first[0],
                metadata=first[1],
                step=steps[0] if steps else None,
                batched=content.get("batched", True),
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelFileError(f"{path} is damaged or missing ({error}); export the model again") from error

"""Served models as an open file, for what stands in front of them in Triton's Python backend; no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import define, field
from numpy.typing import NDArray
from peirce.errors import InputError
from peirce.model import Field, LoadedModel

from peirce_export.metadata import Metadata
from peirce_export.stepper import GraphStepper

_REAL: Mapping[str, Any] = {"float32": np.float32, "float16": np.float16}
ARRAYS: Mapping[str, Any] = {"int64": np.int64, "float": np.float32, "bool": np.bool_, "text": np.object_}
"""The numpy dtype of each kind of field."""
Call = Callable[[str, Mapping[str, NDArray[Any]], Sequence[str]], list[NDArray[Any]]]
"""Runs a served model by its name: arrays in, the outputs asked for out.

Raises:
    InputError: the model does not take them.
"""


def values_of(fields: Sequence[Field], given: Mapping[str, NDArray[Any]]) -> dict[str, list[Any]]:
    """The values in the inputs of a request, whose texts are bytes, by the names of a pipeline's fields.

    Raises:
        InputError: one is of another dtype, or is no UTF-8.
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
                raise InputError(f"input {each.name!r} is no UTF-8: {error}") from error
    return found


@define
class ServedFile(LoadedModel):
    """A model that the server holds, and of one that generates its step.

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
        specs = (*self.signature.inputs, *self.signature.outputs)
        kind = next(spec.dtype for spec in specs if spec.name == name)
        return np.dtype(_REAL[self.metadata.precision] if kind == "float" else kind)

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

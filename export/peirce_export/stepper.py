"""Generation with two exported graphs: one reads prompts and gives their cached state, the other adds a token."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peirce.errors import InputError, ModelFileError
from peirce.model import NEXT, PREFILL, STEP, Ids
from peirce.parts import Signature
from peirce_export.metadata import Metadata, step_of
from peirce_export.runtimes import LoadedModel, OnDevice

Run = Callable[[Mapping[str, Any], Sequence[str]], Sequence[Any]]
"""Runs a graph: arrays by name in, or what an earlier run left on its device; the outputs asked for out."""


class GraphStepper:
    """Generation with exported graphs, from checked prompts. The cached state stays on the device of the graphs.

    Raises:
        InputError: a prompt is empty.
    """

    def __init__(
        self,
        prefill: Run,
        step: Run,
        signatures: tuple[Signature, Signature],
        feeds: Mapping[str, NDArray[Any]],
    ) -> None:
        self._run_prefill, self._run_step, self._feeds = prefill, step, feeds
        first, second = signatures
        self._token, *self._names = (spec.name for spec in second.inputs)
        self._logits, *others = (spec.name for spec in second.outputs)
        self._changing = [name for name in self._names if NEXT + name in others]
        mask = first.mask(self._token)
        self._real = np.ones(feeds[self._token].shape, np.bool_) if mask is None else feeds[mask.name]
        if not self._real.any(1).all():
            raise InputError(f"a prompt in {self._token!r} has no real token; begin it with one")
        self._cached: dict[str, Any] = {}

    def begin(self) -> NDArray[Any]:
        """Read the prompts, whichever side their padding is on."""
        logits, *cached = self._run_prefill(self._feeds, [self._logits, *self._names])
        self._cached = dict(zip(self._names, cached, strict=True))
        last = self._real.shape[1] - 1 - self._real[:, ::-1].argmax(1)
        return _array(logits)[np.arange(len(last)), last]

    def step(self, tokens: Ids) -> NDArray[Any]:
        """Append a token to each row."""
        feeds = {self._token: np.ascontiguousarray(tokens[:, None], np.int64), **self._cached}
        logits, *cached = self._run_step(feeds, [self._logits, *(NEXT + name for name in self._changing)])
        self._cached |= zip(self._changing, cached, strict=True)
        return _array(logits)[:, -1]

    def select(self, rows: Ids) -> None:
        """Go on with these rows."""
        self._cached = {
            name: np.ascontiguousarray(_array(value)[rows]) for name, value in self._cached.items()
        }


class GenerativeFile(LoadedModel):
    """A file that may be the one that reads prompts, with the one that adds a token beside it.

    Attributes:
        path: the file.
        metadata: what it says about itself.
    """

    path: Path
    metadata: Metadata
    _step_file: GenerativeFile | None = None

    @abstractmethod
    def open_companion(self, path: Path) -> GenerativeFile:
        """Open another file as this one was opened."""

    def stepper(self) -> Callable[[Mapping[str, NDArray[Any]]], GraphStepper]:
        """Generation with this graph, which reads prompts, and the one beside it, which adds a token.

        Raises:
            InputError: the file was not exported to generate.
            ModelFileError: the file of the step is missing, or belongs to another model.
        """
        if self._step_file is None:
            if self.metadata.role != PREFILL:
                raise InputError(
                    f"{self.path} was not exported to generate; export the model with `--set generate=true`"
                )
            path = step_of(self.path)
            self._step_file = self.open_companion(path)
            if (self._step_file.role, self._step_file.metadata.spec) != (STEP, self.metadata.spec):
                raise ModelFileError(
                    f"{path} belongs to another model than {self.path}; export the model again with "
                    "`--set generate=true`"
                )
        self.generated = self._step_file.signature.inputs[0].name
        signatures = self.signature, self._step_file.signature
        return partial(GraphStepper, self.run_on_device, self._step_file.run_on_device, signatures)

    def close(self) -> None:
        """Release the memory of the file that adds a token."""
        if self._step_file is not None:
            self._step_file.close()


def _array(value: Any) -> NDArray[Any]:
    return value.numpy() if isinstance(value, OnDevice) else value

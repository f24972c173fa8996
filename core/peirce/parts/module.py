"""What parts with parameters of their own share, whatever their kind."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from peirce.parts.base import Dims, SizedPart
from peirce.parts.signature import TensorSpec
from peirce.parts.tracing import annotate_part

T = TypeVar("T")


class ModulePart(SizedPart, nn.Module, ABC):
    """A part with parameters that runs before or after the operators and may declare further inputs of the model."""

    def __init__(self, options: Any, dims: Dims) -> None:
        nn.Module.__init__(self)
        self.options = options

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs that the part needs beside the standard ones."""
        return ()

    def begin(self) -> None:
        """Take what a new model starts with from outside its spec, such as a file of trained vectors.

        It is called once, after a model is built and initialised, and never when one is loaded: what it changes is in
        the state dict.
        """


def call_named(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a part; errors get a note with its name, such as `position 'shaw'`, and so do nodes of an exported graph."""
    if torch.compiler.is_exporting():
        with annotate_part(what):
            return function(*arguments)
    if torch.compiler.is_compiling():
        return function(*arguments)
    try:
        return function(*arguments)
    except Exception as error:
        error.add_note(f"raised in {what}")
        raise

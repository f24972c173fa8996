"""What parts with parameters of their own share, whatever their kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from torch import nn

from peirce.parts.base import Dims, Part
from peirce.parts.signature import TensorSpec

if TYPE_CHECKING:
    pass


class ModulePart(Part, nn.Module, ABC):
    """A part with parameters of its own that stands before or after the operators and may need inputs of its own."""

    @abstractmethod
    def __init__(self, options: Any, dims: Dims) -> None:
        nn.Module.__init__(self)

    @classmethod
    def check(cls, options: Any, dims: Dims) -> str | None:
        """Why the part cannot work with these options and sizes; None when it can."""
        return None

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs that the part needs beside the standard ones."""
        return ()

    def begin(self) -> None:
        """Take what a new model starts with from outside its spec, such as a file of trained vectors.

        It is called once, after a model is built and initialised, and never when one is loaded: what it changes is in
        the state dict.
        """

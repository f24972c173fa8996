"""A plug-in for Peirce: the operator `hadamard` and the position `depth`."""

import peirce
from peirce_hadamard.depth import Depth
from peirce_hadamard.hadamard import Hadamard

__all__ = ["Depth", "Hadamard", "register_operators", "register_positions"]


@peirce.hookimpl
def register_operators() -> list[type[peirce.parts.Operator]]:
    """The conjunction of two relations."""
    return [Hadamard]


@peirce.hookimpl
def register_positions() -> list[type[peirce.parts.Position]]:
    """How deep in brackets a token stands."""
    return [Depth]

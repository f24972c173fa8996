"""Where tokens stand: added to embeddings, given as relations, or biasing attention."""

import peirce

from peirce_plugins.positions.absolute import Absolute
from peirce_plugins.positions.distance import Distance
from peirce_plugins.positions.logirpe import LogiRPE
from peirce_plugins.positions.shaw import Shaw
from peirce_plugins.positions.t5 import T5

__all__ = ["T5", "Absolute", "Distance", "LogiRPE", "Shaw", "register_positions"]


@peirce.hookimpl
def register_positions() -> list[type]:
    """The positions that ship with Peirce."""
    return [Absolute, Shaw, T5, Distance, LogiRPE]

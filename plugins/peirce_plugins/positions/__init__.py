"""Where tokens stand: added to embeddings, given as relations, biasing attention, or restricting who sees whom."""

import peirce

from peirce_plugins.positions.absolute import Absolute
from peirce_plugins.positions.adjacency import Adjacency
from peirce_plugins.positions.atoms import Atoms
from peirce_plugins.positions.directed_distance import DirectedDistance
from peirce_plugins.positions.disentangled import Disentangled
from peirce_plugins.positions.distance import Distance
from peirce_plugins.positions.logirpe import LogiRPE
from peirce_plugins.positions.shaw import Shaw
from peirce_plugins.positions.t5 import T5

__all__ = [
    "T5",
    "Absolute",
    "Adjacency",
    "Atoms",
    "DirectedDistance",
    "Disentangled",
    "Distance",
    "LogiRPE",
    "Shaw",
    "register_positions",
]


@peirce.hookimpl
def register_positions() -> list[type]:
    """The positions that ship with Peirce."""
    return [Absolute, Shaw, T5, Distance, LogiRPE, Disentangled, DirectedDistance, Adjacency, Atoms]

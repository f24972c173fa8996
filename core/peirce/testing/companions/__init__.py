"""Plain parts that the suite composes others with, where a registry has none of its own.

A plug-in's parts are checked in whole models too, and a package of augmenters alone has no architecture to stand in.
`companied` adds what is lacking: an architecture with both branches and every place, the operators of attention, a
state operator, and binary atoms to begin with; and a recurrent network with a recurrence of its own. They compute what
they say, and pass the suite themselves.
"""

from __future__ import annotations

from peirce.parts import Architecture, Operator, Position, RecurrentOperator, StateOperator
from peirce.registry import Registered, Registry, hookimpl
from peirce.testing.companions.attention import Here, Offset, Score, Sum
from peirce.testing.companions.host import Host
from peirce.testing.companions.recurrent import Fading, RecurrentHost


@hookimpl
def register_operators() -> list[type[Operator | StateOperator | RecurrentOperator]]:
    """The two halves of attention, what one place implies, and a recurrence."""
    return [Score, Sum, Here, Fading]


@hookimpl
def register_positions() -> list[type[Position]]:
    """Binary atoms to begin with."""
    return [Offset]


@hookimpl
def register_architectures() -> list[type[Architecture]]:
    """A host for any part, and one for recurrent operators."""
    return [Host, RecurrentHost]


def companied(registry: Registry) -> Registry:
    """A registry with companions for its parts, under names and letters that it lacks."""
    return registry.completed(__name__)


def last(entry: Registered) -> bool:
    """A key that sorts companions after a registry's own parts."""
    return entry.part.__module__.startswith(f"{__name__}.")

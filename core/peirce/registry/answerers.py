"""Which class answers whole questions with a model: the answerers that plug-ins announce, by name, without torch."""

from __future__ import annotations

from peirce.model import Answerer
from peirce.registry.classes import class_named
from peirce.registry.registry import Catalogue


def answerer_named(name: str, registry: Catalogue | None = None) -> type[Answerer]:
    """The answerer of a name.

    Args:
        name: as a plug-in's `register_answerers` gives it.
        registry: where to look; what is installed and active if None.

    Raises:
        RegistryError: there is none, its module is not there, or it is no `Answerer`.
    """
    return class_named("answerers", name, Answerer, registry)

"""Which class answers whole questions with a model: the answerers that plug-ins announce, by name, without torch."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from peirce.errors import RegistryError
from peirce.model import Answerer
from peirce.parts import Signature
from peirce.registry.classes import class_named
from peirce.registry.foreign import ForeignError, in_a_line, run_foreign
from peirce.registry.registry import Catalogue, default_catalogue

_log = logging.getLogger("peirce")


def answerer_named(name: str, registry: Catalogue | None = None) -> type[Answerer]:
    """The answerer of a name.

    Args:
        name: as a plug-in's `register_answerers` gives it.
        registry: where to look; what is installed and active if None.

    Raises:
        RegistryError: there is none, its module is not there, or it is no `Answerer`.
    """
    return class_named("answerers", name, Answerer, registry)


def answerers_for(
    signature: Signature, assets: Collection[str], generates: bool, registry: Catalogue | None = None
) -> dict[str, type[Answerer]]:
    """The answerers that say that they answer with a model, by name. One that fails is named, and set aside.

    Args:
        signature, assets, generates: what they are told of it, as `Answerer.answers` takes them.
        registry: where to look; what is installed and active if None.
    """
    found: dict[str, type[Answerer]] = {}
    for entry in (registry or default_catalogue()).entries("answerers"):
        try:
            kind = answerer_named(entry.name, registry)
            if run_foreign(partial(kind.answers, signature, assets, generates)):
                found[entry.name] = kind
        except RegistryError as error:
            _log.warning("%s; it is not used", error)
        except ForeignError as error:
            cause = in_a_line(error.__cause__ or error)
            _log.warning("the answerer %r of %s fails: %s; it is not used", entry.name, entry.plugin, cause)
    return found

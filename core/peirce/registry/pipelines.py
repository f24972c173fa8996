"""Which class answers whole questions with a model: the pipelines that plug-ins announce, by name, without torch."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from peirce.errors import RegistryError
from peirce.model import Pipeline
from peirce.parts import Signature
from peirce.registry.classes import class_named
from peirce.registry.foreign import ForeignError, in_a_line, run_foreign
from peirce.registry.registry import Catalogue, default_catalogue

_log = logging.getLogger("peirce")


def pipeline_named(name: str, registry: Catalogue | None = None) -> type[Pipeline]:
    """The pipeline of a name.

    Args:
        name: as a plug-in's `register_pipelines` gives it.
        registry: where to look; what is installed and active if None.

    Raises:
        RegistryError: there is none, its module is not there, or it is no `Pipeline`.
    """
    return class_named("pipelines", name, Pipeline, registry)


def pipelines_for(
    signature: Signature, assets: Collection[str], generates: bool, registry: Catalogue | None = None
) -> dict[str, type[Pipeline]]:
    """The pipelines that say that they answer with a model, by name. One that fails is named, and set aside.

    Args:
        signature, assets, generates: what they are told of it, as `Pipeline.answers` takes them.
        registry: where to look; what is installed and active if None.
    """
    found: dict[str, type[Pipeline]] = {}
    for entry in (registry or default_catalogue()).entries("pipelines"):
        try:
            kind = pipeline_named(entry.name, registry)
            if run_foreign(partial(kind.answers, signature, assets, generates)):
                found[entry.name] = kind
        except RegistryError as error:
            _log.warning("%s; it is not used", error)
        except ForeignError as error:
            cause = in_a_line(error.__cause__ or error)
            _log.warning("the pipeline %r of %s fails: %s; it is not used", entry.name, entry.plugin, cause)
    return found

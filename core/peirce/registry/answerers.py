"""Which class answers whole questions with a model: the answerers that plug-ins announce, by name, without torch."""

from __future__ import annotations

from importlib import import_module

from peirce.errors import RegistryError
from peirce.model import Answerer
from peirce.registry.foreign import ForeignError, in_a_line, run_foreign
from peirce.registry.registry import Catalogue, default_catalogue


def answerer_named(name: str, registry: Catalogue | None = None) -> type[Answerer]:
    """The answerer of a name.

    Args:
        name: as a plug-in's `register_answerers` gives it.
        registry: where to look; what is installed and active if None.

    Raises:
        RegistryError: there is none, its module is not there, or it is no `Answerer`.
    """
    target = (registry or default_catalogue()).entry("answerers", name).part
    module, _, attribute = target.partition(":")
    try:
        found = run_foreign(lambda: getattr(import_module(module), attribute))
    except ForeignError as error:
        cause = error.__cause__ or error
        raise RegistryError(
            f"the answerer {name!r}, {target}, cannot be imported: {in_a_line(cause)}"
        ) from cause
    if not (isinstance(found, type) and issubclass(found, Answerer)):
        raise RegistryError(
            f"the answerer {name!r}, {target}, is no peirce.model.Answerer; upgrade its distribution"
        )
    return found

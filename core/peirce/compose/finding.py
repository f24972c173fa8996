"""The parts that a spec names: found in a registry, their options read, and refused at their place in the spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from peirce.errors import PeirceError, PlanError, RegistryError, one_line, unusable
from peirce.parts import Planned, UnknownVocabularyError
from peirce.spec import Spec, structure

if TYPE_CHECKING:
    from peirce.registry import Registry

T = TypeVar("T")
P = TypeVar("P", bound=Planned)


class PartFinder:
    """Finds the parts of one spec, and makes the errors for what is wrong with them.

    Args:
        spec: the spec.
        registry: where parts are looked up.
    """

    def __init__(self, spec: Spec, registry: Registry) -> None:
        self.spec, self.registry = spec, registry

    def part_class(self, kind: str, name: str, path: str) -> type[Any]:
        """The class of a part that the key at `path` names."""
        try:
            return self.registry.get(kind, name)
        except RegistryError as error:
            raise self.error(path, str(error)) from error

    def read(self, cls: type[T], table: Mapping[str, Any], path: str, label: str) -> T:
        """A table of the spec as an instance of an attrs class; `label` is what its keys are called in errors."""
        return structure(cls, table, where=self.spec.at, path=path, label=label)

    def plan_part(
        self, cls: type[P], kind: str, name: str, path: str, options: Mapping[str, Any], options_path: str
    ) -> P:
        """A part that the spec names, with its options, which may stand at a key of their own."""
        part = self.part_class(kind, name, path)
        label = f"option of {kind.removesuffix('s')} {part.name!r}"
        self.check_owner(part.Options, options, options_path, part.name)
        read = self.read(part.Options, part.upgrade_options(options), options_path, label)
        return cls(kind=kind, name=part.name, part=part, options=read, path=path)

    def check_owner(self, cls: type[Any], table: Mapping[str, Any], path: str, name: str) -> None:
        """Refuse an `Options` or `Dims` instance of another part, which a spec in Python can give."""
        owner = getattr(table, "source_class", None)
        if owner is not None and not issubclass(owner, cls):
            raise self.error(path, f"{name!r} takes {cls.__qualname__}, not {owner.__qualname__}")

    def check(self, planned: Planned, path: str, *arguments: Any) -> None:
        """Refuse a part that says that it cannot work, or asks for a size that the architecture does not have."""
        check = partial(planned.part.check, planned.options, *arguments)
        try:
            reason = self.attempt(planned, "check its options", check)
        except UnknownVocabularyError:
            return  # it is checked again when the data are known
        self.refuse_if(reason, planned, path)

    def attempt(self, planned: Planned, action: str, function: Callable[[], T]) -> T:
        """Call a part's own code; an error that is not the part's refusal is reported as a mistake of its plug-in."""
        try:
            return function()
        except UnknownVocabularyError:
            raise
        except Exception as error:
            reason: object = error
            if not isinstance(error, PeirceError):
                plugin = self.registry.entry(planned.kind, planned.name).plugin
                reason = f"plug-in {plugin} fails to {action}: {one_line(error)}"
            raise self.error(planned.path, unusable(planned, reason)) from error

    def refuse_if(self, reason: str | None, what: object, path: str) -> None:
        """Raise the error for a part that cannot be used, if there is a reason."""
        if reason is not None:
            raise self.error(path, unusable(what, reason))

    def error(self, path: str, message: str) -> PlanError:
        """The error for a mistake at a key of the spec."""
        return PlanError(f"{self.spec.at(path)}: {message}")

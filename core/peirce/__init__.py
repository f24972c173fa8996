"""Compose logic-biased neural networks from registered parts, train them, export them and run them.

Names are imported when they are first used, so that `import peirce` loads neither torch nor any plug-in.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peirce.components import Architecture as Architecture
    from peirce.components import Augmenter as Augmenter
    from peirce.components import BinaryPosition as BinaryPosition
    from peirce.components import Dims as Dims
    from peirce.components import Encoded as Encoded
    from peirce.components import Exporter as Exporter
    from peirce.components import GenerativeArchitecture as GenerativeArchitecture
    from peirce.components import Head as Head
    from peirce.components import NoOptions as NoOptions
    from peirce.components import Operator as Operator
    from peirce.components import PairPosition as PairPosition
    from peirce.components import Part as Part
    from peirce.components import Position as Position
    from peirce.components import Reader as Reader
    from peirce.components import ScopePosition as ScopePosition
    from peirce.components import StateOperator as StateOperator
    from peirce.components import Task as Task
    from peirce.components import Tokens as Tokens
    from peirce.components import UnaryPosition as UnaryPosition
    from peirce.components import Writer as Writer
    from peirce.errors import ExportError as ExportError
    from peirce.errors import InputError as InputError
    from peirce.errors import ModelFileError as ModelFileError
    from peirce.errors import PeirceError as PeirceError
    from peirce.errors import PlanError as PlanError
    from peirce.errors import RegistryError as RegistryError
    from peirce.errors import SpecError as SpecError
    from peirce.errors import TaskError as TaskError
    from peirce.exporting import export as export
    from peirce.hookspecs import hookimpl as hookimpl
    from peirce.model import Model as Model
    from peirce.model import build as build
    from peirce.model import load as load
    from peirce.pairs import PairBias as PairBias
    from peirce.predicates import Predicates as Predicates
    from peirce.registry import Registered as Registered
    from peirce.registry import Registry as Registry
    from peirce.registry import default_registry as default_registry
    from peirce.scope import Scope as Scope
    from peirce.signature import Signature as Signature
    from peirce.signature import TensorSpec as TensorSpec
    from peirce.spec import Spec as Spec
    from peirce.spec import load_spec as load_spec

    Session: Any
    __version__: str

_HOMES = {
    "peirce.components": (
        "Architecture", "Augmenter", "BinaryPosition", "Dims", "Encoded", "Exporter", "GenerativeArchitecture", "Head",
        "NoOptions", "Operator", "PairPosition", "Part", "Position", "Reader", "ScopePosition", "StateOperator", "Task",
        "Tokens", "UnaryPosition", "Writer",
    ),
    "peirce.errors": (
        "ExportError", "InputError", "ModelFileError", "PeirceError", "PlanError", "RegistryError",
        "SpecError", "TaskError",
    ),
    "peirce.exporting": ("Session", "export"),
    "peirce.hookspecs": ("hookimpl",),
    "peirce.model": ("Model", "build", "load"),
    "peirce.pairs": ("PairBias",),
    "peirce.predicates": ("Predicates",),
    "peirce.registry": ("Registered", "Registry", "default_registry"),
    "peirce.resources": ("__version__",),
    "peirce.scope": ("Scope",),
    "peirce.signature": ("Signature", "TensorSpec"),
    "peirce.spec": ("Spec", "load_spec"),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'peirce' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})

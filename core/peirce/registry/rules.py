"""What a class must be to be registered as a part: its kind's contract, its name, its api, its options.

Each rule gives the sentence that a plug-in's author reads; a part that breaks none can be registered.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from peirce.registry.file import EXPERIMENTS

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TYPING = re.compile(r"[UB] <- [UB] x [UB]")
_RESERVED = ("use", "as")
_EXPERIMENT = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+)*")


def why_no_part(kind: str, part: object) -> str | None:
    """Why an object cannot be registered as a part of a kind; None when it can."""
    if kind == EXPERIMENTS:
        return _why_no_experiment(part)
    from peirce import model, parts

    contracts: dict[str, tuple[type[Any], ...]] = {
        "operators": (parts.Operator, parts.StateOperator, parts.RecurrentOperator),
        "positions": (parts.Position,),
        "augmenters": (parts.Augmenter,),
        "heads": (parts.Head,),
        "architectures": (parts.Architecture,),
        "tasks": (model.Task,),
        "exporters": (model.Exporter,),
    }
    singular = kind.removesuffix("s")
    if (
        not isinstance(part, type)
        or not issubclass(part, contracts[kind])
        or not issubclass(part, parts.Part)
    ):
        wanted = " or ".join(contract.__name__ for contract in contracts[kind])
        return f"register_{kind} returns {part!r}, which is not a subclass of {wanted}"
    name = getattr(part, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{singular} {part.__qualname__} has the name {name!r}; names match {_NAME.pattern}"
    where = f"{singular} {name!r}"
    supported = parts.SUPPORTED_API
    if part.api not in supported:
        return (
            f"{where} was written for api {part.api!r}; this Peirce supports {supported[0]} to "
            f"{supported[-1]}. Install a version of one that fits the other"
        )
    if inspect.isabstract(part):
        missing = sorted(getattr(part, "__abstractmethods__", ()))
        return f"{where} does not define {', '.join(missing)}"
    why = _why_no_options(kind, part.Options)
    if why:
        return f"the Options of {where} {why}"
    why = _why_no_operator(where, part) if kind == "operators" else None
    why = why or next(_misdeclared(where, part), None)
    if why is None and issubclass(part, parts.Position) and not part.places():
        return (
            f"{where} serves no place: subclass UnaryPosition, BinaryPosition, PairPosition or ScopePosition"
        )
    return why


def _misdeclared(where: str, part: type[Any]) -> Iterator[str]:
    """Why names of the contracts that a part fulfils stand for something else in it: another type, or no method."""
    for contract in (base for base in part.__mro__ if base.__module__.startswith("peirce.")):
        own = f"{contract.__name__}.{{}}".format
        for name, hint in inspect.get_annotations(contract).items():
            if not hint.startswith("ClassVar["):
                continue
            said = hint.removeprefix("ClassVar[")[:-1]
            kind = eval(said, vars(sys.modules[contract.__module__]))
            if not hasattr(part, name):
                yield f"{where} does not declare {name!r}: {own(name)} is {said}"
            elif inspect.isfunction(found := inspect.getattr_static(part, name)):
                yield (
                    f"{where} has a method {name!r}, which hides {own(name)}, a class attribute ({said}); "
                    "give the method another name"
                )
            elif not _is_a(getattr(part, name), kind):
                yield f"{where} declares {name} = {found!r}; {own(name)} is {said}"
        for name, method in vars(contract).items():
            of_class = isinstance(method, classmethod)
            if name.startswith("_") or not (of_class or inspect.isfunction(method)):
                continue
            found = inspect.getattr_static(part, name)
            if not callable(getattr(part, name)):
                yield f"{where} declares {name} = {found!r}, which hides the method {own(name)}; give it another name"
            elif of_class and not isinstance(found, classmethod | staticmethod):
                yield f"{where} defines {name!r} without @classmethod, as {own(name)} is one"


def _is_a(value: object, kind: Any) -> bool:
    """Whether a value is of a type as contracts declare them; a set or a list does for its frozen like."""
    origin, args = get_origin(kind) or kind, get_args(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return value in args
    if origin in (Union, types.UnionType):
        return any(_is_a(value, arm) for arm in args)
    if origin is type:
        return isinstance(value, type)
    if origin in (tuple, frozenset):
        likes = (tuple, list) if origin is tuple else (frozenset, set)
        return isinstance(value, likes) and (not args or all(_is_a(item, args[0]) for item in value))
    if origin is Mapping:
        return isinstance(value, Mapping)
    return isinstance(value, origin) and not (origin is int and isinstance(value, bool))


def _why_no_experiment(found: object) -> str | None:
    from peirce.model import Experiment

    if not isinstance(found, Experiment):
        return f"register_experiments returns {found!r}, which is no Experiment; it returns instances, not classes"
    if not _EXPERIMENT.fullmatch(found.name):
        return f"an experiment has the name {found.name!r}; names match {_EXPERIMENT.pattern}"
    return None


def _why_no_operator(where: str, part: type[Any]) -> str | None:
    from peirce.parts import Operator, RecurrentOperator

    typing = getattr(part, "typing", None)
    if not isinstance(typing, str) or (issubclass(part, Operator) and not _TYPING.fullmatch(typing)):
        return f'{where} has the typing {typing!r}; one looks like "U <- B x U": output <- kernel x premise'
    if issubclass(part, RecurrentOperator):
        if (typing, part.scope_rule, part.letter) != ("U <- U x U", "causal", None):
            return f"{where} is recurrent: leave typing, scope_rule and letter as RecurrentOperator has them"
    elif getattr(part, "scope_rule", None) not in ("reduce", "pairwise", "none"):
        return f"{where} must declare its mask contract: scope_rule is reduce, pairwise or none"
    if part.letter is not None and not (isinstance(part.letter, str) and re.fullmatch("[a-z]", part.letter)):
        return f"{where} has the letter {part.letter!r}; a letter is one of a to z, or None"
    return None


def _why_no_options(kind: str, options: object) -> str | None:
    if not isinstance(options, type) or not attrs.has(options):
        return "are no attrs class"
    try:
        options.__setattr__(object.__new__(options), "x", None)
    except attrs.exceptions.FrozenInstanceError:
        pass
    except Exception:
        return "are not frozen: decorate them with attrs.frozen(kw_only=True)"
    else:
        return "are not frozen: decorate them with attrs.frozen(kw_only=True)"
    for field in attrs.fields(options):
        if field.init and not field.kw_only:
            return f"take {field.name!r} by position: decorate them with attrs.frozen(kw_only=True)"
        if field.name in _RESERVED or field.alias in _RESERVED:
            return f"have a field {field.alias!r}, which is a key of the spec's own; choose another name"
        if kind == "operators" and "activation" in (field.name, field.alias):
            return "have a field 'activation', a key of every operator's table in a spec; choose another name"
    return None

"""The rules for what the hook of each kind may return, and sentences for the plug-in's author where one is broken."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from peirce.registry.kinds import ANNOUNCED, KINDS, WORD, Read, added_kinds, read_mapping

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TYPING = re.compile(r"[UB] <- [UB]( x [UB])*")
_PAIRS = {"score": "B <- U x U", "value": "U <- B", "attention": "U <- U x U x U"}
"""How the typing of an operator begins that scores pairs of tokens, sums values, or does both."""


def read_hook(kind: str, result: object) -> Read:
    """What the hook of a kind returned."""
    if kind not in (*KINDS, *ANNOUNCED):
        return _with_subject(kind, added_kinds()[kind].read(result))
    if kind == "commands":
        return _with_subject(kind, read_mapping(result, WORD, r"\S.*", "'greet': 'Greet somebody.'"))
    if isinstance(result, str | Path | type) or not isinstance(result, Iterable):
        what = "paths" if kind == "specs" else "classes"
        return [], [f"register_{kind} must return a list of {what}, not {result!r}"]
    if kind == "specs":
        return _specs(result)
    parts = list(result)
    reasons = [_why_no_part(kind, part) for part in parts]
    named = [(part.name, part) for part in parts if isinstance(getattr(part, "name", None), str)]
    return named, [reason for reason in reasons if reason is not None]


def _with_subject(kind: str, read: Read) -> Read:
    named, reasons = read
    return named, [f"register_{kind} {reason}" for reason in reasons]


def _specs(result: Iterable[object]) -> Read:
    found: list[tuple[str, Any]] = []
    broken = []
    for path in result:
        files = sorted(path.glob("*.toml")) if isinstance(path, Path) and path.is_dir() else [path]
        good = [
            file for file in files if isinstance(file, Path) and file.suffix == ".toml" and file.is_file()
        ]
        found += [(file.stem, file) for file in good]
        if not len(good) == len(files) > 0:
            broken.append(
                f"register_specs returns {path!r}, which is neither a .toml file nor a folder of .toml files"
            )
    return found, broken


def _why_no_part(kind: str, part: object) -> str | None:
    from peirce import model, parts

    contracts: dict[str, tuple[type[Any], ...]] = {
        "operators": (parts.Operator, parts.PureOperator, parts.StateOperator, parts.RecurrentOperator),
        "positions": (parts.Position,),
        "augmenters": (parts.Augmenter,),
        "heads": (parts.Head,),
        "architectures": (parts.Architecture,),
        "tasks": (model.Task,),
        "exporters": (model.Exporter,),
    }
    if not isinstance(part, type) or not issubclass(part, contracts[kind]):
        wanted = " or ".join(contract.__name__ for contract in contracts[kind])
        return f"register_{kind} returns {part!r}, which is not a subclass of {wanted}"
    assert issubclass(part, parts.Part), "every contract is a part's"
    singular, name = kind.removesuffix("s"), getattr(part, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{singular} {part.__qualname__} has the name {name!r}; names match {_NAME.pattern}"
    return next(_breaches(part, f"{singular} {name!r}"), None)


def _breaches(part: type[Any], where: str) -> Iterator[str]:
    """The reasons why a class cannot be a part of its kind, a sentence each, gravest first."""
    from peirce import parts

    supported = parts.SUPPORTED_API
    if part.api not in supported:
        yield (
            f"{where} was written for api {part.api!r}; this Peirce supports {supported[0]} to {supported[-1]}. "
            "Install a version of one that fits the other"
        )
    if missing := sorted(getattr(part, "__abstractmethods__", ())):
        yield f"{where} does not define {', '.join(missing)}"
    yield from (f"the Options of {where} {why}" for why in _wrong_options(part.Options))
    if issubclass(part, parts.PureOperator | parts.StateOperator | parts.RecurrentOperator):
        yield from (f"{where} {why}" for why in _wrong_operator(part))
    yield from (f"{where} {why}" for why in _misdeclared(part))
    if issubclass(part, parts.Position) and not part.places():
        bases = "UnaryPosition, BinaryPosition, PairPosition, RotaryPosition or ScopePosition"
        yield f"{where} serves no place: subclass {bases}"


def _misdeclared(part: type[Any]) -> Iterator[str]:
    """The attributes of a part that differ from its contract: missing, of another type, or no method."""
    for contract in (base for base in part.__mro__ if base.__module__.startswith("peirce.")):
        qualified = f"{contract.__name__}.{{}}".format
        for name, hint in inspect.get_annotations(contract).items():
            if not hint.startswith("ClassVar["):
                continue
            declared = hint.removeprefix("ClassVar[")[:-1]
            if not hasattr(part, name):
                yield f"does not declare {name!r}: {qualified(name)} is {declared}"
            elif not _is_a(getattr(part, name), eval(declared, vars(sys.modules[contract.__module__]))):
                yield f"declares {name} = {inspect.getattr_static(part, name)!r}; {qualified(name)} is {declared}"
        for name, method in vars(contract).items():
            of_class = isinstance(method, classmethod)
            if name.startswith("_") or not (of_class or inspect.isfunction(method)):
                continue
            found = inspect.getattr_static(part, name)
            if not callable(getattr(part, name)):
                yield f"declares {name} = {found!r}, which hides the method {qualified(name)}; give it another name"
            elif of_class and not isinstance(found, classmethod | staticmethod):
                yield f"defines {name!r} without @classmethod, as {qualified(name)} is one"


def _is_a(value: object, kind: Any) -> bool:
    """Whether a value is of a type as contracts declare them; sets and lists also pass as frozensets and tuples."""
    origin, args = get_origin(kind) or kind, get_args(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return value in args
    if origin in (Union, types.UnionType):
        return any(_is_a(value, arm) for arm in args)
    if origin in (tuple, frozenset):
        likes = (tuple, list) if origin is tuple else (frozenset, set)
        return isinstance(value, likes) and (not args or all(_is_a(item, args[0]) for item in value))
    return isinstance(value, origin) and not (origin is int and isinstance(value, bool))


def _wrong_operator(part: type[Any]) -> Iterator[str]:
    from peirce.parts import AttentionOperator, PureOperator, RecurrentOperator

    typing, pure = getattr(part, "typing", None), issubclass(part, PureOperator)
    if not isinstance(typing, str) or (pure and not _TYPING.fullmatch(typing)):
        yield f'has the typing {typing!r}; one looks like "U <- B x U": output <- each reading'
    elif pure and not typing.startswith(needed := _PAIRS.get(str(part.pair), "")):
        yield f"has pair = {part.pair!r}, which is for {needed}, and the typing {typing!r}"
    elif pure and (part.pair == "attention") != issubclass(part, AttentionOperator):
        yield f"has pair = {part.pair!r}, and 'attention' is for an AttentionOperator, whose halves it needs"
    if issubclass(part, RecurrentOperator):
        if (typing, part.scope_rule, part.letter) != ("U <- U x U", "causal", None):
            yield "is recurrent: leave typing, scope_rule and letter as RecurrentOperator has them"
    elif getattr(part, "scope_rule", None) not in ("reduce", "pairwise", "none"):
        yield "must declare its mask contract: scope_rule is reduce, pairwise or none"
    if part.letter is not None and not (isinstance(part.letter, str) and re.fullmatch("[a-z]", part.letter)):
        yield f"has the letter {part.letter!r}; a letter is one of a to z, or None"


def _wrong_options(options: object) -> Iterator[str]:
    if not isinstance(options, type) or not attrs.has(options):
        yield "are not an attrs class"
        return
    try:
        options.__setattr__(object.__new__(options), "x", None)
        frozen = False
    except Exception as error:
        frozen = isinstance(error, attrs.exceptions.FrozenInstanceError)
    if not frozen:
        yield "are not frozen: decorate them with attrs.frozen(kw_only=True)"
    for field in attrs.fields(options):
        if field.init and not field.kw_only:
            yield f"take {field.name!r} by position: decorate them with attrs.frozen(kw_only=True)"
        for name in {field.name, field.alias} & {"use", "as"}:
            yield f"have a field {name!r}, which is a key of the spec's own; choose another name"

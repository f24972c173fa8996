"""What a hook may return: for each kind, what can be registered by name, and sentences for the plug-in's author."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from peirce.registry.file import EXPERIMENTS

Read = tuple[list[tuple[str, Any]], list[str]]
"""What can be registered, by name, and why the rest cannot."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TYPING = re.compile(r"[UB] <- [UB]( x [UB])*")
_PAIRS = {"score": "B <- U x U", "value": "U <- B", "attention": "U <- U x U x U"}
"""How the typing begins of an operator that scores pairs of tokens, sums values, or does both."""
_EXPERIMENT = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+)*")
_WORD = r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)?"
_TARGET = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
_MAPPINGS = {
    "runtimes": (r"\.[a-z0-9]+", _TARGET, "'.onnx': 'my_lab.session:Session'"),
    "pipelines": (_WORD, _TARGET, "'ask': 'my_lab.serving:Asks'"),
    "parsers": (_WORD, _TARGET, "'spacy': 'my_lab.parsers:Spacy'"),
    "views": (_WORD, _TARGET, "'query': 'my_lab.viewing:Queries'"),
    "commands": (_WORD, r"\S.*", "'greet': 'Greet somebody.'"),
}
"""The kinds that are strings by name: what names and strings look like, and an example."""


def read_hook(kind: str, result: object) -> Read:
    """What the hook of a kind returned."""
    if kind in _MAPPINGS:
        return _mapping(kind, result)
    if isinstance(result, str | Path | type) or not isinstance(result, Iterable):
        what = {"specs": "paths", EXPERIMENTS: "experiments"}.get(kind, "classes")
        return [], [f"register_{kind} must return a list of {what}, not {result!r}"]
    if kind == "specs":
        return _specs(result)
    things = list(result)
    whys = [_why_no_experiment(each) if kind == EXPERIMENTS else _why_no_part(kind, each) for each in things]
    named = [(thing.name, thing) for thing in things if isinstance(getattr(thing, "name", None), str)]
    return named, [why for why in whys if why is not None]


def _mapping(kind: str, result: object) -> Read:
    name_form, text_form, example = _MAPPINGS[kind]
    if not isinstance(result, Mapping):
        return [], [f"register_{kind} must return a mapping such as {{{example}}}, not {result!r}"]
    broken = [
        f"register_{kind} returns {name!r}: {text!r}; one looks like {example}"
        for name, text in result.items()
        if not (isinstance(name, str) and re.fullmatch(name_form, name))
        or not (isinstance(text, str) and re.fullmatch(text_form, text))
    ]
    return [(str(name).removeprefix("."), text) for name, text in result.items()], broken


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
                f"register_specs returns {path!r}, which is neither a .toml file nor a folder of such"
            )
    return found, broken


def _why_no_experiment(found: object) -> str | None:
    from peirce.model import Experiment

    if not isinstance(found, Experiment):
        return f"register_experiments returns {found!r}, which is no Experiment; it returns instances, not classes"
    if not _EXPERIMENT.fullmatch(found.name):
        return f"an experiment has the name {found.name!r}; names match {_EXPERIMENT.pattern}"
    return None


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
    """What keeps a class of a kind from being a part of it, a sentence each, gravest first."""
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
    """Why names of the contracts that a part fulfils stand for something else in it: another type, or no method."""
    for contract in (base for base in part.__mro__ if base.__module__.startswith("peirce.")):
        own = f"{contract.__name__}.{{}}".format
        for name, hint in inspect.get_annotations(contract).items():
            if not hint.startswith("ClassVar["):
                continue
            said = hint.removeprefix("ClassVar[")[:-1]
            if not hasattr(part, name):
                yield f"does not declare {name!r}: {own(name)} is {said}"
            elif not _is_a(getattr(part, name), eval(said, vars(sys.modules[contract.__module__]))):
                yield f"declares {name} = {inspect.getattr_static(part, name)!r}; {own(name)} is {said}"
        for name, method in vars(contract).items():
            of_class = isinstance(method, classmethod)
            if name.startswith("_") or not (of_class or inspect.isfunction(method)):
                continue
            found = inspect.getattr_static(part, name)
            if not callable(getattr(part, name)):
                yield f"declares {name} = {found!r}, which hides the method {own(name)}; give it another name"
            elif of_class and not isinstance(found, classmethod | staticmethod):
                yield f"defines {name!r} without @classmethod, as {own(name)} is one"


def _is_a(value: object, kind: Any) -> bool:
    """Whether a value is of a type as contracts declare them; a set or a list does for its frozen like."""
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
        yield "are no attrs class"
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

"""Spec files: found by path or by a ready spec's name, and read with what they extend."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peirce.errors import InputError, SpecError
from peirce.files import near_names, parse_toml
from peirce.files import read_text as read_file
from peirce.spec.documents import Document, parse_document

Ready = Callable[[str], Path]
"""Finds the file of a ready spec by its name; it raises `SpecError` where there is none."""


RECIPE = {"task", "spec"}
"""Keys that tell a recipe from a spec; a recipe has one of them at least, and a spec neither."""


def read(path_or_name: str | os.PathLike[str], ready: Ready, seen: tuple[str, ...] = ()) -> Document:
    """The document of a spec's file or of a ready spec, with what it extends merged in."""
    path = Path(path_or_name) if is_path(path_or_name) else _ready_file(os.fspath(path_or_name), ready)
    identity = os.path.realpath(path)
    if identity in seen:
        chain = " extends ".join(_short_path(name) for name in (*seen[seen.index(identity) :], identity))
        raise SpecError(f"{chain}: a spec cannot extend itself; remove one `extend`")
    document = read_document(path)
    if RECIPE & document.data.keys():
        raise SpecError(
            f"{_short_path(path)} is a recipe, not a spec: `peirce finetune --recipe` takes one that names a task, and "
            "`peirce pretrain` one that names a spec"
        )
    if "train" in document.data:
        raise SpecError(
            f"{document.at(('train',))}: how to train is no part of a spec; say it with --set train.KEY=VALUE, or in a "
            "recipe, which names a spec"
        )
    return extend(document, path.parent, ready, (*seen, identity))


def read_document(path: Path, what: str = "spec") -> Document:
    """Read a TOML file; errors call it a `what` file.

    Raises:
        SpecError: it cannot be read, or is not valid TOML.
    """
    try:
        text = read_file(path)
    except FileNotFoundError:
        raise SpecError(f"no {what} file {_short_path(path)}{near_names(path, '*.toml')}") from None
    except IsADirectoryError:
        near = near_names(path / path.name, "*.toml")
        raise SpecError(f"{_short_path(path)} is a folder, not a {what}{near}") from None
    except UnicodeDecodeError:
        raise SpecError(
            f"{_short_path(path)}: not text in UTF-8, and a {what} is a .toml file saved so"
        ) from None
    except InputError:  # of PEIRCE_LIMIT, and not of the file
        raise
    except (OSError, ValueError) as error:
        raise SpecError(f"{_short_path(path)}: cannot be read: {error}") from None
    return parse_document(text, _short_path(path))


def extend(document: Document, folder: Path, ready: Ready, seen: tuple[str, ...] = ()) -> Document:
    """A document with what it extends merged in; a relative path starts from a folder, also of the key `from`."""
    model = document.data.get("model")
    if isinstance(model, dict) and isinstance(model.get("from"), str):
        model["from"] = os.path.normpath(folder / model["from"])
    if "extend" not in document.data:
        return document
    base = document.data.pop("extend")
    place = document.at(("extend",))
    if not isinstance(base, str):
        raise SpecError(f"{place}: extend must be a string: a path or the name of a ready spec, not {base!r}")
    try:
        return document.merged_onto(read(str(folder / base) if is_path(base) else base, ready, seen))
    except SpecError as error:
        raise SpecError(f"{error}\n  extended at {place}") from error


def is_path(path_or_name: str | os.PathLike[str]) -> bool:
    """Whether a SPEC argument is a path: it ends in `.toml` or has a separator."""
    if not isinstance(path_or_name, str | os.PathLike):
        kind = type(path_or_name).__name__
        raise SpecError(
            f"a spec is a path, the name of a ready spec, or what Spec.from_toml gives, and no {kind}"
        )
    text = os.fspath(path_or_name)
    return not isinstance(path_or_name, str) or text.endswith(".toml") or "/" in text or os.sep in text


def _ready_file(name: str, ready: Ready) -> Path:
    """The file of a ready spec; the error for any other name shows the path that it may stand for."""
    try:
        return ready(name)
    except SpecError as error:
        for path in (f"{name}.toml", f"{name}/spec.toml", f"./{name}"):
            if Path(path).is_file():
                raise SpecError(
                    f"{name!r} is not a ready spec; for the file of that name, write {path}"
                ) from None
        if Path(name).is_dir():
            raise SpecError(f"{name} is a folder without spec.toml, which a saved model has") from None
        raise SpecError(f"{error}. A path ends in .toml or has a separator") from None


def summary_of(path: Path) -> str:
    """What a ready spec is: the comment in its first line, or after a `#:schema` line, which is for editors."""
    lines = read_file(path).split("\n")
    return next(line for line in [*lines, ""] if not line.startswith("#:")).removeprefix("#").strip()


def parse_override(text: str) -> tuple[str, Any]:
    """The key and the value of `model.dims.layers=2`; the value is TOML, or else a plain string.

    Raises:
        SpecError: `=` or the key before it is missing.
    """
    dotted, equals, value = (each.strip() for each in text.partition("="))
    if not dotted or not equals:
        raise SpecError(f"cannot read {text!r} as KEY=VALUE, such as model.dims.layers=2")
    try:
        return dotted, parse_toml(f"value = {value}")["value"]
    except ValueError:
        number = re.fullmatch(r"[+-]?(\d+\.|\.\d+)(e[+-]?\d+)?", value, re.I)  # .5 and 1. are none of TOML
        return dotted, float(value) if number else value


def _short_path(path: str | os.PathLike[str]) -> str:
    """A path as a reader knows it: relative to the working directory if it lies below."""
    try:
        return Path(path).absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return os.fspath(path)

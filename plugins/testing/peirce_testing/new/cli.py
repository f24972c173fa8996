"""`peirce new`: a part, a distribution of parts, or a spec to start from, each of which works as it is written."""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, commands, groups, print_json
from peirce.errors import InputError, RegistryError, check_known
from peirce.registry import default_registry
from peirce_testing.new.package import Package, write
from peirce_testing.new.part import KINDS, NewPart

_ALL = (*KINDS, "spec")


def new(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=f"What to write: {', '.join(_ALL)}.",
            autocompletion=lambda incomplete: [kind for kind in _ALL if kind.startswith(incomplete)],
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What specs and commands will call it.")],
    package: Annotated[
        Path | None,
        typer.Option(
            "--package",
            metavar="DIR",
            help="The distribution to write or to add to, called as its folder is; without it, one file is written.",
        ),
    ] = None,
    architecture: Annotated[
        str, typer.Option("--architecture", metavar="NAME", help="The architecture of a new spec.")
    ] = "",
    kernel: Annotated[
        bool, typer.Option("--kernel", help="Write an operator with a kernel in Triton's language.")
    ] = False,
    json: Json = False,
) -> None:
    """Write a part that works, a distribution of parts, or a commented spec.

    A part is a module with its hook, which passes the conformance suite as it is written. With --package it lies in a
    distribution with tests, a ready spec and notes on how to check it. Nothing that is there is overwritten.
    """
    check_known("kind", kind, _ALL)
    if architecture and kind != "spec":
        raise InputError(f"--architecture is for `peirce new spec`, and not for a {kind}; leave it out")
    if kernel and kind not in ("operator", "fused-operator"):
        raise InputError(f"--kernel is for `peirce new operator`, and not for a {kind}; leave it out")
    kind = "fused-operator" if kernel else kind
    if kind == "spec":
        root, fresh, edited, steps = _spec(name, package, architecture)
    else:
        root, fresh, edited, steps = _part(kind, name, package)
    write(root, fresh, edited)
    written, changed = ([str(root / path) for path in files] for files in (fresh, edited))
    if json:
        print_json("peirce.new/1", kind=kind, name=name, written=written, changed=changed, next=steps)
        return
    for what, paths in (("wrote", written), ("added to", changed)):
        for path in paths:
            typer.echo(f"{what} {path}")
    for step in steps:
        typer.echo(f"next: {step}")


_Files = tuple[Path, dict[Path, str], dict[Path, str], list[str]]
"""A folder, new files and changed ones below it, and what the user does next."""


def _part(kind: str, given: str, package: Path | None) -> _Files:
    """The files of a part."""
    name = given.replace("-", "_") if NewPart(kind, "").hyphenated else given
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        proper = re.sub(r"[^a-z0-9]+", "_", given.lower()).strip("_0123456789")
        proper = "my_part" if not proper or keyword.iskeyword(proper) else proper
        raise InputError(
            f"{given!r} cannot name the {kind}; a name has small letters, digits and '_', begins with a letter, "
            f"and is not a Python keyword; try {proper}"
        )
    if package is None:
        if kind == "command":
            raise InputError(
                f"a command is announced by a distribution; add --package, such as --package peirce-{given}"
            )
        part = NewPart(kind, name)
        path = Path(f"{name}.py")
        if not path.exists() and (found := find_spec(name)) is not None:
            raise InputError(
                f"{path} would hide the module {name!r} of {found.origin or 'a folder'}; choose another name, or "
                f"write it into a distribution: --package peirce-{name}"
            )
        _check_name_is_free(part)
        return Path(), {path: part.text}, {}, [f"PYTHONPATH=. peirce plugins check {name}"]
    home = Package.at(package)
    part = NewPart(kind, name, home.module)
    _check_name_is_free(part)
    install = [f"cd {package} && pip install -e '.[test]'"] if home.new or kind == "command" else []
    steps = [*install, "pytest", f"peirce plugins check {home.distribution}"]
    return package, *home.files(part), steps


def _check_name_is_free(part: NewPart) -> None:
    """Refuse a name that something registered has."""
    kind = part.registered
    if kind == "commands":
        listed = commands()
        owners = {each.name: str(each.entries[0].distribution) for each in listed}
        owners |= dict.fromkeys(groups(listed), "a group of commands")
    else:
        registry = default_registry()
        if kind not in registry.kinds:  # which a distribution adds that is not installed
            return
        owners = {entry.name: entry.plugin for entry in registry.entries(kind)}
        owners |= {alias: f"an alias of {of!r}" for alias, of in registry.aliases(kind).items()}
    if owner := owners.get(part.called):
        rid = "" if owner.startswith("peirce-") else ", or uninstall that"
        raise RegistryError(f"{kind} has {part.called!r} already, of {owner}; choose another name{rid}")


def _spec(name: str, package: Path | None, architecture: str) -> _Files:
    """The file of a spec."""
    from peirce_testing.new.spec import SCHEMA, spec_of

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name.endswith(".toml"):
        raise InputError(f"{name!r} cannot name a spec; use letters, digits, '_', '-' and '.', without .toml")
    registry = default_registry()
    if not architecture:
        names = ", ".join(registry.names("architectures"))
        raise InputError(f"a spec needs an architecture: --architecture NAME, one of {names}")
    text = spec_of(name, architecture, registry)
    inside = Path()
    if package is not None:
        home = Package.at(package)
        if home.new:
            raise InputError(
                f"{package} has no distribution yet; begin it with a part, `peirce new KIND NAME`"
            )
        inside = home.inside / "specs"
    path = inside / f"{name}.toml"
    root = package or Path()
    steps = [f"peirce summary {root / path}", f"peirce spec schema -o {root / inside / SCHEMA}"]
    return root, {path: text}, {}, steps

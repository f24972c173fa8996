"""Running the code of plug-ins: what it prints, what it raises that is no Exception, and whose module it is."""

from __future__ import annotations

import csv
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from opcode import opname
from operator import attrgetter
from types import ModuleType
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from peirce.errors import PanicError, RegistryError, one_line
from peirce.files import parse_json
from peirce.registry.entry_points import EntryPoint

_LOADING = threading.RLock()
"""One thread imports plug-ins at a time: what they print goes to standard error."""


class ForeignModuleError(RegistryError):
    """A module that is not of the distribution that announces it, so that nothing says what it is."""


def import_target(target: str) -> Any:
    """The module of a `module`, or the object of a `module:attribute`.

    Raises:
        Exception: whatever the import raises; a `PanicError` for what is no Exception.
    """
    name, _, attribute = target.partition(":")
    with guard_plugin_code(name):
        module = import_module(name)
        return attrgetter(attribute)(module) if attribute else module


def import_announced(entry: EntryPoint) -> Any:
    """What an entry point names, from a module that must be of the distribution that announces it.

    Raises:
        ForeignModuleError: it is not, or the metadata say why it cannot be used.
        Exception: as `import_target`.
    """
    if entry.fault:
        raise ForeignModuleError(entry.fault)
    found, name = import_target(entry.target), entry.target.partition(":")[0]
    if place := foreign_file(entry, sys.modules[name]):
        raise ForeignModuleError(
            f"its module {name} was imported from {place}, which is not of {entry.distribution} {entry.version}: "
            "remove or rename that one, or install this one in place"
        )
    return found


@contextmanager
def guard_plugin_code(module: str) -> Iterator[None]:
    """Within it a plug-in's module is imported or its hooks run: what it prints goes to standard error.

    Args:
        module: of the plug-in.

    Raises:
        PanicError: as `contain_panics`.
    """
    with _LOADING, redirect_stdout(sys.stderr), contain_panics(module):
        yield


@contextmanager
def contain_panics(module: str) -> Iterator[None]:
    """Within it a plug-in's code raises nothing but Exceptions, and so cannot end what goes on without it.

    Ctrl-C and the signals that end a command as Ctrl-C does still raise a KeyboardInterrupt.

    Args:
        module: of the plug-in.

    Raises:
        PanicError: the code raised something that is no Exception, such as SystemExit or a panic of a library in Rust.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not _is_raised_in(module, error):
            raise
        raise PanicError(one_line(error)) from error


def _is_raised_in(module: str, error: BaseException) -> bool:
    """Whether a statement of a module's package raised an error; a signal interrupts other instructions."""
    frames = error.__traceback__
    assert frames is not None, "it was raised"
    while frames.tb_next is not None:
        frames = frames.tb_next
    top = str(frames.tb_frame.f_globals.get("__name__")).partition(".")[0]
    instruction = opname[frames.tb_frame.f_code.co_code[frames.tb_lasti]]
    return top == module.partition(".")[0] and instruction == "RAISE_VARARGS"


def foreign_file(plugin: EntryPoint, module: ModuleType) -> str | None:
    """The file of the module of a plug-in's name where it is not of the distribution that announces it; else None.

    A module of the same name may stand before it on the import path. Of an editable distribution every module below
    its project's folder is its own; where nothing is known of a module's file, or of the distribution's, neither is
    doubted.
    """
    distribution, file = plugin.announced_by, getattr(module, "__file__", None)
    if distribution is None or file is None:
        return None
    folder = str(distribution.locate_file(""))
    record, editable = (
        distribution.read_text("RECORD"),
        _project_folder(distribution.read_text("direct_url.json")),
    )
    for normal in (os.path.abspath, os.path.realpath):
        place = os.path.relpath(normal(file), normal(folder)).replace(os.sep, "/")
        if record is None:
            own = place.partition(".")[0].removesuffix("/__init__") == module.__name__.replace(".", "/")
        else:
            own = place in {row[0] for row in csv.reader(record.splitlines()) if row}
        if own or (editable and normal(file).startswith(os.path.join(normal(editable), ""))):
            return None
    return file


def _project_folder(direct_url: str | None) -> str | None:
    """The folder of a distribution that was installed in place, as `direct_url.json` says (PEP 610)."""
    with suppress(ValueError, KeyError, TypeError):
        found = parse_json(direct_url or "{}")
        if found["dir_info"]["editable"]:
            return url2pathname(urlparse(found["url"]).path)
    return None

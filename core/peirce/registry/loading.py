"""Loading plug-ins: each is imported, asked, validated and taken whole, or quarantined whole with its cause."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Hashable, Iterable
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

import pluggy
from attrs import frozen

from peirce.errors import one_line, unknown
from peirce.registry import hookspecs
from peirce.registry.discovery import Plugin, Wanted
from peirce.registry.file import ANNOUNCED, EXPERIMENTS, KINDS
from peirce.registry.names import Registered
from peirce.registry.rules import read_hook

_HOOKS = tuple(f"register_{kind}" for kind in (*KINDS, *ANNOUNCED, EXPERIMENTS))
_LOADING = threading.RLock()
"""One thread loads plug-ins at a time: modules are imported, and what they print goes to standard error."""


@frozen(kw_only=True)
class Quarantined:
    """A plug-in of which nothing is used.

    Args:
        plugin: its name.
        distribution: the distribution that announces it; None for a module that is only named.
        version: the distribution's version.
        cause: why, in one line.
        detail: the traceback of an import that failed; empty otherwise.
        parts: kind and name of what it was about to register, as far as that is known.
    """

    plugin: str
    distribution: str | None
    version: str | None
    cause: str
    detail: str = ""
    parts: tuple[tuple[str, str], ...] = ()


class _BreachError(Exception):
    """A plug-in breaks its contract; `parts` are those that it was about to register."""

    def __init__(self, cause: str, parts: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(cause)
        self.parts = tuple(parts)


class PluginManager(pluggy.PluginManager):
    """The plug-ins of one registry: it calls their hooks, and blocks those that fail."""

    def __init__(self) -> None:
        super().__init__("peirce")
        self.add_hookspecs(hookspecs)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """The marks of a hook; a name that is no hook's, and a hook without marks, are a slip of its author."""
        options = super().parse_hookimpl_opts(plugin, name)
        if options is None:
            if name in _HOOKS:
                raise _BreachError(f"{name} is not marked `@peirce.hookimpl`, so that nothing would call it")
        elif (hook := options.get("specname") or name) not in _HOOKS:
            raise _BreachError(unknown("hook", hook, _HOOKS))
        return options

    def load(
        self, wanted: Iterable[Wanted], kinds: Iterable[str]
    ) -> tuple[tuple[Plugin, ...], list[Registered], tuple[Quarantined, ...]]:
        """Load plug-ins.

        Args:
            wanted: each with its module, or with None to import it; one module is loaded once, under its first name.
            kinds: what they are asked for; the hook of each is `register_KIND`.

        Returns:
            The plug-ins that could be loaded, all that they register, and those that could not be loaded.
        """
        loaded: list[Plugin] = []
        registered: list[Registered] = []
        quarantined: list[Quarantined] = []
        with _LOADING, redirect_stdout(sys.stderr):
            for plugin, module in wanted:
                try:
                    module = import_module(plugin.module) if module is None else module
                    if not isinstance(
                        module, Hashable
                    ):  # such as a SimpleNamespace, which pluggy cannot hold
                        module = type(
                            "Hooks", (), {k: staticmethod(hook) for k, hook in vars(module).items()}
                        )
                    if self.is_registered(module):
                        continue
                    self.register(module, plugin.name)
                    registered += self._registered(plugin, module, tuple(kinds))
                    loaded.append(plugin)
                except (Exception, SystemExit) as error:  # a script that was named as a plug-in may exit
                    self.set_blocked(plugin.name)
                    quarantined.append(_quarantined(plugin, error))
        return tuple(loaded), registered, tuple(quarantined)

    def _registered(self, plugin: Plugin, module: object, kinds: Iterable[str]) -> list[Registered]:
        """Everything of some kinds that one of the plug-ins registers."""
        registered: list[Registered] = []
        broken: list[str] = []
        for kind in kinds:
            caller = self.subset_hook_caller(f"register_{kind}", self.get_plugins() - {module})
            if not any(hook.plugin is module for hook in caller.get_hookimpls()):
                continue
            for result in caller() or [None]:  # pluggy passes over a hook that returns None
                found, why = read_hook(kind, result)
                broken += why
                registered += [
                    Registered(
                        part=value,
                        kind=kind,
                        name=name,
                        plugin=plugin.name,
                        distribution=plugin.distribution,
                        version=plugin.version,
                    )
                    for name, value in found
                ]
        names = [(entry.kind, entry.name) for entry in registered]
        twice = sorted({name for name in names if names.count(name) > 1})
        broken += [f"it registers {kind}.{name} twice" for kind, name in twice]
        if broken:
            raise _BreachError("; ".join(broken), names)
        return registered


def _quarantined(plugin: Plugin, error: BaseException) -> Quarantined:
    breach = error if isinstance(error, _BreachError) else None
    return Quarantined(
        plugin=plugin.name,
        distribution=plugin.distribution,
        version=plugin.version,
        cause=_cause(plugin, error),
        detail="" if breach else "".join(traceback.format_exception(error)),
        parts=breach.parts if breach else (),
    )


def _cause(plugin: Plugin, error: BaseException) -> str:
    if isinstance(error, _BreachError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if f"{plugin.module}.".startswith(f"{error.name}."):
            return f"there is no module {error.name!r}"
        return f"it needs the module {error.name!r}, which is not installed"
    return one_line(error)

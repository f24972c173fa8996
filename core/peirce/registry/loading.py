"""Loading plug-ins: each is imported and its hooks are called and checked; all of it is used, or all quarantined."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pluggy
from attrs import frozen

from peirce.errors import PanicError, one_line, unknown
from peirce.registry import hookspecs
from peirce.registry.discovery import Wanted
from peirce.registry.entry_points import EntryPoint
from peirce.registry.importing import ForeignModuleError, guard_plugin_code, import_announced
from peirce.registry.kinds import all_kinds, hook_modules
from peirce.registry.names import Registered
from peirce.registry.rules import read_hook


@frozen(kw_only=True)
class Quarantined:
    """A plug-in that cannot be used, and why.

    Args:
        plugin: its name.
        cause: why, in one line.
        detail: the traceback of an import that failed; empty otherwise.
        parts: kind and name of what it was about to register, as far as that is known.
    """

    plugin: str
    cause: str
    detail: str = ""
    parts: tuple[tuple[str, str], ...] = ()


class _BreachError(Exception):
    """A plug-in breaks its contract: why, and the parts that it was about to register."""


class _Hooks(pluggy.PluginManager):
    """The hooks of one plug-in."""

    def __init__(self) -> None:
        super().__init__("peirce")
        self._known = [f"register_{kind}" for kind in all_kinds()]

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """The options of a hook; a mark on an unknown hook and a hook without its mark are mistakes of the author.

        One with `optionalhook` is for a distribution that need not be installed.
        """
        options = super().parse_hookimpl_opts(plugin, name)
        if options is None:
            if name in self._known:
                raise _BreachError(
                    f"{name} is not marked `@peirce.hookimpl`, so nothing calls it; add the mark"
                )
        elif (hook := options.get("specname") or name) not in self._known and not options["optionalhook"]:
            raise _BreachError(unknown("hook", hook, self._known))
        return options


def load(
    wanted: Iterable[Wanted], kinds: Iterable[str]
) -> tuple[tuple[EntryPoint, ...], list[Registered], tuple[Quarantined, ...]]:
    """The plug-ins that can be loaded, all of some kinds that they register, and the plug-ins that cannot be loaded.

    Two names of one module are a mistake of one of them. The hook of a kind is `register_KIND`.
    """
    loaded: dict[int, EntryPoint] = {}
    registered: list[Registered] = []
    quarantined: list[Quarantined] = []
    for plugin, module in wanted:
        try:
            module = import_announced(plugin) if module is None else module
            first = loaded.get(id(module))
            if first is None:
                with guard_plugin_code(plugin.target):
                    registered += _load_plugin(plugin, module, kinds)
                loaded[id(module)] = plugin
            elif first.name != plugin.name:
                raise _BreachError(
                    f"its module {plugin.target} is that of {first.name}, which is loaded; switch one of them off"
                )
        except (_BreachError, ForeignModuleError) as error:
            cause, *parts = error.args
            quarantined.append(Quarantined(plugin=plugin.name, cause=cause, parts=tuple(parts)))
        except Exception as error:
            raised = error.__cause__ if isinstance(error, PanicError) and error.__cause__ else error
            frames = raised.__traceback__
            while frames and str(frames.tb_frame.f_globals.get("__name__")).partition(".")[0] != plugin.top:
                frames = frames.tb_next  # the frames before the plug-in's own are of no use to its author
            if frames is None and not isinstance(raised, SyntaxError):  # which names its line itself
                frames = raised.__traceback__
            detail = "".join(traceback.format_exception(type(raised), raised, frames))
            cause = _failure_cause(plugin, error)
            quarantined.append(Quarantined(plugin=plugin.name, cause=cause, detail=detail))
    return tuple(loaded.values()), registered, tuple(quarantined)


def _load_plugin(plugin: EntryPoint, module: object, kinds: Iterable[str]) -> list[Registered]:
    """Everything of some kinds that a plug-in registers."""
    hooks = _Hooks()
    for module_of_hooks in (hookspecs, *hook_modules()):
        hooks.add_hookspecs(module_of_hooks)
    hooks.register(module, plugin.name)
    if not hooks.get_hookcallers(module):
        raise _BreachError("it has no function marked `@peirce.hookimpl`, and so registers nothing")
    registered: list[Registered] = []
    broken: list[str] = []
    origin = (plugin.name, plugin.distribution, plugin.version)
    for kind in kinds:
        caller = getattr(hooks.hook, f"register_{kind}")
        if not caller.get_hookimpls():
            continue
        for result in caller() or [None]:  # pluggy passes over a hook that returns None
            found, why = read_hook(kind, result)
            broken += why
            registered += [Registered(part, kind, name, *origin) for name, part in found]
    names = Counter((entry.kind, entry.name) for entry in registered)
    broken += [f"it registers {kind}.{name} twice" for kind, name in sorted(names) if names[kind, name] > 1]
    if broken:
        raise _BreachError("; ".join(broken), *names)
    return registered


def _failure_cause(plugin: EntryPoint, error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if f"{plugin.target.partition(':')[0]}.".startswith(f"{error.name}."):
            return f"there is no module {error.name!r}"
        line = "; run `pip install 'peirce-core[torch]'`" if error.name == "torch" else ""
        return f"it needs the module {error.name!r}, which is not installed{line}"
    return one_line(error)

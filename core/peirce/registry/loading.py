"""Loading plug-ins: each is imported, asked, validated and taken whole, or quarantined whole with its cause.

A plug-in is validated on a manager of its own, so that one that fails leaves nothing behind.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable
from functools import partial
from importlib import import_module

import pluggy
from attrs import frozen

from peirce.errors import unknown
from peirce.registry import hookspecs
from peirce.registry.announced import READERS, Read
from peirce.registry.file import ANNOUNCED, EXPERIMENTS, KINDS
from peirce.registry.foreign import ForeignError, in_a_line, run_foreign
from peirce.registry.names import Plugin, Quarantined, Registered
from peirce.registry.rules import why_no_part


@frozen(kw_only=True)
class Loaded:
    """What came of loading plug-ins.

    Args:
        plugins: those that could be loaded, in order, each once.
        registered: everything that they register; several may claim one name.
        quarantined: those that could not be loaded.
    """

    plugins: tuple[Plugin, ...]
    registered: tuple[Registered, ...]
    quarantined: tuple[Quarantined, ...]


def load(plugins: Iterable[tuple[Plugin, object]], kinds: Iterable[str]) -> Loaded:
    """Load plug-ins.

    Args:
        plugins: each with its module, or with None to import it; one module is loaded once, under its first name.
        kinds: what they are asked for; the hook of each is `register_KIND`.
    """
    kinds = tuple(kinds)
    modules: list[object] = []
    loaded: list[Plugin] = []
    registered: list[Registered] = []
    quarantined: list[Quarantined] = []
    for plugin, module in plugins:
        try:
            module = run_foreign(partial(import_module, plugin.module)) if module is None else module
            if any(module is another for another in modules):
                continue
            own = run_foreign(partial(_registered, plugin, module, kinds))
        except ForeignError as error:
            quarantined.append(_quarantine(plugin, error.__cause__ or error))
            continue
        modules.append(module)
        loaded.append(plugin)
        registered += own
    return Loaded(plugins=tuple(loaded), registered=tuple(registered), quarantined=tuple(quarantined))


class _BreachError(Exception):
    """A plug-in breaks its contract; `parts` are those that it was about to register."""

    def __init__(self, cause: str, parts: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(cause)
        self.parts = tuple(parts)


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("peirce")
    manager.add_hookspecs(hookspecs)
    return manager


def _registered(plugin: Plugin, module: object, kinds: Iterable[str]) -> list[Registered]:
    """Everything of some kinds that a plug-in registers, validated on a manager that is thrown away."""
    manager = _manager()
    _check_hooks(manager, module)
    manager.register(module, plugin.name)
    manager.check_pending()
    registered: list[Registered] = []
    broken: list[str] = []
    for kind in kinds:
        for implementation in getattr(manager.hook, f"register_{kind}").get_hookimpls():
            # Called one by one, since pluggy passes over a hook that returns None.
            result = implementation.function()
            found, why = READERS[kind](result) if kind in READERS else _parts(kind, result)
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
    broken += [
        f"it registers {kind}.{name} twice"
        for kind, name in sorted(set(names))
        if names.count((kind, name)) > 1
    ]
    if broken:
        raise _BreachError("; ".join(broken), names)
    return registered


def _parts(kind: str, result: object) -> Read:
    """The parts of a kind that a hook returns, by name, and why some are none."""
    if isinstance(result, (str, type)) or not isinstance(result, Iterable):
        return [], [f"register_{kind} must return a list of classes, not {result!r}"]
    classes = list(result)
    named = [(part.name, part) for part in classes if isinstance(getattr(part, "name", None), str)]
    return named, [why for part in classes if (why := why_no_part(kind, part))]


def _check_hooks(manager: pluggy.PluginManager, module: object) -> None:
    known = [f"register_{kind}" for kind in (*KINDS, *ANNOUNCED, EXPERIMENTS)]
    for name in dir(module):
        options = manager.parse_hookimpl_opts(module, name)
        if options is None:
            if name in known and callable(getattr(module, name)):
                raise _BreachError(f"{name} is not marked `@peirce.hookimpl`, so that nothing would call it")
            continue
        hook = options.get("specname") or name
        if hook not in known:
            raise _BreachError(f"{unknown('hook', hook, known)}")
        if options.get("wrapper") or options.get("hookwrapper"):
            raise _BreachError(f"{hook} may not be a wrapper: a plug-in adds its own parts only")
        if inspect.signature(getattr(module, name)).parameters:
            raise _BreachError(f"{hook} takes no arguments")


def _quarantine(plugin: Plugin, error: BaseException) -> Quarantined:
    parts = error.parts if isinstance(error, _BreachError) else ()
    return Quarantined(
        plugin=plugin.name,
        distribution=plugin.distribution,
        version=plugin.version,
        cause=_cause(plugin, error),
        detail="" if isinstance(error, _BreachError) else "".join(traceback.format_exception(error)),
        parts=parts,
    )


def _cause(plugin: Plugin, error: BaseException) -> str:
    if isinstance(error, _BreachError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if plugin.module == error.name or plugin.module.startswith(error.name + "."):
            return f"there is no module {error.name!r}"
        return f"it needs the module {error.name!r}, which is not installed"
    return in_a_line(error)

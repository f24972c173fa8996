"""Which parts there are: discovery, activation, conflicts, provenance, and the quarantine of broken plug-ins.

A `Registry` is a value with one pluggy manager inside; nothing is global but the cache of `default_registry`.
A plug-in is validated on a manager of its own and committed whole, so that one that fails leaves nothing.
"""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pluggy
from attrs import frozen

from peirce import hookspecs
from peirce.errors import RegistryError, unknown
from peirce.last_failures import record
from peirce.part_rules import why_no_part
from peirce.registry_file import KINDS, RegistryFile, canonical, find_registry_file

__all__ = [
    "KINDS",
    "Plugin",
    "Quarantined",
    "Registered",
    "Registry",
    "default_registry",
    "installed_plugins",
]

GROUP = "peirce.plugins"
_log = logging.getLogger("peirce")


@frozen(kw_only=True)
class Plugin:
    """A plug-in that is installed or named, loaded or not.

    Args:
        name: `distribution:entry-point`, or `module:NAME`.
        module: the module that it is.
        distribution: the distribution that announces it; None for a module that is only named.
        version: the distribution's version.
    """

    name: str
    module: str
    distribution: str | None = None
    version: str | None = None


@frozen(kw_only=True)
class Registered:
    """A part and where it comes from."""

    part: type[Any]
    kind: str
    name: str
    plugin: str
    distribution: str | None
    version: str | None


@frozen(kw_only=True)
class Quarantined:
    """A plug-in of which nothing is used.

    Args:
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


class Registry:
    """The parts of a set of plug-ins; it does not change once it is made.

    Make one with `Registry.discover` (what is installed and named) or `Registry.of` (the given plug-ins).
    """

    def __init__(
        self, plugins: Iterable[tuple[Plugin, object]], file: RegistryFile, off: Iterable[str] = ()
    ) -> None:
        """Load plug-ins.

        Args:
            plugins: each with its module, or with None to import it.
            file: what settles names; its switches have been applied already.
            off: plug-ins that are there and switched off, for messages.
        """
        self.file = file
        self.off = tuple(off)
        self._manager = _manager()
        owned: list[Registered] = []
        quarantined: list[Quarantined] = []
        self.plugins: tuple[Plugin, ...] = ()
        for plugin, module in plugins:
            try:
                # An import may do anything, raise SystemExit included; none of it may stop the rest.
                module = import_module(plugin.module) if module is None else module
                if self._manager.is_registered(module):
                    continue
                parts = _parts(plugin, module)
            except (Exception, SystemExit) as error:
                quarantined.append(_quarantine(plugin, error))
                continue
            self._manager.register(module, plugin.name)
            self.plugins += (plugin,)
            owned.extend(parts)
        self.quarantined: tuple[Quarantined, ...] = tuple(quarantined)
        self.conflicts: tuple[str, ...] = ()
        self._blocked: dict[tuple[str, str], str] = {}
        self._parts = self._settle_names(owned)
        self.letters: Mapping[str, str] = MappingProxyType(self._settle_letters())
        self._aliases = self._read_aliases()

    @classmethod
    def discover(
        cls,
        config: RegistryFile | None = None,
        path: str | Path | None = None,
        extra_plugins: Iterable[str | object] = (),
    ) -> Registry:
        """Load what is installed and active, as registry.toml says.

        Args:
            config: what registry.toml says; found as its search order says when it is absent.
            path: the registry.toml to read instead of searching.
            extra_plugins: plug-ins to load whatever registry.toml says: modules, their names, or
                `distribution:entry-point`.

        Raises:
            RegistryError: registry.toml cannot be used, or two plug-ins own one name or one letter.
        """
        registry = cls.survey(config, path, extra_plugins)
        for broken in registry.quarantined:
            _log.warning(
                "plug-in %s was not loaded: %s. `peirce plugins check %s` tells more, "
                "`peirce plugins disable %s` switches it off",
                *(broken.plugin, broken.cause, broken.plugin, broken.plugin),
            )
        if registry.conflicts:
            raise RegistryError("\n".join(registry.conflicts))
        return registry

    @classmethod
    def survey(
        cls,
        config: RegistryFile | None = None,
        path: str | Path | None = None,
        extra_plugins: Iterable[str | object] = (),
    ) -> Registry:
        """As `discover`, but conflicts are kept in `conflicts` instead of raised, and nothing is said."""
        file = config or find_registry_file(path)
        installed = installed_plugins()
        wanted: list[tuple[Plugin, object]] = [
            (_plugin_of(extra, installed), _module_of(extra)) for extra in extra_plugins
        ]
        wanted += [(plugin, None) for plugin in installed if file.is_on(plugin.name)]
        named = [Plugin(name=f"module:{name}", module=name) for name in file.modules]
        if named and not file.imports_modules:
            _log.warning(
                "%s names modules (%s), which are not imported from a file that was merely found; to import "
                "them, run with `--registry %s` or set PEIRCE_REGISTRY to it",
                *(file.where, ", ".join(file.modules), file.where),
            )
        elif named:
            wanted += [(plugin, None) for plugin in named if file.is_on(plugin.name)]
        unique = {plugin.name: (plugin, module) for plugin, module in reversed(wanted)}
        off = [plugin.name for plugin in (*installed, *named) if plugin.name not in unique]
        registry = cls(reversed(unique.values()), file, off)
        record(
            {plugin.name: plugin.version for plugin in registry.plugins},
            {broken.plugin: (broken.version, broken.cause) for broken in registry.quarantined},
        )
        return registry

    @classmethod
    def of(cls, *plugins: str | object, file: RegistryFile | None = None) -> Registry:
        """Load just these plug-ins: modules, their names, objects with hooks, or `distribution:entry-point`.

        Raises:
            RegistryError: two of them own one name or one letter.
        """
        installed = installed_plugins()
        registry = cls(
            ((_plugin_of(one, installed), _module_of(one)) for one in plugins), file or RegistryFile()
        )
        if registry.conflicts:
            raise RegistryError("\n".join(registry.conflicts))
        return registry

    def get(self, kind: str, name: str) -> type[Any]:
        """The part of a kind that a name or an alias stands for.

        Raises:
            RegistryError: there is none; the message lists the nearest names and what could not be loaded.
        """
        return self.entry(kind, name).part

    def entry(self, kind: str, name: str) -> Registered:
        """A part with its plug-in, distribution and version; raises as `get`."""
        if kind not in KINDS:
            raise RegistryError(unknown("part kind", kind, KINDS))
        actual = self._aliases.get((kind, name), name)
        found = self._parts.get((kind, actual))
        if found is not None:
            return found
        if (kind, actual) in self._blocked:
            raise RegistryError(self._blocked[kind, actual])
        raise RegistryError(self._missing(kind, name, actual))

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of a kind's parts, sorted; aliases are not among them."""
        return tuple(entry.name for entry in self.entries(kind))

    def entries(self, kind: str) -> tuple[Registered, ...]:
        """A kind's parts with where they come from, sorted by name."""
        if kind not in KINDS:
            raise RegistryError(unknown("part kind", kind, KINDS))
        return tuple(self._parts[key] for key in sorted(self._parts) if key[0] == kind)

    def aliases(self, kind: str) -> Mapping[str, str]:
        """The names of a kind's parts by alias."""
        return {alias: name for (its, alias), name in self._aliases.items() if its == kind}

    def _missing(self, kind: str, name: str, actual: str) -> str:
        singular = kind.removesuffix("s")
        via = f" (alias of {actual!r} in {self.file.where})" if actual != name else ""
        owners = [broken for broken in self.quarantined if (kind, actual) in broken.parts]
        if owners:
            causes = "; ".join(f"{broken.plugin}: {broken.cause}" for broken in owners)
            return (
                f"{singular} {name!r}{via} belongs to a plug-in that is quarantined. {causes}. "
                f"`peirce plugins check {owners[0].plugin}` tells more"
            )
        message = unknown(singular, actual, (*self.names(kind), *self.aliases(kind))) + via
        doubtful = [broken for broken in self.quarantined if not broken.parts]
        if doubtful:
            causes = "; ".join(f"{broken.plugin}: {broken.cause}" for broken in doubtful)
            message += f". It may belong to a plug-in that is quarantined: {causes}"
        if self.off:
            message += (
                f". Switched off: {', '.join(self.off)}; `peirce plugins enable PLUGIN` switches one on"
            )
        return message

    def why_no_letter(self, letter: str) -> str | None:
        """Why a letter that operators claim stands for none of them; None where none claims it or it does stand."""
        return self._blocked.get(("letters", letter))

    def _settle_names(self, owned: list[Registered]) -> dict[tuple[str, str], Registered]:
        claims: dict[tuple[str, str], list[Registered]] = {}
        for entry in owned:
            claims.setdefault((entry.kind, entry.name), []).append(entry)
        settled = {}
        for (kind, name), owners in claims.items():
            winner = self._winner(
                f"{kind}.{name}", f"{kind.removesuffix('s')} {name!r}", (kind, name), owners
            )
            if winner is not None:
                settled[kind, name] = winner
        return settled

    def _settle_letters(self) -> dict[str, str]:
        claims: dict[str, list[Registered]] = {}
        for entry in self._parts.values():
            if entry.kind == "operators" and entry.part.letter is not None:
                claims.setdefault(entry.part.letter, []).append(entry)
        settled = {}
        for letter, owners in sorted(claims.items()):
            what = f"letter {letter!r} of the operators' shorthand"
            winner = self._winner(f"letters.{letter}", what, ("letters", letter), owners)
            if winner is not None:
                settled[letter] = winner.name
        return settled

    def _winner(
        self, key: str, what: str, blocked: tuple[str, str], owners: list[Registered]
    ) -> Registered | None:
        """The owner of a name, by `prefer` when there are several or when it names another one."""
        preferred = self.file.prefer.get(key)
        for owner in owners:
            if owner.plugin == preferred:
                return owner
        if preferred is None and len(owners) == 1:
            return owners[0]
        if preferred is not None:
            state = next(
                (f"is quarantined: {q.cause}" for q in self.quarantined if q.plugin == preferred), None
            )
            state = state or ("is switched off" if preferred in self.off else "does not register it")
            message = (
                f'{self.file.where} prefers "{preferred}" for {what}, but that plug-in {state}. Owners there '
                f'are: {_owners(owners)}. Correct or remove the line `"{key}" = "{preferred}"` under [prefer]'
            )
            if len(owners) == 1:
                # Taking the other owner in silence would change models; the rest of the registry still works.
                self._blocked[blocked] = message
                return None
        else:
            choices = " or ".join(f'`"{key}" = "{owner.plugin}"`' for owner in owners)
            message = (
                f"{what} has {len(owners)} owners: {_owners(owners)}. Settle it with `peirce plugins prefer {key} "
                f"PLUGIN`, which writes one line under [prefer] of registry.toml: {choices}. In force is "
                f"{self.file.where}"
            )
        self.conflicts += (message,)
        return None

    def _read_aliases(self) -> dict[tuple[str, str], str]:
        aliases = {}
        for key, name in self.file.aliases.items():
            kind, _, alias = key.partition(".")
            if (kind, alias) in self._parts:
                self.conflicts += (
                    f'alias "{key}" in {self.file.where} hides the {kind.removesuffix("s")} of that name, of '
                    f"{self._parts[kind, alias].plugin}; choose another alias",
                )
            aliases[kind, alias] = name
        return aliases


@cache
def default_registry() -> Registry:
    """What is installed and active, discovered once a process."""
    return Registry.discover()


def installed_plugins() -> tuple[Plugin, ...]:
    """Every plug-in that an installed distribution announces, sorted; none is imported."""
    found: dict[str, Plugin] = {}
    for entry in entry_points(group=GROUP):
        plugin = _announced(entry)
        found.setdefault(plugin.name, plugin)
    return tuple(found[name] for name in sorted(found))


def _announced(entry: EntryPoint) -> Plugin:
    distribution = entry.dist
    owner = canonical(distribution.name) if distribution is not None else "unknown"
    version = distribution.version if distribution is not None else None
    return Plugin(name=f"{owner}:{entry.name}", module=entry.value, distribution=owner, version=version)


def _plugin_of(given: str | object, installed: Iterable[Plugin]) -> Plugin:
    """What a caller names: an installed plug-in if it is one, so that its parts have their provenance."""
    if isinstance(given, str):
        name = canonical(given) if ":" in given else given
        for plugin in installed:
            if name in (plugin.name, plugin.module):
                return plugin
        if ":" in name and not name.startswith("module:"):
            known = [plugin.name for plugin in installed]
            raise RegistryError(unknown("plug-in", name, known))
        module = name.removeprefix("module:")
        return Plugin(name=f"module:{module}", module=module)
    module = given.__name__ if isinstance(given, ModuleType) else _object_name(given)
    for plugin in installed:
        if module == plugin.module and isinstance(given, ModuleType):
            return plugin
    return Plugin(name=f"module:{module}", module=module, version=getattr(given, "__version__", None))


def _module_of(given: str | object) -> object:
    return None if isinstance(given, str) else given


def _object_name(given: object) -> str:
    if isinstance(given, type):
        return f"{given.__module__}.{given.__qualname__}"
    return f"{type(given).__module__}.{type(given).__qualname__}.{id(given):x}"


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("peirce")
    manager.add_hookspecs(hookspecs)
    return manager


def _parts(plugin: Plugin, module: object) -> list[Registered]:
    """Everything that a plug-in registers, validated on a manager that is thrown away."""
    manager = _manager()
    _check_hooks(manager, module)
    manager.register(module, plugin.name)
    manager.check_pending()
    parts: list[Registered] = []
    broken: list[str] = []
    for kind in KINDS:
        for implementation in getattr(manager.hook, f"register_{kind}").get_hookimpls():
            # Called one by one, since pluggy passes over a hook that returns None.
            result = implementation.function()
            if isinstance(result, (str, type)) or not isinstance(result, Iterable):
                raise _BreachError(f"register_{kind} must return a list of classes, not {result!r}")
            for part in result:
                why = why_no_part(kind, part)
                if why:
                    broken.append(why)
                name = getattr(part, "name", None)
                if isinstance(name, str):
                    parts.append(
                        Registered(
                            part=part,
                            kind=kind,
                            name=name,
                            plugin=plugin.name,
                            distribution=plugin.distribution,
                            version=plugin.version,
                        )
                    )
    names = [(entry.kind, entry.name) for entry in parts]
    broken += [
        f"it registers {kind}.{name} twice"
        for kind, name in sorted(set(names))
        if names.count((kind, name)) > 1
    ]
    if broken:
        raise _BreachError("; ".join(broken), names)
    return parts


def _check_hooks(manager: pluggy.PluginManager, module: object) -> None:
    known = [f"register_{kind}" for kind in KINDS]
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
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _owners(owners: Iterable[Registered]) -> str:
    return ", ".join(f"{owner.plugin}" + (f" ({owner.version})" if owner.version else "") for owner in owners)

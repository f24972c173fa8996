"""What a plug-in brings beside parts, as checks see it: what it announces, its commands, and its own import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from attrs import field, frozen

from peirce.registry import EXPERIMENTS, KINDS, Plugin, Registered, Registry, canonical

PLUGINS = "plugins"
"""The kind of the plug-ins themselves, whose import is checked."""
COMMANDS = "commands"
ANNOUNCED = ("specs", "runtimes", "pipelines", "parsers", EXPERIMENTS)
"""What the registry holds beside parts and is checked."""
CHECKED = (*KINDS, *ANNOUNCED[:-1], COMMANDS, EXPERIMENTS, PLUGINS)
"""Every kind that checks cover, in the order in which the suite takes them."""


@frozen(kw_only=True, eq=False)
class Beside:
    """What stands in the place of a part's class.

    Args:
        value: the path of a ready spec, the `module:attribute` of a runtime, a pipeline, a parser or a command, an
            experiment, or the module of a plug-in.
        together: of a plug-in, the modules of all that are checked with it.
        expected_failures: none can be stated.
    """

    value: Any
    together: tuple[str, ...] = ()
    expected_failures: Mapping[str, str] = field(factory=dict)


def beside(registry: Registry, plugins: Iterable[Plugin]) -> Iterator[Registered]:
    """What some plug-ins of a registry bring beside parts, the plug-ins themselves last.

    Args:
        registry: where it is registered.
        plugins: those of them that are checked.
    """
    plugins = tuple(plugins)
    names = {plugin.name for plugin in plugins}
    for kind in ANNOUNCED:
        for entry in registry.entries(kind):
            if entry.plugin in names:
                yield _registered(entry, kind, entry.name, entry.part)
    yield from _commands(plugins)
    for plugin in plugins:
        together = tuple(each.module for each in plugins)
        yield _registered(plugin, PLUGINS, plugin.name, plugin.module, together)


def _commands(plugins: Iterable[Plugin]) -> Iterator[Registered]:
    """The commands of the plug-ins' distributions, each once."""
    owners: dict[str, Plugin] = {}
    for plugin in plugins:
        if plugin.distribution is not None:
            owners.setdefault(plugin.distribution, plugin)
    for entry in sorted(entry_points(group="peirce.commands"), key=lambda entry: entry.name):
        owner = owners.get(canonical(entry.dist.name)) if entry.dist is not None else None
        if owner is not None:
            yield _registered(owner, COMMANDS, entry.name, entry.value)


def _registered(
    of: Plugin | Registered, kind: str, name: str, value: Any, together: tuple[str, ...] = ()
) -> Registered:
    return Registered(
        part=Beside(value=value, together=together),
        kind=kind,
        name=name,
        plugin=of.plugin if isinstance(of, Registered) else of.name,
        distribution=of.distribution,
        version=of.version,
    )

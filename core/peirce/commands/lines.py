"""The list of commands, each with its line of help; nothing here imports a command or a plug-in."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

from peirce.files import parse_toml, read_text
from peirce.registry import EntryPoint, RegistryFile, announcements, disabled_plugins, installed_plugins

_log = logging.getLogger("peirce")
GROUP = "peirce.commands"
CORE = {
    "list": ("parts:list_parts", "List the registered parts."),
    "describe": ("parts:describe", "Describe a part: typing, options, shapes, source, plug-in."),
    "plugins.list": ("plugins:list_plugins", "List the plug-ins; with --load also what each registers."),
    "plugins.enable": ("plugins:enable", "Switch a plug-in on."),
    "plugins.disable": ("plugins:disable", "Switch a plug-in off."),
    "plugins.prefer": ("plugins:prefer", "Say which plug-in owns a name that several register."),
    "plugins.add": ("plugins:add", "Load a further module as a plug-in."),
    "spec.list": (
        "spec:list_specs",
        "List the ready specs, which every command that takes a spec takes by name.",
    ),
    "spec.check": ("spec:check", "Check that a spec can be read and that its parts fit together."),
    "summary": ("spec:summary", "Print a model's typed plan, parameters, FLOPs and bytes."),
    "doctor": ("doctor:doctor", "Report what is installed, what works, what is in force."),
}
"""The commands of the core, which no plug-in may replace, since they switch a plug-in off."""
GROUPS = {
    "import": "Make a model of a checkpoint that others published.",
    "plugins": "List, switch, prefer, add and check plug-ins.",
    "spec": "Check specs, list the ready ones, print the JSON Schema.",
}
"""The groups of commands that the core names; an entry point `GROUP.NAME` is the command `peirce GROUP NAME`."""
PUBLISHED = Path(__file__).with_name("distributions.toml")
"""By distribution of Peirce, the commands that it brings; for the message where one of them is not installed."""


@frozen(kw_only=True)
class Command:
    """A command that has not been imported.

    Args:
        name: what the user types; `import.folnet` is the command `folnet` of the group `import`.
        help: one line.
        entries: every distribution's entry point of that name; more than one that is on is an error when it runs.
    """

    name: str
    help: str
    entries: tuple[EntryPoint, ...]

    @property
    def words(self) -> str:
        """The name as it is typed."""
        return self.name.replace(".", " ")

    def enabled(self, file: RegistryFile, installed: Iterable[EntryPoint]) -> tuple[EntryPoint, ...]:
        """The entry points whose plug-ins are not all switched off by the registry file."""
        return tuple(entry for entry in self.entries if not disabled_plugins(entry, file, installed))


def commands() -> tuple[Command, ...]:
    """Every command there is: the core's, then the announced ones by name."""
    claims: dict[str, list[EntryPoint]] = {}
    for entry in sorted(announcements(GROUP), key=lambda entry: (entry.name, str(entry.distribution))):
        claims.setdefault(entry.name, []).append(entry)
    groups = {*GROUPS, *(name.partition(".")[0] for name in claims if "." in name)}
    found = []
    for name, (target, line) in CORE.items():
        entry = EntryPoint(name=name, target=f"peirce.commands.{target}", distribution="peirce-core")
        found.append(Command(name=name, help=line, entries=(entry,)))
    lines = _help_lines()
    for name, entries in claims.items():
        if name in CORE or name in groups:
            what = "which is the core's" if name in CORE else "which is a group of commands"
            owners = " and ".join(str(entry.distribution) for entry in entries)
            _log.warning("%s announces a command %r, %s; it is not used", owners, name, what)
        else:
            found.append(Command(name=name, help=_help(entries, lines), entries=tuple(entries)))
    return tuple(found)


def groups(listed: Iterable[Command]) -> dict[str, str]:
    """The groups of some commands by name, each with its line of help."""
    lines = {name: line for (_, name), line in _help_lines().items()}
    names = dict.fromkeys(command.name.partition(".")[0] for command in listed if "." in command.name)
    return {name: GROUPS.get(name) or lines.get(name, f"Commands of {name}.") for name in (*GROUPS, *names)}


def distribution_of(words: str) -> str | None:
    """The distribution of Peirce that brings a command, such as `kg answer` or `kg`; None where none does."""
    for distribution, names in published().items():
        if any(f"{name} ".replace(".", " ").startswith(f"{words} ") for name in names):
            return distribution
    return None


@cache
def published() -> Mapping[str, list[str]]:
    """The distributions of Peirce, each with the names of the commands that it brings."""
    return parse_toml(read_text(PUBLISHED))


def _help(entries: list[EntryPoint], lines: dict[tuple[str | None, str], str]) -> str:
    first = entries[0]
    if len(entries) > 1:
        return f"(announced by {' and '.join(str(entry.distribution) for entry in entries)})"
    return lines.get((first.distribution, first.name)) or first.summary


def _help_lines() -> dict[tuple[str | None, str], str]:
    """By distribution and command, what `register_commands` of plug-ins returns, read from the source and not run."""
    found: dict[tuple[str | None, str], str] = {}
    for plugin in installed_plugins():
        with suppress(Exception):  # a plug-in that cannot be read here is reported when it is loaded
            for statement in ast.parse(_source(plugin.target.partition(":")[0]).read_bytes()).body:
                if isinstance(statement, ast.FunctionDef) and statement.name == "register_commands":
                    (returned,) = (node for node in ast.walk(statement) if isinstance(node, ast.Return))
                    table = ast.literal_eval(returned.value or ast.Constant(None))
                    found |= {(plugin.distribution, name): line for name, line in table.items()}
    return found


def _source(module: str) -> Path:
    """The file of a module. Only its top package is looked for, because looking inside it would import it."""
    top, *below = module.split(".")
    spec = find_spec(top)
    assert spec is not None, f"there is no module {top}"
    assert spec.origin is not None, f"{top} has no file"
    if not below:
        return Path(spec.origin)
    path = Path(spec.origin).parent.joinpath(*below)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

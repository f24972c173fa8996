"""registry.toml: which plug-ins are on, which further modules are loaded, which owner of a name is preferred, aliases.

It is found by `--registry`, else by `PEIRCE_REGISTRY`, else as the nearest `registry.toml` with a `format`
from the working directory upwards, else it is the packaged one. Files are never merged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, evolve, field, frozen

from peirce.errors import RegistryError, SpecError, one_line, unknown
from peirce.files import read_text, write_whole
from peirce.registry.entry_points import canonical
from peirce.registry.kinds import KINDS, preferable_kinds
from peirce.resources import packaged_registry
from peirce.spec import HIDDEN, Document, parse_document, read_document, structure

FORMAT = 1
VARIABLE = "PEIRCE_REGISTRY"
_FORMAT_LINE = re.compile(r"""^\s*(["']?)format\1\s*=\s*["']?\d""", re.MULTILINE)
_TABLE_LINE = re.compile(r"^\s*\[", re.MULTILINE)
Origin = Literal["given", "environment", "found", "packaged"]
Switch = Literal["on", "off"]


def _switches(table: Mapping[str, Switch]) -> Mapping[str, Switch]:
    return {canonical(plugin): state for plugin, state in table.items()}


def _owners(table: Mapping[str, str]) -> Mapping[str, str]:
    return {name: canonical(plugin) for name, plugin in table.items()}


def _check_keys(instance: Any, attribute: Attribute[Any], table: Mapping[str, str]) -> None:
    """Refuse keys that are not `KIND.NAME`."""
    for key in table:
        kinds = KINDS if attribute.name == "aliases" else preferable_kinds()
        kind, dot, _ = key.partition(".")
        if not dot or kind not in kinds:
            raise ValueError(
                f"'{attribute.name}' must have keys such as \"{kinds[0]}.NAME\", not {key!r}: "
                + unknown("kind", kind, kinds)
            )


@frozen(kw_only=True)
class RegistryFile:
    """The content of a registry.toml.

    Args:
        path: the file; None for a value that was made in a program.
        origin: how it was found: `given` by --registry or by a caller, `environment`, `found` by the upward
            search, or `packaged`.
        format: the version of the file's format.
        default: whether plug-ins that it does not name are on.
        modules: further plug-in modules.
        plugins: `on` or `off` by `distribution:entry-point`.
        prefer: the owner by `KIND.NAME`, or by `letters.LETTER`.
        aliases: the name of a part by `KIND.ALIAS`.
        commands: a table that version 0.1.0 wrote; ignored.
    """

    path: Path | None = field(default=None, metadata={HIDDEN: True})
    origin: Origin = field(default="given", metadata={HIDDEN: True})
    format: int = FORMAT
    default: Switch = "on"
    modules: tuple[str, ...] = field(default=(), converter=tuple)
    plugins: Mapping[str, Switch] = field(factory=dict, converter=_switches)
    prefer: Mapping[str, str] = field(factory=dict, converter=_owners, validator=_check_keys)
    aliases: Mapping[str, str] = field(factory=dict, validator=_check_keys)
    commands: Mapping[str, Any] = field(factory=dict, eq=False, repr=False)

    @property
    def where(self) -> str:
        """The file's name for messages."""
        return "registry.toml" if self.path is None else str(self.path)

    @property
    def imports_modules(self) -> bool:
        """Whether `modules` are imported: not from a file that the search found, which may be somebody else's."""
        return self.origin != "found"

    def why_off(self, plugin: str) -> str:
        """Why a plug-in is not active, and what makes it so, as the end of a sentence."""
        if plugin.startswith("module:") and not self.imports_modules:
            return (
                f"is not imported, since the search found {self.where}: run `peirce --registry {self.where} ...`, "
                f"or `export {VARIABLE}={self.where}`"
            )
        return f"is switched off; `peirce plugins enable {plugin}` switches it on"

    def is_on(self, plugin: str) -> bool:
        """Whether a plug-in is active; a module that the file names is, unless the file switches it off."""
        named = plugin.removeprefix("module:") in self.modules
        on = self.plugins.get(plugin, "on" if named else self.default) == "on"
        return on and (self.imports_modules or not plugin.startswith("module:"))

    @classmethod
    def read(cls, path: Path, origin: Origin = "given") -> RegistryFile:
        """Read one file.

        Raises:
            RegistryError: it is missing, is not TOML, has another format, or has an unknown key or a wrong value.
        """
        try:
            return evolve(_read_registry(read_document(path, "registry")), path=path, origin=origin)
        except SpecError as error:
            raise RegistryError(str(error)) from error


def _read_registry(document: Document) -> RegistryFile:
    if not document.data:
        raise SpecError(f"{document.at(())}: the file is empty; begin it with format = {FORMAT}")
    if (found := document.data.get("format")) != FORMAT:
        raise SpecError(
            f"{document.at('format')}: format is {found!r}, and this version of Peirce reads {FORMAT}; upgrade "
            "peirce if the file is newer"
        )
    label = "key of a registry file"
    return structure(RegistryFile, document.data, where=document.at, label=label)


def find_registry_file(path: str | Path | None = None) -> RegistryFile:
    """Read the registry.toml in force: the one that the user names, or the first that the search finds."""
    if path is not None:
        return RegistryFile.read(Path(path), "given")
    if os.environ.get(VARIABLE):
        return RegistryFile.read(Path(os.environ[VARIABLE]), "environment")
    here, packaged = Path.cwd().resolve(), packaged_registry()
    for folder in (here, *here.parents):
        candidate = folder / "registry.toml"
        if _is_registry_file(candidate):
            return RegistryFile.read(candidate, "packaged" if candidate.resolve() == packaged else "found")
    return RegistryFile.read(packaged, "packaged")


def edit_registry_file(current: RegistryFile, change: Callable[[Any], None]) -> Path:
    """Edit the file in force, or a copy of the packaged one as ./registry.toml, which is in force from then on.

    Comments are kept, and the result is checked before it replaces the file.

    Args:
        current: the file in force.
        change: changes the tomlkit document.

    Returns:
        The file that was written.

    Raises:
        RegistryError: the edited file would not be valid, or cannot be written.
    """
    import tomlkit

    source = target = current.path or packaged_registry()
    if current.path is None or current.origin == "packaged":
        target = Path.cwd() / "registry.toml"
        if target.exists() and target != source:
            raise RegistryError(
                f"{target} exists and is not a registry file of Peirce (it lacks `format = {FORMAT}`); go to "
                f"another folder, or name a file with --registry"
            )
    document = tomlkit.parse(read_text(source))
    change(document)
    text = tomlkit.dumps(document)
    try:
        _read_registry(parse_document(text, str(target)))
        write_whole(target, text)
    except SpecError as error:
        raise RegistryError(str(error)) from error
    except OSError as error:
        raise RegistryError(f"cannot write {target}: {error}; name another file with --registry") from error
    return target


def singular(kind: str) -> str:
    """The singular of a kind, for messages."""
    return "ready spec" if kind == "specs" else re.sub(r"(?<=x)es$|s$", "", kind)


def _is_registry_file(path: Path) -> bool:
    """Whether a registry.toml is one of Peirce, of any format; other programs may use that name too.

    Raises:
        RegistryError: it is there and cannot be read, so that nobody knows what it switches off.
    """
    try:
        path.lstat()
    except OSError:
        return False
    try:
        head, *_ = _TABLE_LINE.split(read_text(path), 1)
    except IsADirectoryError:
        return False
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryError(
            f"{path} cannot be read ({one_line(error)}), and may switch plug-ins off, so none is loaded: mend or move "
            f"it, or name another file with --registry or {VARIABLE}"
        ) from error
    return bool(_FORMAT_LINE.search(head))

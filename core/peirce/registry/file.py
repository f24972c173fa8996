"""registry.toml: which plug-ins are on, which further modules are loaded, who wins a name, and aliases.

It is found by `--registry`, else by `PEIRCE_REGISTRY`, else as the nearest `registry.toml` with `format = 1`
from the working directory upwards, else it is the packaged one. Files are never merged.
"""

from __future__ import annotations

import os
import re
import site
import sysconfig
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from attrs import field, frozen

from peirce.errors import RegistryError, unknown
from peirce.files import read_text, read_toml, write_whole
from peirce.resources import packaged_registry

FORMAT = 1
VARIABLE = "PEIRCE_REGISTRY"
KINDS = ("operators", "positions", "augmenters", "heads", "architectures", "tasks", "exporters")
"""The kinds of parts; the hook of each is `register_KIND`."""
ANNOUNCED = ("specs", "runtimes", "pipelines", "commands", "parsers")
"""What plug-ins announce beside parts, with hooks of such names; all of it can be read without torch."""
EXPERIMENTS = "experiments"
"""What is neither a part nor read by other commands than those of experiments."""
PREFERABLE = (*KINDS, *ANNOUNCED, EXPERIMENTS, "letters")
"""The kinds of names that may have several owners, of which registry.toml prefers one."""

Origin = Literal["given", "environment", "found", "packaged"]
_KEYS = ("format", "default", "modules", "plugins", "prefer", "aliases")
_OURS = re.compile(rf"^\s*format\s*=\s*{FORMAT}\s*(#.*)?$", re.MULTILINE)


def _frozen_mapping(mapping: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(mapping))


@frozen(kw_only=True)
class RegistryFile:
    """What one registry.toml says.

    Args:
        path: the file; None for a value that was made in a program.
        origin: how it was found: `given` by --registry or by a caller, `environment`, `found` by the upward
            search, or `packaged`.
        default: whether plug-ins that it does not name are on.
        modules: further plug-in modules.
        plugins: `on` or `off` by `distribution:entry-point`.
        prefer: the owner by `KIND.NAME`, or by `letters.LETTER`.
        aliases: the name of a part by `KIND.ALIAS`.
    """

    path: Path | None = None
    origin: Origin = "given"
    default: Literal["on", "off"] = "on"
    modules: tuple[str, ...] = field(default=(), converter=tuple)
    plugins: Mapping[str, str] = field(factory=dict, converter=_frozen_mapping)
    prefer: Mapping[str, str] = field(factory=dict, converter=_frozen_mapping)
    aliases: Mapping[str, str] = field(factory=dict, converter=_frozen_mapping)

    @property
    def where(self) -> str:
        """The file's name for messages."""
        return "registry.toml" if self.path is None else str(self.path)

    @property
    def imports_modules(self) -> bool:
        """Whether `modules` are imported: not from a file that merely lies above the working directory."""
        return self.origin != "found"

    def is_on(self, plugin: str) -> bool:
        """Whether a plug-in is active; a module that the file names is, unless the file switches it off."""
        named = plugin.removeprefix("module:") in self.modules
        return self.plugins.get(plugin, "on" if named else self.default) == "on"

    @classmethod
    def read(cls, path: Path, origin: Origin = "given") -> RegistryFile:
        """Read one file.

        Raises:
            RegistryError: it is absent, is no TOML, has another format, or has an unknown key or wrong value.
        """
        try:
            data = read_toml(path)
        except (OSError, UnicodeDecodeError) as error:
            raise RegistryError(f"cannot read the registry file {path}: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise RegistryError(f"{path} is not valid TOML: {error}") from error
        except ValueError as error:
            # Lists nested beyond all use, an integer of thousands of digits.
            raise RegistryError(f"{path} cannot be read: {error}") from None
        return cls(path=path, origin=origin, **_checked(data, path))


def find_registry_file(path: str | Path | None = None, start: Path | None = None) -> RegistryFile:
    """The registry.toml in force.

    Args:
        path: the file that the user names; None to search.
        start: where the upward search starts; the working directory when it is absent.
    """
    if path is not None:
        return RegistryFile.read(Path(path), "given")
    if os.environ.get(VARIABLE):
        return RegistryFile.read(Path(os.environ[VARIABLE]), "environment")
    here = (start or Path.cwd()).resolve()
    packaged = packaged_registry()
    for folder in (here, *here.parents):
        candidate = folder / "registry.toml"
        if _is_ours(candidate):
            return RegistryFile.read(candidate, "packaged" if candidate == packaged else "found")
    return RegistryFile.read(packaged, "packaged")


def edit_registry_file(current: RegistryFile, change: Callable[[Any], None]) -> Path:
    """Edit the file in force, or a new ./registry.toml where that file may not be written.

    The packaged file, and any file inside site-packages, is never written: what it says is copied to
    ./registry.toml, which is in force from then on. Comments are kept, and the result is checked before it
    replaces the file.

    Args:
        current: the file in force.
        change: changes the tomlkit document.

    Returns:
        The file that was written.

    Raises:
        RegistryError: the edited file would not be valid, or cannot be written.
    """
    import tomlkit

    source = current.path or packaged_registry()
    target = source
    if current.origin == "packaged" or current.path is None or _inside_site_packages(source):
        target = Path.cwd() / "registry.toml"
        if _is_ours(target):
            source = target
        elif target.exists():
            raise RegistryError(
                f"{target} exists and is not a registry file of Peirce (it lacks `format = {FORMAT}`); go to "
                f"another folder, or name a file with --registry"
            )
    document = tomlkit.parse(read_text(source))
    change(document)
    text = tomlkit.dumps(document)
    _checked(tomllib.loads(text), target)
    try:
        write_whole(target, text)
    except OSError as error:
        raise RegistryError(f"cannot write {target}: {error}; name another file with --registry") from error
    return target


def singular(kind: str) -> str:
    """What one of a kind is called in a message."""
    return "ready spec" if kind == "specs" else kind.removesuffix("s")


def canonical(plugin: str) -> str:
    """`distribution:entry-point` with the distribution's name as package indexes spell it."""
    distribution, separator, entry = plugin.partition(":")
    if distribution == "module":
        return plugin
    return re.sub(r"[-_.]+", "-", distribution).lower() + separator + entry


def _is_ours(path: Path) -> bool:
    """Whether a registry.toml is a file of Peirce; others may use that name too."""
    try:
        return bool(_OURS.search(read_text(path)))
    except (OSError, UnicodeDecodeError):
        return False


def _inside_site_packages(path: Path) -> bool:
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    folders.add(site.getusersitepackages())
    resolved = path.resolve()
    return any(resolved.is_relative_to(Path(folder).resolve()) for folder in folders if folder)


def _checked(data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    if data.get("format") != FORMAT:
        found = f"format = {data['format']!r}" if "format" in data else "no format"
        raise RegistryError(
            f"{path} has {found}; this version of Peirce reads format = {FORMAT}; a newer one needs a newer "
            f"Peirce"
        )
    for key in data:
        if key not in (*_KEYS, "commands"):  # copies of the file of version 0.1.0 may have that table
            raise RegistryError(f"{path}: {unknown('key', key, _KEYS)}")
    default = data.get("default", "on")
    if default not in ("on", "off"):
        raise RegistryError(f'{path}: default must be "on" or "off", not {default!r}')
    modules = data.get("modules", [])
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        raise RegistryError(f'{path}: modules must be a list of module names such as ["my_lab.ops"]')
    tables = {key: _table(data, key, path) for key in ("plugins", "prefer", "aliases")}
    for name, state in tables["plugins"].items():
        if state not in ("on", "off"):
            raise RegistryError(f'{path}: plugins."{name}" must be "on" or "off", not {state!r}')
    for table, kinds in (("prefer", PREFERABLE), ("aliases", KINDS)):
        for name in tables[table]:
            kind = name.partition(".")[0]
            if kind not in kinds or "." not in name:
                raise RegistryError(
                    f'{path}: {table}."{name}" must be "KIND.NAME"; {unknown("kind", kind, kinds)}'
                )
    tables["plugins"] = {canonical(name): state for name, state in tables["plugins"].items()}
    tables["prefer"] = {name: canonical(owner) for name, owner in tables["prefer"].items()}
    return {"default": default, "modules": tuple(modules), **tables}


def _table(data: Mapping[str, Any], key: str, path: Path) -> dict[str, str]:
    table = data.get(key, {})
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise RegistryError(
            f"{path}: [{key}] must hold strings by name; a name with a dot or a colon is quoted, "
            f'such as "operators.prod" or "peirce:folnet"'
        )
    return table

"""Pages that are made when the documentation is built: parts, checks and specs from the registry, and the public API.

A hook of mkdocs. The pages are plain functions of what is registered, so that tests can hold them too.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from peirce.registry import Registered, Registry

WHAT = {
    "operators": "Layers are made of operators. A letter stands for one in a layer's shorthand, such as `jmc.atp`.",
    "positions": "Positions tell a model where tokens stand, each at the places that it names.",
    "augmenters": "Augmenters enrich the embeddings of tokens.",
    "heads": "Heads turn atoms into predictions.",
    "architectures": "Architectures are the networks between token ids and atoms.",
    "tasks": "Tasks bring the data, the loss and the metric of one job.",
    "exporters": "Exporters write a model in another format; `--to` takes their names.",
}
GROUPS = {
    "Composing and running": (
        "Spec", "load_spec", "build", "load", "Model", "Signature", "TensorSpec", "export", "verify", "Session",
        "attention_of",
    ),
    "Training": ("train", "TrainingOptions"),
    "Registries": ("hookimpl", "Registry", "Registered", "default_registry"),
    "Errors": (
        "PeirceError", "SpecError", "PlanError", "RegistryError", "ModelFileError", "InputError", "ExportError",
        "TaskError",
    ),
}  # fmt: skip
"""The names of `peirce`, by what a reader wants to do; a test holds them equal to `peirce.__all__`."""
FACES = {
    "peirce.parts": "What authors of parts import. `Task` and `Exporter` are in [peirce.model](api-model.md).",
    "peirce.networks": "What architectures are made of.",
    "peirce.model": "What authors of tasks and exporters import, and what a model is made of.",
}
"""The rooms that authors import from; the stub of each is the one list of its names."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    from mkdocs.structure.files import File
    from peirce.registry import default_registry

    registry = default_registry()
    pages = {
        "reference/parts.md": parts_page(registry),
        "reference/specs.md": specs_page(),
        "reference/commands.md": commands_page(),
        "reference/training.md": training_page(),
        "reference/api.md": api_page(),
        **{f"reference/api-{face.rpartition('.')[2]}.md": face_page(face) for face in FACES},
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def parts_page(registry: Registry) -> str:
    """Every registered part: what it computes, typing or places, options, shapes, source."""
    from peirce.registry import KINDS

    lines = [
        "# Parts",
        "",
        "What is registered where this page was built. `peirce list` and `peirce describe NAME`",
    ]
    lines += ["show the same for your installation, your own plug-ins included.", ""]
    for kind in KINDS:
        entries = registry.entries(kind)
        if entries:
            lines += [f"## {kind.capitalize()}", "", WHAT[kind], ""]
            lines += _overview(kind, entries)
            for entry in entries:
                lines += _part(entry, registry)
    return "\n".join(lines)


def specs_page() -> str:
    """The ready specs, with the comment that each begins with."""
    from peirce.registry import ready_specs
    from peirce.spec import summary_of

    rows = [(f"`{name}`", _escaped(summary_of(path))) for name, path in ready_specs().items()]
    lines = [
        "# Ready specs",
        "",
        "Every command and function that takes a spec takes one of these names.",
        "",
    ]
    return "\n".join([*lines, *_table(("name", "what it is"), rows)])


def commands_page() -> str:
    """The commands that Peirce ships, with what each of them prints as its help."""
    import typer
    from peirce.commands.main import commands, loaded_command
    from peirce.commands.show import METAVARS

    codes = "Exit codes: 0 for success, 1 for a check that failed or what the machine lacks, 2 for bad input."
    lines = ["# Commands", "", codes, ""]
    lines += _table(("in usage", "stands for"), [(f"`{name}`", said) for name, said in METAVARS.items()])
    for command in commands():
        if all(entry.distribution != "peirce" for entry in command.entries):
            continue
        loaded = loaded_command(command)
        lines += [f"## peirce {command.words}", "", command.help, ""]
        for full, one in _commands_within(loaded, f"peirce {command.words}"):
            context = typer.Context(one, info_name=full)
            usage = one.get_usage(context).removeprefix("Usage: ").strip()
            lines += ["```", re.sub(r"\s+", " ", usage), "```", ""]
            lines += [(one.help or "").partition("\n\n")[0].strip(), ""]
            rows = []
            for parameter in one.params:
                names = "`, `".join([*parameter.opts, *parameter.secondary_opts])
                if getattr(parameter, "metavar", None) and parameter.param_type_name == "argument":
                    names = str(parameter.metavar)
                rows.append((f"`{names}`", _escaped(getattr(parameter, "help", None) or "")))
            lines += _table(("argument or option", "meaning"), rows)
    return "\n".join(lines)


def _commands_within(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """The commands that are no groups, each with what a user types."""
    nested = getattr(command, "commands", None)
    if nested is None:
        yield words, command
    for name, one in (nested or {}).items():
        yield from _commands_within(one, f"{words} {name}")


def training_page() -> str:
    """The settings of a training, with their defaults."""
    from peirce.training import setting_rows

    lines = [
        "# Settings of training",
        "",
        "What `--set` takes in each command that trains, whatever the task. `peirce train --settings --task NAME`",
        "lists those of a task as well, and [Parts](parts.md#tasks) has them all.",
        "",
    ]
    shown = [
        (f"`{name}`", f"`{default}`" if default else "", _escaped(said))
        for name, default, said in setting_rows()
    ]
    return "\n".join([*lines, *_table(("setting", "default", "meaning"), shown)])


def api_page() -> str:
    """The names of `peirce`, for mkdocstrings to fill in."""
    import peirce

    lines = [
        "# peirce",
        "",
        "What users import from `peirce`; the page shows where each name lives. Authors of parts import from",
        "[peirce.parts](api-parts.md) and [peirce.model](api-model.md).",
        "",
    ]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += [f"::: {_home(getattr(peirce, name), 'peirce.registry.hookspecs', name)}", ""]
    return "\n".join(lines)


def face_page(face: str) -> str:
    """Every name that a room hands out, under the file that it comes from; names of `peirce` are linked."""
    import peirce

    room = import_module(face)
    lines = [f"# {face}", "", FACES[face], ""]
    for file, names in stub_names(room).items():
        module = import_module(f"{face}.{file}")
        lines += [f"## {file}", "", _escaped(inspect.getdoc(module) or "").partition("\n\n")[0], ""]
        for name in names:
            value = getattr(room, name)
            if name in peirce.__all__:
                lines += [f"`{name}` is also a name of [peirce](api.md), and is described there.", ""]
            elif isinstance(value, str):
                lines += [f"`{name}` is `{value!r}`.", ""]
            else:
                lines += [f"::: {_home(value, module.__name__, name)}", ""]
    return "\n".join(lines)


def stub_names(room: ModuleType) -> dict[str, list[str]]:
    """The names of a room's stub, by the file that each comes from."""
    assert room.__file__ is not None
    stub = ast.parse(Path(room.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found.setdefault(node.module, []).extend(alias.asname or alias.name for alias in node.names)
    return found


def _home(value: Any, module: str, name: str) -> str:
    """Where a name is defined: what it says of itself, or the module that it was found in."""
    own = getattr(value, "__module__", "")
    named = isinstance(value, type) or inspect.isroutine(value)
    return f"{own}.{value.__qualname__}" if named and own.startswith("peirce") else f"{module}.{name}"


def _overview(kind: str, entries: Sequence[Registered]) -> list[str]:
    what = "what it is"
    more: dict[str, list[str]] = {}
    if kind == "operators":
        what = "what it computes"
        more["letter"] = [f"`{e.part.letter}`" if e.part.letter else "" for e in entries]
        more["typing"] = [f"`{e.part.typing}`" for e in entries]
    if kind == "positions":
        what = "what it computes"
        more["places"] = [", ".join(e.part.places()) for e in entries]
    columns = [[_link(e) for e in entries], *more.values(), [_summary(e) for e in entries]]
    return _table((kind.removesuffix("s"), *more, what), zip(*columns, strict=True))


def _part(entry: Registered, registry: Registry) -> list[str]:
    from peirce.commands.description import Fact, description, facts, tables

    described = description(entry, registry)
    plugin = Fact("plug-in", f"{entry.plugin} {entry.version or ''}".strip(), code=True)
    lines = [
        f"### {entry.name} {{ #{entry.kind}-{entry.name} }}",
        "",
        _escaped(described["documentation"]),
        "",
        *(f"- {fact.label}: {_shown(fact.value, fact.code)}" for fact in (*facts(described), plugin)),
        "",
    ]
    for table in tables(described):
        rows = [
            [_shown(cell, code) for cell, code in zip(row, table.code, strict=True)] for row in table.rows
        ]
        lines += _table(table.headings, rows)
    return lines


def _shown(text: str, code: bool) -> str:
    return f"`{text}`" if code and text else _escaped(text)


def _link(entry: Registered) -> str:
    return f"[`{entry.name}`](#{entry.kind}-{entry.name})"


def _summary(entry: Registered) -> str:
    from peirce.registry import first_line

    return _escaped(first_line(entry.part))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    if not body:
        return []
    return [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}", *body, ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text whose brackets, stars and underscores outside of code stand for themselves."""
    pieces = text.split("`")
    outside = [
        re.sub(r"([*_\[\]<])", r"\\\1", piece) if i % 2 == 0 else piece for i, piece in enumerate(pieces)
    ]
    return "`".join(outside)


__all__ = [
    "FACES",
    "GROUPS",
    "api_page",
    "commands_page",
    "face_page",
    "on_files",
    "parts_page",
    "specs_page",
    "stub_names",
]

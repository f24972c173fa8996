"""Pages of the public API: the names of `peirce` and of the rooms that authors import from, with their docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

from markdown_text import escaped, table

GROUPS = {
    "Composing and running": (
        "Spec", "load_spec", "build", "load", "Model", "Signature", "TensorSpec", "export", "verify", "Session",
        "attention_of", "upgraded",
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
    "peirce_export": "What authors of runtimes and pipelines import.",
    "peirce_show": "What authors of views import, and what draws.",
}
"""The rooms and distributions that authors import from; the stub of each is the one list of its names."""
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields):\n((?: {4}.*\n?|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^([\w*][^:\n]*): (.*(?:\n +.*)*)", re.MULTILINE)
_WIDE = 84


def pages() -> dict[str, str]:
    """Every page of the API, by its path."""
    found = {"reference/api.md": api_page()}
    for title, names in GROUPS.items():
        found[f"reference/{_file(title)}"] = members_page(title, names, "peirce")
    for face in FACES:
        found |= face_pages(face)
    return found


def api_page() -> str:
    """The names of `peirce`, each with its first line."""
    import peirce

    lines = [
        "# peirce",
        "",
        "What users import from `peirce`. Authors of parts import from [peirce.parts](api-parts.md) and",
    ]
    lines += ["[peirce.model](api-model.md).", ""]
    for title, names in GROUPS.items():
        rows = [_row(name, getattr(peirce, name), _file(title)) for name in names]
        lines += [f"## {title}", "", *table(("name", "what it is"), rows)]
    return "\n".join(lines)


def face_pages(face: str) -> dict[str, str]:
    """The page of a room, which lists its names, and one for each file that they come from."""
    import peirce

    room, base = import_module(face), f"api-{face.rpartition('.')[2]}"
    lines, found = [f"# {face}", "", FACES[face], ""], {}
    for file, names in stub_names(room).items():
        module = import_module(f"{face}.{file}")
        lines += [f"## {file}", "", escaped(inspect.getdoc(module) or "").partition("\n\n")[0], ""]
        rows, listed = [], []
        for name in names:
            value = getattr(room, name)
            if name in peirce.__all__:
                rows.append((f"`{name}`", "is also a name of [peirce](api.md), and is described there."))
            elif isinstance(value, str):
                rows.append((f"`{name}`", f"is `{value!r}`."))
            else:
                listed.append(name)
                rows.append(_row(name, value, f"{base}/{file}.md"))
        lines += table(("name", "what it is"), rows)
        if listed:
            found[f"reference/{base}/{file}.md"] = members_page(f"{face}.{file}", listed, face)
    return {f"reference/{base}.md": "\n".join(lines)} | found


def stub_names(room: ModuleType) -> dict[str, list[str]]:
    """The names of a room's stub, by the file that each comes from."""
    assert room.__file__ is not None
    stub = ast.parse(Path(room.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found.setdefault(node.module, []).extend(alias.asname or alias.name for alias in node.names)
    return found


def members_page(title: str, names: Sequence[str], face: str) -> str:
    """What some names of a face are: signatures, and what their docstrings say; of classes their own members too."""
    lines = ["---", "search:", "  boost: 0.5", "---", f"# {title}", ""]
    for name in names:
        value = getattr(import_module(face), name)
        lines += [
            f"## {name}",
            "",
            "```python",
            f"from {face} import {name}",
            "```",
            "",
            *_described(name, value),
        ]
        for member, function, is_value in _members(value):
            lines += [f"### {name}.{member}", "", *_described(member, function, signed=not is_value)]
    return "\n".join(lines)


def _members(cls: Any) -> Iterator[tuple[str, Any, bool]]:
    """The documented members of a class itself, with what they do, and whether they are read as values."""
    for name, raw in vars(cls).items() if isinstance(cls, type) else ():
        function = (
            getattr(raw, "__func__", None) or getattr(raw, "fget", None) or getattr(raw, "func", None) or raw
        )
        if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
            yield name, function, isinstance(raw, property) or hasattr(raw, "func")


def _described(name: str, value: Any, *, signed: bool = True) -> list[str]:
    if not (isinstance(value, type) or inspect.isroutine(value)):
        shown = re.sub(r" at 0x[0-9a-f]+", "", repr(value)).replace("typing.", "")
        return ["```python", f"{name} = {shown}", "```", ""] if len(shown) < _WIDE else []
    lines = ["```python", _signature(name, value), "```", ""] if signed else []
    return [*lines, *_sections(inspect.getdoc(value) or ""), ""]


class _Written(str):
    """An annotation as its author wrote it, without quotes."""

    __repr__ = str.__str__


def _signature(name: str, value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parameters = [
        p.replace(annotation=_plain(p.annotation))
        for p in found.parameters.values()
        if p.name not in ("self", "cls")
    ]
    found = found.replace(parameters=parameters, return_annotation=_plain(found.return_annotation))
    text = re.sub(r" at 0x[0-9a-f]+", "", f"{name}{found}")
    if len(text) <= _WIDE:
        return text
    lines, starred = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            lines.append("    *,")
        starred |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        lines.append(f"    {parameter},")
    back = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"
    return re.sub(r" at 0x[0-9a-f]+", "", "\n".join([f"{name}(", *lines, f"){back}"]))


def _plain(annotation: Any) -> Any:
    return _Written(annotation) if isinstance(annotation, str) else annotation


def _sections(documentation: str) -> list[str]:
    """A docstring as Markdown: its text as it is, and arguments, results and errors as lists."""
    lines, at = [], 0
    for section in _SECTION.finditer(documentation):
        title, body = section[1], dedent(section[2]).strip()
        lines += [escaped(documentation[at : section.start()]).strip(), "", f"**{title}**", ""]
        entries = _ENTRY.findall(body) if title in ("Args", "Raises") else []
        lines += [f"- `{name}`: {escaped(' '.join(text.split()))}" for name, text in entries] or [
            escaped(body)
        ]
        lines.append("")
        at = section.end()
    return [*lines, escaped(documentation[at:]).strip()]


def _row(name: str, value: Any, file: str) -> tuple[str, str]:
    text = inspect.getdoc(value) if isinstance(value, type) or inspect.isroutine(value) else ""
    return f"[`{name}`]({file}#{name.lower()})", escaped((text or "").partition("\n\n")[0])


def _file(title: str) -> str:
    return f"api/{title.lower().replace(' ', '-')}.md"


__all__ = ["FACES", "GROUPS", "api_page", "face_pages", "members_page", "pages", "stub_names"]

"""What the hooks beside those of parts return, by name: specs, runtimes, pipelines, commands, parsers, experiments.

Each reader gives names and values, or the sentences that a plug-in's author reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from peirce.registry.file import EXPERIMENTS

Read = tuple[list[tuple[str, Any]], list[str]]
"""What can be registered, by name, and why the rest cannot."""

_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SUFFIX = re.compile(r"\.[a-z0-9]+")
_EXPERIMENT = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+)*")
_COMMAND = re.compile(r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)?")


def _specs(result: object) -> Read:
    if isinstance(result, str | Path) or not isinstance(result, Iterable):
        return [], [f"register_specs must return a list of paths, not {result!r}"]
    found: list[tuple[str, Any]] = []
    broken = []
    for path in result:
        files = sorted(path.glob("*.toml")) if isinstance(path, Path) and path.is_dir() else [path]
        if not files or not all(
            isinstance(file, Path) and file.suffix == ".toml" and file.is_file() for file in files
        ):
            broken.append(
                f"register_specs returns {path!r}, which is neither a .toml file nor a folder of such"
            )
        else:
            found += [(file.stem, file) for file in files]
    return found, broken


def _runtimes(result: object) -> Read:
    pairs, broken = _strings(
        "register_runtimes", "a file's suffix to the `module:attribute` of a class", result
    )
    for suffix, target in pairs:
        if not _SUFFIX.fullmatch(suffix) or not _TARGET.fullmatch(target):
            broken.append(
                f"register_runtimes returns {suffix!r}: {target!r}; one looks like '.onnx': 'my_lab.session:Session'"
            )
    return [(suffix.removeprefix("."), target) for suffix, target in pairs], broken


def _classes(hook: str, example: str, result: object) -> Read:
    pairs, broken = _strings(hook, "a name to the `module:attribute` of a class", result)
    for name, target in pairs:
        if not _COMMAND.fullmatch(name) or not _TARGET.fullmatch(target):
            broken.append(f"{hook} returns {name!r}: {target!r}; one looks like {example}")
    return pairs, broken


def _commands(result: object) -> Read:
    pairs, broken = _strings("register_commands", "a command to its line of help", result)
    for name, line in pairs:
        if not _COMMAND.fullmatch(name) or not line.strip() or "\n" in line:
            broken.append(
                f"register_commands returns {name!r}: {line!r}; one looks like 'greet': 'Greet somebody.'"
            )
    return pairs, broken


def _strings(hook: str, what: str, result: object) -> tuple[list[tuple[str, str]], list[str]]:
    pairs = list(result.items()) if isinstance(result, Mapping) else None
    if pairs is None or not all(isinstance(text, str) for pair in pairs for text in pair):
        return [], [f"{hook} must return a mapping from {what}, not {result!r}"]
    return pairs, []


def _experiments(result: object) -> Read:
    from peirce.model import Experiment

    if isinstance(result, str | type) or not isinstance(result, Iterable):
        return [], [f"register_experiments must return a list of experiments, not {result!r}"]
    found: list[tuple[str, Any]] = []
    broken = []
    for one in result:
        if not isinstance(one, Experiment):
            broken.append(
                f"register_experiments returns {one!r}, which is no Experiment; it returns instances, not classes"
            )
        elif not _EXPERIMENT.fullmatch(one.name):
            broken.append(f"an experiment has the name {one.name!r}; names match {_EXPERIMENT.pattern}")
        else:
            found.append((one.name, one))
    return found, broken


READERS: Mapping[str, Callable[[object], Read]] = {
    "specs": _specs,
    "runtimes": _runtimes,
    "pipelines": partial(_classes, "register_pipelines", "'ask': 'my_lab.serving:Asks'"),
    "commands": _commands,
    "parsers": partial(_classes, "register_parsers", "'spacy': 'my_lab.parsers:Spacy'"),
    EXPERIMENTS: _experiments,
}

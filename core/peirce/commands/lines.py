"""The lines of help of the commands that ship with Peirce: what plug-ins say, in a file that `peirce --help` reads.

`python -m peirce.commands.lines` writes that file anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from peirce.files import write_whole

CORE = {
    "list": "peirce.commands.parts:list_parts",
    "describe": "peirce.commands.parts:describe",
    "plugins": "peirce.commands.plugins:app",
    "spec": "peirce.commands.spec:spec",
    "summary": "peirce.commands.spec:summary",
    "doctor": "peirce.commands.doctor:doctor",
}
"""The commands of this room."""
GROUPS = {"import": "Make a model of a checkpoint that others published."}
"""The commands that packages add to: an entry point `import.NAME` is `peirce import NAME`."""
_LINES = {
    "list": "List the registered parts.",
    "describe": "Describe a part: typing, options, shapes, source, plug-in.",
    "plugins": "List, switch, prefer, add and check plug-ins.",
    "spec": "Check specs, list the ready ones, print the JSON Schema.",
    "summary": "Print a model's typed plan, parameters, FLOPs and bytes.",
    "doctor": "Report what is installed, what works, what is in force.",
    "train": "Train a model of a spec on a task.",
    "evaluate": "Evaluate a trained model on a task.",
    "finetune": "Train a saved model on a task, over a grid and several seeds.",
    "experiments": "Do again what the tables of a paper show, at a scale of one's own.",
}
"""The lines of the core's commands, those of the rooms above this one included; the core is no plug-in."""
_FILE = Path(__file__).with_name("lines.json")


def packaged_lines() -> dict[str, str]:
    """The line of each command that ships with Peirce, from the file."""
    return json.loads(_FILE.read_text(encoding="utf-8"))


def announced_lines() -> Mapping[str, str]:
    """The same from the plug-ins themselves, which are imported."""
    from peirce.registry import Catalogue, installed_plugins

    ours = Catalogue.of(*(plugin.name for plugin in installed_plugins() if plugin.distribution == "peirce"))
    return _LINES | {entry.name: entry.part for entry in ours.entries("commands")}


if __name__ == "__main__":
    write_whole(_FILE, json.dumps(announced_lines(), indent=2, ensure_ascii=False) + "\n")

"""Pages of the reference: parts, commands, settings and the public API, as plain functions of what is registered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import api
from formulas import display, inline
from markdown_text import escaped, filtered, table

if TYPE_CHECKING:
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
ALSO = {
    "absolute": "learned positions, sinusoidal positions, position embeddings",
    "alibi": "attention with linear biases, ALiBi",
    "attention": "softmax attention, multi-head attention (MHA), grouped-query (GQA), multi-query (MQA)",
    "bool": "feed-forward network (FFN), MLP",
    "experts": "mixture of experts, MoE",
    "logirpe": "logic-aware relative positions, LogiRPE",
    "none": "no positions, NoPE",
    "rope": "rotary position embedding, RoPE, rotary positions",
    "shaw": "relative positions, RPE",
    "swiglu": "gated linear unit, SwiGLU",
    "t5": "T5's relative position bias",
    "transformer": "BERT, GPT, Llama",
    "kgqa": "complex query answering (CQA), logical queries",
    "mlm": "masked language modelling",
    "causal_lm": "causal language modelling, next-token prediction",
}
"""What else parts are called, so that a search for it finds them."""
FORMULAS = {
    "rope": r"\begin{gathered}q(x)\mapsto R_x\,q(x),\quad k(y)\mapsto R_y\,k(y) \\ "
    r"(R_t\,z)_i=e^{\mathrm{i}\,t\,\theta_i}z_i,\quad\theta_i=\text{base}^{-i/w}\end{gathered}",
    "atoms": r"u(x,y)=\sum_{r\,:\,x\to y}R_r+\sum_{r\,:\,y\to x}C_r",
    "logic_relations": r"u(x,y)=\sum_{r\,:\,x\to y}R_r+\sum_{r\,:\,y\to x}C_r",
    "word_vectors": r"w+v\quad\text{or}\quad w+L\,v",
    "beta": r"\gamma-\sum_i\operatorname{KL}(\text{entity}_i;\,\text{set}_i)",
}
"""Formulas of parts that say in words what they compute."""


def pages(registry: Registry) -> dict[str, str]:
    """Every page and picture of the reference, by its path."""
    from peirce.registry import KINDS

    found = {"reference/parts.md": parts_page(registry)}
    for kind in KINDS:
        for entry in registry.entries(kind):
            found |= part_pages(entry, registry)
    return found | command_pages() | {"reference/training.md": training_page()} | api.pages()


def parts_page(registry: Registry) -> str:
    """Every registered part in a line, by kind."""
    from peirce.registry import KINDS, first_line

    lines = [
        "# Parts",
        "",
        "What is registered where this page was written. `peirce list` and `peirce describe NAME` show the same for",
        "your installation, your own plug-ins included.",
    ]
    for kind in KINDS:
        rows, more = [], {"operators": ("letter", "typing"), "positions": ("places",)}.get(kind, ())
        for entry in registry.entries(kind):
            declared = {
                "letter": lambda part: f"`{part.letter}`" if part.letter else "",
                "typing": lambda part: f"`{part.typing}`",
                "places": lambda part: ", ".join(part.places()),
            }
            link = f"[`{entry.name}`]({kind}/{entry.name}.md){{ #{kind}-{entry.name} }}"
            rows.append((link, *(declared[key](entry.part) for key in more), inline(first_line(entry.part))))
        if rows:
            headings = (kind.removesuffix("s"), *more, "what it is")
            lines += ["", f"## {kind.capitalize()}", "", WHAT[kind], "", *filtered(table(headings, rows))]
    return "\n".join(lines)


def part_pages(entry: Registered, registry: Registry) -> dict[str, str]:
    """The page of a part, and the picture of its typing if it is an operator."""
    from peirce.commands.description import Fact, description, facts, tables

    kind, name = entry.kind, entry.name
    described, found = description(entry, registry), {}
    lead, *rest = re.split(r"\n\nArgs:\n", described["documentation"])[0].split("\n\n")
    formula, words = display(" ".join(lead.split())) if kind not in ("tasks", "exporters") else ("", lead)
    formula = FORMULAS.get(name, formula)
    also = ALSO.get(name, "")
    title = f"{name}: {', '.join(also.split(', ')[:2])}" if also else name
    lines = ["---", "search:", f"  boost: {4 if also else 2}", "---", f"# {title}", ""]
    lines += [f"Also called {also}.", ""] if also.count(",") > 1 else []
    lines += [r"\[" + formula + r"\]", ""] if formula else []
    lines += (
        [inline(words[:1].upper() + words[1:] if formula and words != lead else words), ""] if words else []
    )
    if kind == "operators" and (drawn := _diagram(entry.part)):
        found[f"reference/{kind}/{name}.svg"] = drawn
        cells = f"Which cells of which branch {name} reads and writes: {entry.part.typing}"
        lines += [f"![{cells}]({name}.svg){{ .diagram }}", ""]
    lines += ["\n\n".join(inline(" ".join(each.split())) for each in rest), "", *_use(entry), ""]
    plugin = Fact("plug-in", f"{entry.plugin} {entry.version or ''}".strip(), code=True)
    lines += [f"- {fact.label}: {_shown(fact.value, fact.code)}" for fact in (*facts(described), plugin)]
    for shown in tables(described):
        rows = [
            [_shown(cell, code) for cell, code in zip(row, shown.code, strict=True)] for row in shown.rows
        ]
        title = {"option": "Options", "dim": "Sizes"}.get(shown.headings[0], "Tensors")
        lines += ["", f"## {title}", "", *table(shown.headings, rows)]
    return {f"reference/{kind}/{name}.md": "\n".join(lines)} | found


def _diagram(operator: type) -> str:
    from peirce_show import operator_diagram

    return str(operator_diagram(operator))


def _use(entry: Registered) -> list[str]:
    """How a spec or a command names a part."""
    import tomlkit

    part, kind, name = entry.part, entry.kind, entry.name
    if kind in ("tasks", "exporters"):
        line = (
            f"peirce train SPEC --task {name} -o DIR"
            if kind == "tasks"
            else f"peirce export MODEL --to {name} -o FILE"
        )
        return ["```sh", line, "```"]
    options = {key: value for key, value in part.example.items() if value is not None}
    used: dict[str, object] = {kind: [{"use": name, **options}]}
    if kind == "architectures":
        used = {"architecture": name}
    if kind == "operators":
        place = {"state": [name]} if part.typing in ("U <- U", "UB <- UB") else {"layer": name}
        place = {"layer": "jmc.atp"} if part.letter and part.letter in "jmcatp" else place
        used = {kind: place | ({"options": {name: options}} if options else {})}
    inside = tomlkit.inline_table()
    inside.update(used)
    comment = f"    # {part.letter} is {name}" if "jmc.atp" in str(used) else ""
    return ["```toml", "[model]", inside.as_string()[1:-1].strip() + comment, "```"]


def command_pages() -> dict[str, str]:
    """A page for each command that Peirce ships, and one that lists them."""
    import typer

    from peirce.commands.main import commands, load_command
    from peirce.commands.show import METAVARS

    found, listed = {}, []
    for command in commands():
        if not any(entry.distribution.startswith("peirce-") for entry in command.entries):
            continue
        file = command.words.replace(" ", "-")
        listed.append((f"[`peirce {command.words}`](commands/{file}.md)", escaped(command.help)))
        lines = [f"# peirce {command.words}", "", escaped(command.help), ""]
        for full, one in _commands_within(load_command(command), f"peirce {command.words}"):
            usage = one.get_usage(typer.Context(one, info_name=full)).removeprefix("Usage: ").strip()
            lines += [f"## {full}", ""] if full != f"peirce {command.words}" else []
            lines += ["```", re.sub(r"\s+", " ", usage), "```", ""]
            lines += [escaped((one.help or "").partition("\n\n")[0].strip()), ""]
            rows = []
            for parameter in one.params:
                names = "`, `".join([*parameter.opts, *parameter.secondary_opts])
                if getattr(parameter, "metavar", None) and parameter.param_type_name == "argument":
                    names = str(parameter.metavar)
                rows.append((f"`{names}`", escaped(getattr(parameter, "help", None) or "")))
            lines += table(("argument or option", "meaning"), rows)
        found[f"reference/commands/{file}.md"] = "\n".join(lines)
    codes = "Exit codes: 0 for success, 1 for a check that failed or what the machine lacks, 2 for bad input."
    lines = ["# Commands", "", codes, "", *filtered(table(("command", "what it does"), listed))]
    lines += table(("in usage", "stands for"), [(f"`{name}`", meaning) for name, meaning in METAVARS.items()])
    return {"reference/commands.md": "\n".join(lines)} | found


def _commands_within(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """The commands that are no groups, each with what a user types."""
    nested = getattr(command, "commands", None)
    if nested is None:
        yield words, command
    for name, one in (nested or {}).items():
        yield from _commands_within(one, f"{words} {name}")


def training_page() -> str:
    """The settings of a training, with their defaults."""
    from peirce_training import setting_rows

    lines = [
        "# Settings of training",
        "",
        "What `--set` takes in each command that trains, whatever the task. `peirce train --settings --task NAME`",
        "lists those of a task as well, and [Parts](parts.md#tasks) has them all.",
        "",
    ]
    shown = [
        (f"`{name}`", f"`{default}`" if default else "", escaped(meaning))
        for name, default, meaning in setting_rows()
    ]
    return "\n".join([*lines, *filtered(table(("setting", "default", "meaning"), shown))])


def _shown(text: str, code: bool) -> str:
    return f"`{text}`" if code and text else escaped(text)


__all__ = ["ALSO", "command_pages", "pages", "part_pages", "parts_page", "training_page"]

"""Pages of the gallery: every ready spec with its picture, and every experiment with what came of it."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from charts import chart, table
from markdown_text import escaped, filtered
from places import DOCS, ROOT, places

if TYPE_CHECKING:
    from peirce.registry import Registry
    from peirce.spec import Spec

RESULTS = ROOT / "benchmarks" / "results"
TEGA = "plugins/papers/experiments.md"
TABLES = {
    "tega/table2": (TEGA, "ranking tega-umls.csv experiment=tega/table2", "MRR, %, on UMLS"),
    "tega/table4": (TEGA, "ranking tega-umls.csv experiment=tega/table4", "MRR, %, on UMLS"),
    "tega/table7": (TEGA, "ranking tega-umls.csv experiment=tega/table7", "MRR, %, on UMLS"),
    "tega/table8": (TEGA, "ranking tega-umls.csv experiment=tega/table8", "MRR, %, on UMLS"),
    "tega/table15": (
        "plugins/kg/systems.md",
        "columns tega-table15",
        "Million parameters, here and in the paper",
    ),
    "tega/table17": (TEGA, "ranking tega-umls.csv experiment=tega/table17", "MRR, %, on UMLS"),
    "tega/table3": (TEGA, "columns tega-umls-table3.csv", "MRR, %, on UMLS"),
    **{
        f"tega/table{number}": (
            TEGA,
            f"ranking tega-umls-one.csv experiment=tega/table{number}",
            "MRR, %, on UMLS",
        )
        for number in (5, 6, 16)
    },
    "tega/systems": (TEGA, "systems systems-umls.csv", "MRR, %, on UMLS"),
    "tega/encoders": (TEGA, "ranking tega-umls.csv experiment=tega/encoders", "MRR, %, on UMLS"),
    "clutrr": (
        "plugins/text/reasoning.md",
        "accuracy clutrr-facts.csv",
        "Stories answered right, %, by their number of facts",
    ),
    "relations/clutrr": (
        "plugins/papers/relations.md",
        "accuracy relations-clutrr.csv",
        "Stories answered right, %, by their number of facts",
    ),
    "relations/rcc8": (
        "plugins/papers/relations.md",
        "accuracy relations-rcc8.csv",
        "Problems answered right, %, by the edges of a path",
    ),
    "relations/intervals": (
        "plugins/papers/relations.md",
        "accuracy relations-intervals.csv",
        "Problems answered right, %, by the edges of a path",
    ),
    "relations/random": (
        "plugins/papers/relations.md",
        "accuracy relations-random.csv",
        "Problems answered right, %, by the edges of a path",
    ),
    "relations/offpath": (
        "plugins/papers/relations.md",
        "accuracy relations-offpath.csv",
        "Problems of the third level answered right, %, by the edges of the path",
    ),
    "logic/arguments": (
        "plugins/papers/logic.md",
        "accuracy logic-arguments.csv",
        "Arguments judged right, %, by test",
    ),
    "upgrade/rules": (
        "plugins/papers/upgrade.md",
        "accuracy upgrade-rules.csv",
        "Conclusions judged right, %, by the rules in a row that lead to them",
    ),
    "upgrade/clutrr": (
        "plugins/papers/upgrade.md",
        "accuracy upgrade-clutrr.csv",
        "Stories answered right, %, by the facts from one person to the other",
    ),
    "folio": (
        "plugins/text/reasoning.md",
        "accuracy folio.csv",
        "Problems answered right, %, by their label",
    ),
    "tpru/table1": (
        "plugins/tpru/entailment.md",
        "accuracy tpru-table1.csv",
        "Pairs judged right, %, by test",
    ),
    "tpru/table3": ("plugins/tpru/sentences.md", "transfer tpru-transfer.csv", "SentEval, %"),
    "logical/table2": ("plugins/logic/index.md", "accuracy logical-dream.csv", "Questions answered right, %"),
    "logical/table3": ("plugins/logic/index.md", "columns logical-dialogsum.csv", "Smoke run of one epoch"),
}
"""By experiment the page with its table, by its path on the site, how the table begins, and what its figures are."""
CHARTS = {
    "clutrr": (TABLES["clutrr"], "Kinship from more facts than were trained on"),
    "relations": (TABLES["relations/clutrr"], "Kinship from more facts than were trained on"),
    "relations-undecided": (
        (
            "plugins/papers/relations.md",
            "accuracy relations-clutrr-undecided.csv",
            "Stories answered right, %, by their number of facts",
        ),
        "Kinship, with what nothing decides learnt as unknown",
    ),
    "relations-rcc8": (TABLES["relations/rcc8"], "RCC-8: longer paths than were trained on"),
    "relations-intervals": (
        TABLES["relations/intervals"],
        "Allen's intervals: longer paths than were trained on",
    ),
    "relations-offpath": (TABLES["relations/offpath"], "Off the path: longer paths than were trained on"),
    "relations-random": (TABLES["relations/random"], "A drawn algebra: longer paths than were trained on"),
    "serving": (
        ("export/serving.md", "pivot serving.json 'CPU", "ms of the server's CPU a row, by clients"),
        "CPU of Triton for a row, by clients that ask at once",
    ),
}
"""The charts that stand on written pages: by name their table, as in `TABLES`, and their titles."""
NOT_SHOWN = {
    "tega/table14": (),
    "tpru/table2": ("nli-tpru", "nli-bidaf"),
}
"""Experiments without results of ours, and the models that show what they compare."""
FAMILIES = {
    "peirce_folnet": "FOLNet", "peirce_kg": "Questions to knowledge graphs", "peirce_basics": "Transformers",
    "peirce_tpru": "Pairs of texts and recurrences", "peirce_logic": "Logical relations of texts",
    "peirce_hf": "Models of the hub",
    "peirce_relations": "Relations",
}  # fmt: skip
WORDS = 8000
"""The vocabulary of the pictures of specs that leave theirs to the data."""
TASKS = {
    (
        "beta",
        "box",
        "cone",
        "cqd_beam",
        "cqd_continuous",
        "cosine",
        "entities",
        "fit_graph",
        "point",
        "qto_tree",
    ): "train {name} --task kgqa --set graph=umls -o runs/{name}",
    ("multiple_choice",): "train {name} --task multiple_choice --set folder=dream -o runs/{name}",
    ("matching",): "train {name} --task {pairs} --set folder=data -o runs/{name}",
    ("mlm", "causal_lm"): "export {name} -o {name}.onnx",
}
"""By heads of a spec the command that a reader would try."""


def pages(registry: Registry) -> dict[str, str | bytes]:
    """Every page and picture of the gallery, by its path."""
    from peirce.registry import load_spec, ready_specs

    found: dict[str, str | bytes] = {}
    cards: dict[str, list[str]] = {}
    for name, path in ready_specs().items():
        made, size = _spec_page(name, path, load_spec(name), registry)
        found |= made
        package = next(part for part in path.parts if part.startswith("peirce_"))
        picture = (
            f"![The layers of {name}](specs/{name}.svg){{ loading=lazy }}"
            if f"gallery/specs/{name}.svg" in made
            else ""
        )
        cards.setdefault(package, []).append(f"-   [{picture} **{name}**](specs/{name}.md) {size}")
    lines = [
        "# Ready specs",
        "",
        "Every command and function that takes a spec takes one of these names.",
        "",
    ]
    families = []
    for package in sorted(cards, key=[*FAMILIES, *cards].index):
        families += [
            f"## {FAMILIES.get(package, package)}",
            "",
            '<div class="grid cards gallery" markdown>',
            "",
        ]
        families += [*cards[package], "", "</div>", ""]
    lines += filtered(families)
    return {"gallery/specs.md": "\n".join(lines), **assets(registry), **experiments_page(), **found}


def assets(registry: Registry | None = None) -> dict[str, str]:
    """The pictures of written pages: what the first page's spec makes, and charts of tables."""
    from peirce.spec import Spec
    from peirce_show import draw

    shown = re.search(
        r"```toml\n(# small.toml\n.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert shown is not None
    return {
        "assets/small.svg": draw(Spec.from_toml(shown[1]), registry=registry),
        **{f"assets/{name}.svg": page_chart(name) for name in CHARTS},
    }


def page_chart(name: str) -> str:
    """A chart of `CHARTS`."""
    (page, how, unit), title = CHARTS[name]
    return chart(table(places()[page], how), title=title, unit=unit, name=name)


def _spec_page(name: str, path: Path, spec: Spec, registry: Registry) -> tuple[dict[str, str | bytes], str]:
    import torch

    from peirce.compose import build
    from peirce.errors import PeirceError
    from peirce.spec import summary_of
    from peirce_show import draw

    found: dict[str, str | bytes] = {}
    text = path.read_text(encoding="utf-8")
    comment = " ".join(line.lstrip("# ") for line in re.match(r"(#.*\n)*", text)[0].splitlines())  # type: ignore[index]
    lines = [
        "---",
        "search:",
        "  boost: 1.2",
        "---",
        f"# {name}",
        "",
        escaped(comment or summary_of(path)),
        "",
    ]
    if not spec.input.vocabulary:
        spec = spec.replace({"model.input.vocabulary": WORDS})
        lines += [f"Shown with a vocabulary of {WORDS:,} tokens.", ""]
    try:
        found[f"gallery/specs/{name}.svg"] = draw(spec, registry=registry)
        lines += [f"![The layers of {name}: what each operator reads and writes]({name}.svg){{ .drawn }}", ""]
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in build(spec, registry=registry).parameters())
        size = f"{count / 1e6:.3g} M" if count >= 1e6 else f"{count / 1e3:.3g} k"
        lines += [f"- **Size:** {count:,} parameters, {4 * count / 2**20:,.1f} MiB in float32."]
    except PeirceError as error:
        size = "size of its weights"
        lines += [
            f"- **Size:** that of its weights, which come from elsewhere: {escaped(str(error).splitlines()[0])}"
        ]
    lines += [f"- **Sizes:** {', '.join(f'{k} = {v}' for k, v in spec.dims.items())}."] if spec.dims else []
    lines += [f"- **Measured:** {'; '.join(_measured(name)) or 'not at this size'}.", ""]
    heads = {head.use for head in spec.heads}
    command = next((one for uses, one in TASKS.items() if heads & set(uses)), "")
    commands = [f"summary {name}", f"draw {name} -o {name}.svg"]
    commands += (
        [command.format(name=name, pairs="nli" if name.startswith("nli") else "entailment")]
        if command
        else []
    )
    lines += [
        "```sh",
        *(f"peirce {one}" for one in commands),
        "```",
        "",
        "## The spec",
        "",
        "```toml",
        text.strip(),
        "```",
        "",
    ]
    found[f"gallery/specs/{name}.md"] = "\n".join(lines)
    return found, size


def _measured(name: str) -> list[str]:
    """What a ready spec was measured at, each with the page that has it."""
    found = []
    for file in ("tega-umls.csv", "tega-kinship.csv"):
        rows = [row for row in _rows(file) if row["spec"] == name]
        if rows:
            seeds = ", ".join(sorted({row["seed"] for row in rows}))
            graph, scale = rows[0]["graph"], rows[0]["scale"]
            found.append(
                f"[answers on {graph}](../../plugins/papers/experiments.md), {scale} scale, seeds {seeds}"
            )
    ways = [row["way"] for row in _rows("exports.csv") if row["spec"] == name and row["outcome"] == "ok"]
    found += (
        [f"[exported and verified](../../export/exports.md) by {', '.join(dict.fromkeys(ways))}"]
        if ways
        else []
    )
    speed = DOCS / "results" / "speed.md"
    found += (
        ["[time and memory](../../results/speed.md)"]
        if f"| {name} |" in speed.read_text(encoding="utf-8")
        else []
    )
    for page, file in places().items():
        if file.suffix != ".md" or not page.startswith("plugins/") or page == TEGA:
            continue
        text = file.read_text(encoding="utf-8")
        if f"`{name}`" in text and "<!-- table:" in text:
            title = re.search(r"^# (.+)$", text, re.MULTILINE)
            found.append(f"[{title[1] if title else file.stem}](../../{page})")
    return found


@cache
def _rows(file: str) -> tuple[dict[str, str], ...]:
    with (RESULTS / file).open(encoding="utf-8", newline="") as opened:
        return tuple(csv.DictReader(opened))


def experiments_page() -> dict[str, str | bytes]:
    """Every experiment: what it shows, a chart of the table that came of it, and the command."""
    from peirce.registry import Registry
    from peirce_training.experiments import EXPERIMENTS

    found: dict[str, str | bytes] = {}
    lines = [
        "# Experiments",
        "",
        "Each does again what a table of a paper shows, at a scale of your own. The charts are of the",
    ]
    lines += ["tables on the pages of results, which say how they were measured.", ""]
    for entry in Registry.discover(kinds=(EXPERIMENTS,)).entries(EXPERIMENTS):
        name, one = entry.name, entry.part
        file = f"{name.replace('/', '-')}.svg"
        lines += [f"## {name}", "", escaped(one.title) + ".", ""]
        if name in TABLES:
            page, how, unit = TABLES[name]
            shown = table(places()[page], how)
            found[f"gallery/experiments/{file}"] = chart(shown, title=one.title, unit=unit, name=file[:-4])
            lines += [
                f"![{escaped(one.title)}: {unit}](experiments/{file}){{ .chart loading=lazy }}",
                "",
                f"[The table](../{page})",
                "",
            ]
        else:
            specs = NOT_SHOWN.get(name, ())
            lines += ["Not run here. Of what it compares:" if specs else "There is no table of it here.", ""]
            lines += [
                " ".join(f"![The layers of {s}](specs/{s}.svg){{ .half loading=lazy }}" for s in specs),
                "",
            ]
        data = "--graph umls" if name.startswith("tega/") else "--data DATA"
        lines += [
            "```sh",
            f"peirce experiments run {name} {data} -o runs/{name.replace('/', '-')}",
            "```",
            "",
        ]
    return {"gallery/experiments.md": "\n".join(lines), **found}


__all__ = ["CHARTS", "experiments_page", "pages"]

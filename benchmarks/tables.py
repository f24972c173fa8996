"""The tables of figures on the documentation's pages, each made from a file of `results/`.

A table stands between two comments. The first says how it is made:

    <!-- table: ranking tega-umls.csv experiment=tega/table7 filtering=before -->

    | ... |

    <!-- end of table -->

`python benchmarks/tables.py` lists the tables that are not what their files give, and `--write` makes them anew. A row
whose runs came from a changed tree, from another spec than today's or from another filtering is marked, below the
table as well.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ("docs/**/*.md", "*/README.md", "*/docs/**/*.md", "plugins/*/README.md", "plugins/*/docs/**/*.md")
TABLE = re.compile(r"(<!-- table: (?P<how>[^\n]+?) -->\n)(?:(?!<!--).)*(<!-- end of table -->)", re.S)
NONE = "-"
MARKS = {
    "†": "a tree with changes that no commit has",
    "‡": "another spec than today's, or an older record that does not tell its spec",
    "§": "evaluated before the filtering that is published was measured",
}
FILTERED = {"before": "", "graph": ", test alone", "graphs": ", all graphs"}
PUBLISHED = "before"

Row = dict[str, str]
Values = list[float]


@cache
def read(name: str) -> tuple[Row, ...]:
    """The rows of a CSV file of results."""
    with (RESULTS / name).open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def read_json(name: str) -> tuple[dict[str, Any], ...]:
    """The rows of a JSON file of results."""
    return tuple(json.loads((RESULTS / name).read_text(encoding="utf-8"))["rows"])


@cache
def read_lines(name: str) -> tuple[dict[str, Any], ...]:
    """The rows of a file with a row of JSON a line, each with the columns of all."""
    rows = [json.loads(line) for line in (RESULTS / name).read_text(encoding="utf-8").splitlines()]
    every = dict.fromkeys(column for row in rows for column in row)
    return tuple(every | row for row in rows)


def any_rows(name: str) -> Sequence[Mapping[str, Any]]:
    """The rows of a file of any kind."""
    return {"csv": read, "json": read_json, "jsonl": read_lines}[name.rpartition(".")[2]](name)


def runs(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    """Rows by what they have in a column, in the file's order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def spread(values: Values, digits: int = 1) -> str:
    """Mean (lowest-highest)."""
    if not values:
        return NONE
    mean, low, high = (f"{value:.{digits}f}" for value in (fmean(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low}-{high})"


class Ranking:
    """Results of TEGA's experiments on one graph.

    Args:
        name: the CSV file.
        types: the types that means are over; all that a model supports if None.
    """

    def __init__(self, name: str, types: frozenset[str] | None = None) -> None:
        self.rows = [row for row in read(name) if types is None or row["type"] in types]
        self.graph = self.rows[0]["graph"]

    def of(self, spec: str) -> list[Row]:
        """A model's rows, of today's spec where there are any."""
        own = [row for row in self.rows if row["spec"] == spec]
        today = [row for row in own if row["spec_digest"] in digests(self.graph).get(spec, ())]
        return today or own

    def others(self, spec: str) -> list[Row]:
        """A model's rows of other specs, where there are some of today's."""
        today = self.of(spec)
        return [row for row in self.rows if row["spec"] == spec and row not in today]

    def values(
        self,
        spec: str,
        cell: str,
        filtering: str = PUBLISHED,
        evaluation: str = "all",
        rows: Sequence[Row] | None = None,
    ) -> Values:
        """MRR in percent by seed.

        Args:
            spec: a ready spec.
            cell: types and answers, such as `seen/inferred`; a type's name stands for that type.
            filtering: which other answers took no part in a ranking.
            evaluation: the group of types that was asked, and how.
            rows: the model's rows; those of today's spec if None.
        """
        types, answers = cell.split("/")
        filtering = stored_filtering(filtering, cell)
        seen = {"seen": ("True",), "unseen": ("False",)}.get(types, ("True", "False"))
        own = [
            row
            for row in (self.of(spec) if rows is None else rows)
            if (row["evaluation"], row["answers"], row["filtering"]) == (evaluation, answers, filtering)
            and row["seen"] in seen
            and types in ("seen", "unseen", "all", row["type"])
        ]
        return [
            100 * fmean(float(row["mrr"]) for row in found) for _, found in sorted(runs(own, "seed").items())
        ]

    def types(self, spec: str) -> set[str]:
        """The types that a model was evaluated on."""
        return {row["type"] for row in self.of(spec)}


def definitions() -> Any:
    """TEGA's experiments."""
    from peirce_papers.tega.tables import definitions

    return definitions()


@cache
def digests(graph: str) -> dict[str, set[str]]:
    """What today's specs of TEGA's experiments are known by; tables may set options of one spec differently."""
    from peirce_papers.tega.running import TegaRuns
    from peirce_training.experiments import ExperimentRequest

    found = definitions()
    known: dict[str, set[str]] = {}
    for table in found.tables.values():
        runs = TegaRuns(
            table=table,
            scale=found.scales["small"],
            definitions=found,
            request=ExperimentRequest(data=graph, directory=Path(), seeds=(0,)),
        )
        for cell in runs.cells() if table.measure == "mrr" else ():
            known.setdefault(cell.spec.name, set()).add(cell.spec_digest)
    return known


def marks(rows: Sequence[Row], graph: str, filtering: str) -> str:
    """What must be known of a run behind a row of a table."""
    found = ""
    if any(row["commit"].endswith("+") for row in rows):
        found += "†"
    if any(row["spec_digest"] not in digests(graph).get(row["spec"], ()) for row in rows):
        found += "‡"
    if filtering not in {row["filtering"] for row in rows}:
        found += "§"
    return found


def common(ranking: Ranking, specs: Sequence[str]) -> frozenset[str]:
    """The types that all of some models support."""
    return frozenset.intersection(*(frozenset(ranking.types(spec)) for spec in specs))


def stored_filtering(filtering: str, cell: str) -> str:
    """The filtering of the rows that have a cell's figures."""
    from peirce_papers.tega.tables import stored_filtering

    return stored_filtering(filtering, cell.rpartition("/")[2])  # type: ignore[arg-type]


def head(cell: str, filtering: str) -> str:
    """The head of a cell's column, with the filtering where the published one gives other figures."""
    same = stored_filtering(filtering, cell) == stored_filtering(PUBLISHED, cell)
    return ", ".join(cell.split("/")) + ("" if same else FILTERED[filtering])


def labels(experiment: str, more: Sequence[str] = ()) -> dict[str, str]:
    """The specs of an experiment's rows, and of rows of other experiments, by label."""
    tables = definitions().tables
    everywhere = {row.label: row.spec for table in tables.values() for row in table.rows}
    own = {row.label: row.spec for row in tables[experiment.rpartition("/")[2]].rows}
    return own | {label: everywhere[label] for label in more}


def ranking(
    name: str,
    experiment: str,
    filtering: str = PUBLISHED,
    cells: str = "seen/entailed seen/inferred unseen/entailed unseen/inferred",
    evaluations: str = "all",
    more: str = "",
    shared: str = "",
    older: str = "",
) -> Iterator[str]:
    """MRR of an experiment's rows, mean (lowest-highest).

    Args:
        name: the CSV file.
        experiment: such as `tega/table7`.
        filtering: one filtering or several, with commas.
        cells: the columns under each of them.
        evaluations: how it was asked, one or several, with commas; a column's head begins with their names.
        more: labels of rows that other experiments have, with commas.
        older: `out` leaves out rows that have no figures under the first filtering.
        shared: anything, for means over the types that all rows support, beside their number of types.
    """
    specs = labels(experiment, list(filter(None, more.split(","))))
    whole = Ranking(name)
    specs = {label: spec for label, spec in specs.items() if whole.of(spec)}
    taken = Ranking(name, common(whole, list(specs.values()))) if shared else whole
    asked: dict[tuple[str, str, str], str] = {}
    for evaluation in evaluations.split(","):
        named = f"{evaluation}: " if "," in evaluations else ""
        for filtered in filtering.split(","):
            for cell in cells.split():
                asked.setdefault(
                    (evaluation, cell, stored_filtering(filtered, cell)), named + head(cell, filtered)
                )
    lead = [f"Table {experiment.removeprefix('tega/table')}" if "table" in experiment else "", "seeds"]
    lines, said = [], ""
    for label, spec in specs.items():
        for rows in (taken.of(spec), taken.others(spec)):
            if not rows:
                continue
            measured = {row["run"] for row in rows if row["filtering"] == filtering.split(",")[0]}
            rows = [row for row in rows if row["run"] in measured] or rows
            if older and not measured:
                continue
            figures = [
                taken.values(spec, cell, filtered, evaluation, rows) for evaluation, cell, filtered in asked
            ]
            seeds = ", ".join(
                found[0]["seed"] + marks(found, whole.graph, filtering.split(",")[0])
                for _, found in sorted(runs(rows, "seed").items())
            )
            said += seeds
            types = [str(len(whole.types(spec)))] if shared else []
            lines.append([label, *types, seeds, *map(spread, figures)])
    if shared:
        lead.insert(1, "types")
    yield from table([*lead, *asked.values()], lines)
    yield from below(said)


def systems(name: str) -> Iterator[str]:
    """What systems rank and cost: MRR over the types that all of them support, of ordinary and of hard queries.

    Args:
        name: the CSV file of `tega/systems`.
    """
    whole = Ranking(name)
    specs = {label: spec for label, spec in labels("tega/systems").items() if whole.of(spec)}
    taken, lines, said = Ranking(name, common(whole, list(specs.values()))), [], ""
    asked = [(cell, "all") for cell in ("all/entailed", "all/inferred", "seen/inferred", "unseen/inferred")]
    asked.append(("all/hard", "hard"))
    for label, spec in specs.items():
        rows = taken.of(spec)
        types = {row["type"] for row in whole.of(spec) if row["evaluation"] == "all"}
        said += (own := marks(rows, whole.graph, PUBLISHED))
        ranked = [
            spread(taken.values(spec, cell, stored_filtering(PUBLISHED, cell), how)) for cell, how in asked
        ]
        costs = rows[0]["parameters"], f"{1000 * float(rows[0]['query_seconds']):.2f}"
        lines.append([label + own, str(len(types)), *ranked, *costs])
    heads = (
        "types",
        "entailed",
        "inferred",
        "seen, inferred",
        "unseen, inferred",
        "hard queries",
        "parameters",
    )
    yield from table(["", *heads, "ms of CPU a query"], lines)
    yield from below(said)


def variants(name: str, published: str, filtering: str = PUBLISHED) -> Iterator[str]:
    """MRR of models as their ready specs have them, and with one setting changed; mean (lowest-highest).

    Args:
        name: the CSV file of the runs with a setting, which their commands tell.
        published: the CSV file of those without.
        filtering: which answers are filtered.
    """
    varied, whole = Ranking(name), Ranking(published)
    cells = ("seen/entailed", "seen/inferred", "unseen/entailed", "unseen/inferred")
    lines, said = [], ""
    for spec, rows in runs(varied.rows, "spec").items():
        settings: dict[str, list[Row]] = {"-": whole.of(spec)}
        for row in rows:
            words = shlex.split(row["command"])
            setting = ", ".join(after for word, after in pairwise(words) if word == "--set")
            settings.setdefault(f"`{setting}`", []).append(row)
        for setting, own in settings.items():
            seeds = ", ".join(
                seed + "†" * found[0]["commit"].endswith("+")
                for seed, found in sorted(runs(own, "seed").items())
            )
            said += seeds
            lines.append(
                [
                    spec,
                    setting,
                    seeds,
                    *(spread(whole.values(spec, cell, filtering, rows=own)) for cell in cells),
                ]
            )
    yield from table(["", "changed", "seeds", *(head(cell, filtering) for cell in cells)], lines)
    yield from below(said)


def seeds(name: str, experiment: str, cells: str, filtering: str = PUBLISHED) -> Iterator[str]:
    """MRR of each run of an experiment's rows by itself.

    Args:
        name: the CSV file.
        experiment: such as `tega/table7`.
        cells: the columns; a type's name stands for that type.
        filtering: which answers are filtered.
    """
    whole, lines, said = Ranking(name), [], ""
    for label, spec in labels(experiment).items():
        for seed, rows in sorted(runs(whole.of(spec), "seed").items()):
            own = marks(rows, whole.graph, filtering)
            said += own
            figures = [whole.values(spec, cell, filtering, rows=rows) for cell in cells.split()]
            lines.append([label, seed + own, *map(spread, figures)])
    heads = [head(cell, filtering) for cell in cells.split()]
    yield from table(["", "seed", *heads], lines)
    yield from below(said)


def accuracy(
    name: str, by: str, count: str, rows: str = "arm", digits: str = "0", **more: str
) -> Iterator[str]:
    """Accuracy in percent of the networks of an experiment, mean (lowest-highest) over the seeds.

    Args:
        name: the CSV file.
        by: what the columns are.
        count: the column that says how many examples a row is about.
        rows: the column of the networks' names.
        digits: of the percentages, after the point.
        more: what a row has in other columns, several values with commas.
    """
    kept = [row for row in read(name) if _has(row, more)]
    columns = list(dict.fromkeys(row[by] for row in kept))
    lines, said = [], ""
    for label, own in runs(kept, rows).items():
        figures = [shares((row for row in own if row[by] == column), count) for column in columns]
        seeds = ", ".join(
            found[0]["seed"] + "†" * found[0]["commit"].endswith("+") for found in runs(own, "run").values()
        )
        said += seeds
        lines.append([label, seeds, *(spread(values, int(digits)) for values in figures)])
    yield from table(["", "seeds", *columns], lines)
    yield from below(said)


def shares(rows: Iterable[Row], count: str) -> Values:
    """The percentage of examples that each run has right, by its rows."""
    return [
        100 * sum(int(row["right"]) for row in found) / sum(int(row[count]) for row in found)
        for found in runs(rows, "run").values()
    ]


def columns(name: str, *wanted: str, join: str = "", **more: str) -> Iterator[str]:
    """Columns of a benchmark's rows.

    Args:
        name: the JSON or CSV file.
        wanted: a key, or `Head=key:digits` for numbers of so many significant digits, with the lowest and
            the highest where `~` follows; a head begins with a capital.
        join: the head of a column whose values stand side by side where rows differ in nothing else.
        more: what a row has in other columns, several values with commas.
    """
    heads, cells = zip(*map(_column, wanted), strict=True)
    lines = [[cell(row) for cell in cells] for row in _having(name, more)]
    if join:
        place, joined = heads.index(join), dict[tuple[str, ...], list[str]]()
        for line in lines:
            joined.setdefault((*line[:place], *line[place + 1 :]), []).append(line[place])
        lines = [[*rest[:place], ", ".join(values), *rest[place:]] for rest, values in joined.items()]
    yield from table(heads, lines)


def pivot(
    name: str, *values: str, rows: str, across: str, only: str = "", geometric: str = "", **more: str
) -> Iterator[str]:
    """A benchmark's figures with a column for each value of a key, and a line for each row and measure.

    Args:
        name: the JSON or CSV file.
        values: the measures, as those of `columns`.
        rows: the key of the rows.
        across: the key of the columns.
        only: the rows that are shown, with commas.
        geometric: what the line of geometric means over all rows is called; there is none if empty.
        more: what a row has in other columns, several values with commas.
    """
    found = _having(name, more)
    heads = list(dict.fromkeys(row[across] for row in found))
    labels = only.split(",") if only else list(dict.fromkeys(row[rows] for row in found))
    lines = []
    for label in labels:
        for head, cell in map(_column, values):
            own = {row[across]: cell(row) for row in found if row[rows] == label}
            lines.append([f"`{label}`", *[head] * (len(values) > 1), *(own.get(one, NONE) for one in heads)])
    if geometric:
        key, _, digits = values[0].rpartition(":")
        means = [geometric_mean(row[key] for row in found if row[across] == one) for one in heads]
        lines.append([geometric, *(significant(mean, int(digits)) for mean in means)])
    yield from table([rows, *[""] * (len(values) > 1), *map(str, heads)], lines)


def _having(name: str, more: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """The rows that have one of the values in each of some columns."""
    return [row for row in any_rows(name) if _has(row, more)]


def _has(row: Mapping[str, Any], more: Mapping[str, str]) -> bool:
    return all(str("" if row[key] is None else row[key]) in value.split(",") for key, value in more.items())


def _column(text: str) -> tuple[str, Callable[[Mapping[str, Any]], str]]:
    head, _, rest = text.rpartition("=")
    key, _, digits = rest.removesuffix("~").partition(":")
    ends = ("", ", lowest", ", highest") if rest.endswith("~") else ("",)  # older files have no spread

    def cell(row: Mapping[str, Any]) -> str:
        if row.get(key) in ("", None):
            return NONE
        if not digits:
            return str(row[key])
        value, *ranged = (
            significant(float(row[f"{key}{end}"]), int(digits)) for end in ends if f"{key}{end}" in row
        )
        return f"{value} ({'-'.join(ranged)})" if ranged else value

    return head or key, cell


def transfer(name: str) -> Iterator[str]:
    """The figures of TPRU's Tables 2 and 3 in percent, mean (lowest-highest) over the seeds.

    Args:
        name: the CSV file that both experiments wrote.
    """
    from peirce_papers.tpru.nli import COLUMNS, SPLITS

    found = {label: transferred(name, label) for label in runs(read(name), "label")}
    heads = [
        head
        for head in (*SPLITS, *COLUMNS)
        if any(head in own for by_run in found.values() for own in by_run.values())
    ]
    lines, said = [], ""
    for label, by_run in found.items():
        rows = [row for row in read(name) if row["label"] == label]
        seeds = ", ".join(
            own[0]["seed"] + "†" * own[0]["commit"].endswith("+") for own in runs(rows, "run").values()
        )
        said += seeds
        figures = [[own[head] for own in by_run.values() if head in own] for head in heads]
        lines.append([label, seeds, f"{int(rows[0]['parameters']):,}", *map(spread, figures)])
    yield from table(["", "seeds", "parameters", *heads], lines)
    yield from below(said)


def transferred(name: str, label: str) -> dict[str, dict[str, float]]:
    """By run of a row, its figures in percent by the heads of TPRU's Tables 2 and 3."""
    from peirce_papers.tpru.nli import SPLITS
    from peirce_tpru.senteval.evaluation import means

    found = {}
    for run, rows in runs([row for row in read(name) if row["label"] == label], "run").items():
        results: dict[str, dict[str, float]] = {}
        for row in rows:
            results.setdefault(row["task"], {})[row["measure"]] = float(row["value"])
        own = {split: results[split]["accuracy"] for split in SPLITS if split in results} | means(results)
        found[run] = {head: 100 * value for head, value in own.items()}
    return found


def similarity(name: str, *published: str) -> Iterator[str]:
    """Correlations of `peirce senteval` in percent, by task, beside published ones.

    Args:
        name: the JSON file that it kept.
        published: such as `STS13=80.6`, Spearman's over all pairs of a year.
    """
    known = dict(word.split("=") for word in published)
    tasks = json.loads((RESULTS / name).read_text(encoding="utf-8"))["tasks"]
    lines = []
    for task, own in tasks.items():
        kinds = (own["pearson"], own["spearman"], own.get("spearman_all"))
        shown = [NONE if value is None else f"{100 * value:.1f}" for value in kinds]
        lines.append([task, *shown, known.get(task, NONE)])
    yield from table(["", "Pearson", "Spearman", "Spearman, all pairs", "published"], lines)


def significant(value: float, digits: int) -> str:
    """A number rounded to some significant digits, such as 1,030,000, 0.148 or 5.9e-07."""
    rounded = float(f"{value:.{digits}g}")
    if 0 < abs(rounded) < 10**-digits:  # nothing of it would be left
        return f"{value:.{digits - 1}e}"
    whole = len(str(int(abs(rounded)))) if abs(rounded) >= 1 else 0
    return f"{rounded:,.{max(0, digits - whole)}f}"


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(heads)} |".replace("|  |", "| |")
    yield "|---" * len(heads) + "|"
    for line in lines:
        yield f"| {' | '.join(line)} |".replace("|  |", "| |")


def below(said: str) -> Iterator[str]:
    """The line below a table that says what its marks mean."""
    if any(mark in said for mark in MARKS):
        yield ""
        yield "; ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items() if mark in said) + "."


MAKERS: dict[str, Callable[..., Iterator[str]]] = {
    "ranking": ranking,
    "systems": systems,
    "variants": variants,
    "seeds": seeds,
    "accuracy": accuracy,
    "columns": columns,
    "pivot": pivot,
    "transfer": transfer,
    "similarity": similarity,
}


def made(how: str) -> str:
    """The table that a comment asks for, once its file is there."""
    maker, name, *words = shlex.split(how)
    if not (RESULTS / name).exists():
        return "Not run yet."
    options = dict(word.split("=", 1) for word in words if re.match(r"[a-z]+=", word))
    return "\n".join(
        MAKERS[maker](name, *(word for word in words if not re.match(r"[a-z]+=", word)), **options)
    )


def remade(text: str) -> str:
    """A page with its tables made anew."""
    return TABLE.sub(lambda found: f"{found[1]}\n{made(found['how'])}\n\n{found[3]}", text)


def pages() -> list[Path]:
    """The pages with tables that are made."""
    found = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return [path for path in sorted(found) if TABLE.search(path.read_text(encoding="utf-8"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="make them anew")
    options = parser.parse_args()
    old = [path for path in pages() if remade(text := path.read_text(encoding="utf-8")) != text]
    for path in old:
        if options.write:
            path.write_text(remade(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(path.relative_to(ROOT), "is made anew" if options.write else "is not what its files give")
    if old and not options.write:
        sys.exit("python benchmarks/tables.py --write makes them anew")


if __name__ == "__main__":
    main()

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve
from rich.console import Console
from shared_folder import ROOT
from small_specs import NARROW

import peirce
from peirce.errors import TaskError
from peirce.registry import Registry, ready_specs
from peirce_kg import STRATA, read_kge
from peirce_papers.tega.report import table_of
from peirce_papers.tega.running import RankingRow, TegaRuns
from peirce_papers.tega.tables import Column, Definitions, Evaluation, Scale, TegaRow, TegaTable, definitions
from peirce_queries.languages.types import load_types, select
from peirce_training.experiments import RESULTS, ExperimentRequest, FigureTable, read_rows

CELLS = ("seen/entailed", "unseen/inferred", "all/entailed")
TABLE = TegaTable(
    name="table99",
    title="A small table",
    cells=tuple(map(Column.parse, CELLS)),
    rows=(
        TegaRow("absolute", "transformer-absolute", paper={"fb15k-237": (50.0, 9.0, 30.0)}),
        TegaRow("TEGA", "tega"),
    ),
    types="few",
)
SMALL = {**NARROW, "model.regularisation.init_std": 0.5, "train.steps": 2, "train.threads": 1}
SMALL |= {"task.train_queries": 20, "task.eval_queries": 4, "task.batch_size": 16}
TINY = Scale("tiny", "two steps", SMALL)
DEFINITIONS = Definitions({"table99": TABLE}, {"tiny": TINY}, {"few": ("1p", "2p", "2pi"), "one": ("2p",)})


@pytest.fixture
def runs(tmp_path: Path, registry: Registry) -> TegaRuns:
    command = "peirce experiments run tega/table99"
    asked = ExperimentRequest(data="nations", directory=tmp_path / "out", seeds=(0, 1), command=command)
    return TegaRuns(table=TABLE, scale=TINY, definitions=DEFINITIONS, request=asked, registry=registry)


def with_request(runs: TegaRuns, **changes: Any) -> TegaRuns:
    """The same table with another request."""
    return evolve(runs, request=evolve(runs.request, **changes))


def test_every_run_is_done_once_and_every_figure_is_a_mean_of_what_is_kept(runs: TegaRuns) -> None:
    console = Console(width=140, record=True)
    first = with_request(runs, seeds=(0,)).run(console)
    assert {(r.spec, r.type, r.seen, r.answers) for r in first if r.answers not in STRATA} == {
        (spec, kind, kind != "2pi", answers)
        for spec in ("transformer-absolute", "tega")
        for kind in ("1p", "2p", "2pi")
        for answers in ("entailed", "inferred")
    }
    assert {(r.type, r.filtering) for r in first if r.answers == "hard"} >= {("1p", "graph")}
    assert {(r.steps, r.seed, r.graph, r.scale, r.command) for r in first} == {
        (2, 0, "nations", "tiny", runs.request.command)
    }
    before = (runs.request.directory / RESULTS).read_text()
    whole = runs.run(console)
    assert (runs.request.directory / RESULTS).read_text().startswith(before)
    assert len(whole) == 2 * len(first)
    assert runs.run(console) == whole == read_rows(runs.request.directory / RESULTS, RankingRow)
    assert console.export_text().count("done before") == 2 + 4

    figures = table_of(runs, whole).figures
    tega = figures["TEGA"][0]
    own = [r for r in whole if (r.spec, r.answers, r.filtering) == ("tega", "entailed", "graph") and r.seen]
    means = [100 * np.mean([r.mrr for r in own if r.seed == seed]) for seed in (0, 1)]
    assert (tega.mean, tega.low, tega.high) == pytest.approx((sum(means) / 2, min(means), max(means)))
    assert [f.paper for f in figures["absolute"]] == [50.0, 9.0, 30.0, None, None, None, None]
    assert all(len(f.values) == 2 for f in figures["absolute"])
    easier, published = figures["absolute"][4], figures["absolute"][0]
    assert all(a >= b for a, b in zip(easier.values, published.values, strict=True))
    assert figures["TEGA"][1].paper is None

    split = {f.column: f for f in table_of(evolve(runs, table=runs.table.split()), whole).figures["TEGA"]}
    easiest = [
        100 * r.mrr for r in whole if r.run.startswith("tega-1-") and r.answers == "missing-1" and not r.seen
    ]
    assert split["unseen types, missing-1"].values[1] == pytest.approx(easiest[0])
    assert "unseen types, hard, all graphs filtered" not in split

    paths = table_of(runs, whole).write(runs.request.directory).files
    assert [p.name for p in paths] == [f"table99-nations-tiny.{e}" for e in ("md", "csv", "png")]
    text = paths[0].read_text()
    assert all(words in text for words in ("# A small table", "two steps", "[50.0]", runs.request.command))
    assert "Left out" not in text
    partial = table_of(runs, [r for r in whole if r.type != "2p"])
    assert "Left out, as the graph has no queries of them: 2p." in partial.markdown()


def test_what_is_trained_is_evaluated_again(runs: TegaRuns) -> None:
    again = with_request(runs, only_evaluate=True, command="another")
    with pytest.raises(TaskError, match="no trained model of this experiment"):
        again.run(Console(quiet=True))
    one = with_request(runs, seeds=(0,))
    first, path = one.run(Console(quiet=True)), runs.request.directory / RESULTS
    weights = {p: p.stat().st_mtime_ns for p in path.parent.rglob("checkpoints/**/*") if p.is_file()}
    assert weights
    path.write_text(path.read_text().replace(f"{first[0].mrr:.6f}"[:6], "0.4321"))
    console = Console(width=200, record=True)
    assert again.run(console) == first == read_rows(path, RankingRow)
    assert console.export_text().count("seed 1: not trained, left out") == 2
    path.unlink()
    assert again.run(Console(quiet=True)) == first
    assert weights == {p: p.stat().st_mtime_ns for p in weights}
    assert {row.command for row in first} == {runs.request.command}
    assert {row.spec_digest for row in first} == {cell.spec_digest for cell in one.cells()}
    assert all(row.evaluated for row in first)
    (runs.request.directory / "runs" / first[0].run / "origin.json").write_text("[]")
    with pytest.raises(TaskError, match="does not say which tree trained the model"):
        again.run(Console(quiet=True))


def test_tables_share_what_is_trained(runs: TegaRuns) -> None:
    console = Console(width=140, record=True)
    first = with_request(runs, seeds=(0,)).run(console)
    turned = evolve(
        TABLE,
        name="table98",
        cells=(Column.parse("before:all/entailed"), Column.parse("after:all/entailed")),
        rows=(evolve(TABLE.rows[0], label="Absolute", paper={"fb15k-237": (54.1, 27.8)}),),
        evaluations={"before": Evaluation("one"), "after": Evaluation("one", reverse=True)},
    )
    other = with_request(evolve(runs, table=turned), seeds=(0,))
    found = other.run(console)
    assert {r.run for r in found} == {r.run for r in first if r.spec == "transformer-absolute"}
    assert {(r.evaluation, r.type) for r in found} == {("one", "2p"), ("one-reversed", "2p")}
    before, after, *_ = table_of(other, found).figures["Absolute"]
    assert before.mean is not None
    assert before.mean != after.mean


def test_vectors_are_trained_once_and_begun_with(runs: TegaRuns) -> None:
    row = TegaRow("ComplEx", "transformer-relative-complex", vectors="complex")
    table = evolve(TABLE, rows=(row, evolve(row, label="again", settings={"train.lr": 1e-3})))
    console = Console(width=140, record=True)
    with_request(evolve(runs, table=table), seeds=(0,)).run(console)
    assert console.export_text().count("training complex on nations") == 1
    (file,) = (runs.request.directory / "vectors").iterdir()
    _, entities, _ = read_kge(file)
    (first, *_) = (cell.run for cell in evolve(runs, table=table).cells())
    model = peirce.load(runs.request.directory / "runs" / first)
    kept = dict(model.named_buffers())
    vectors = next(tensor for name, tensor in kept.items() if name.endswith("vectors"))
    start = model.spec.heads[0].options["first"]
    assert torch.equal(vectors[start : start + len(entities)], entities)


def test_an_imported_model_is_measured_as_it_is(runs: TegaRuns) -> None:
    row = TegaRow("UltraQuery", "ultra", imported="peirce import ultra WEIGHTS")
    table = evolve(runs, table=evolve(TABLE, rows=(row,)))
    path = runs.request.directory / "imported" / "ultra"
    with pytest.raises(TaskError, match=f"UltraQuery .*`peirce import ultra WEIGHTS -o {path}`"):
        table.run(Console(quiet=True))
    peirce.build("ultra", seed=0, registry=runs.registry).save(path)
    found = table.run(Console(quiet=True))
    assert {(r.spec, r.seed, r.steps, r.parameters) for r in found} == {("ultra", 0, 0, 168705)}
    assert {r.type for r in found} == {"1p", "2p", "2pi"}
    assert with_request(table, only_evaluate=True).run(Console(quiet=True)) == found
    peirce.build("ultra", seed=1, registry=runs.registry).save(path)
    assert {r.run for r in table.run(Console(quiet=True))}.isdisjoint({r.run for r in found})


def test_results_that_were_kept_are_read_and_found() -> None:
    rows = read_rows(ROOT / "benchmarks" / "results" / "tega-umls.csv", RankingRow)
    specs = {cell.spec.name: cell.spec_digest for cell in of_peirce("table2", "umls", Path("unused")).cells()}
    assert any(specs.get(row.spec) == row.spec_digest for row in rows)


def of_peirce(table: str, graph: str, directory: Path) -> TegaRuns:
    """The trainings of a table that comes with Peirce."""
    found = definitions()
    request = ExperimentRequest(data=graph, directory=directory)
    return TegaRuns(
        table=found.tables[table], scale=found.scales["small"], definitions=found, request=request
    )


def test_a_table_that_no_paper_has(runs: TegaRuns, tmp_path: Path) -> None:
    assert "- [50.0]" in table_of(runs, []).markdown()
    table = table_of(evolve(runs, table=evolve(TABLE, rows=(TegaRow("TEGA", "tega"),))), [])
    assert "paper" not in table.markdown()
    assert all(path.stat().st_size for path in table.write(tmp_path).files)


def test_the_tables_that_come_with_peirce() -> None:
    found = definitions()
    for table in found.tables.values():
        if table.measure == "graph":
            continue
        assert {row.spec for row in table.rows} <= set(ready_specs())
        runs = of_peirce(table.name, "umls", Path("unused"))
        assert len({cell.run for cell in with_request(runs, seeds=(0,)).cells()}) == len(table.rows)
        assert {cell.evaluation for cell in table.cells} <= set(table.all_evaluations)
        assert {len(each) for row in table.rows for each in row.paper.values()} <= {len(table.cells) or 1}
    types = load_types()
    lisp = select(found.types("lisp"), types)
    assert [sum(t.seen for t in lisp), len(lisp)] == [13, 25]


def test_tables_of_sizes(tmp_path: Path) -> None:
    def table(name: str) -> FigureTable:
        runs = of_peirce(name, "nations", tmp_path)
        return table_of(runs, runs.run(Console(quiet=True)))

    graphs = table("table14")
    assert [f.mean for f in graphs.figures["this graph"]] == [55, 14, 1592, 199, 201, 1992]
    assert graphs.figures["this graph"][1].paper == 14505
    models = table("table15")
    tega, relative = (models.figures[label][0].mean or 0 for label in ("TEGA", "Trans.+Relative PE"))
    assert 0.1 < relative < tega < 1
    for path in (*graphs.write(tmp_path).files, *models.write(tmp_path).files):
        assert path.stat().st_size
    assert "MRR" not in (tmp_path / "table14-nations-small.md").read_text()

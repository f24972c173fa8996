from __future__ import annotations

import csv
import json
from pathlib import Path

import peirce
import pytest
import torch
from attrs import evolve
from peirce.errors import TaskError
from peirce.experiments import read_rows
from peirce.experiments.cli import app
from peirce.registry import Registry, ready_specs
from peirce_kg.experiments.report import Outcome
from peirce_kg.experiments.running import RESULTS, Plan, Result, jobs, run
from peirce_kg.experiments.tables import Cell, Definitions, Evaluation, Row, Scale, Table, definitions
from peirce_kg.parts.augmenters.kge_files import read_kge
from peirce_kg.queries.types import load_types, select
from rich.console import Console
from small_specs import NARROW
from typer.testing import CliRunner

CELLS = ("seen/entailed", "unseen/inferred", "all/entailed")
TABLE = Table(
    name="table99",
    title="A small table",
    cells=tuple(map(Cell.parse, CELLS)),
    rows=(
        Row("absolute", "transformer-absolute", paper={"fb15k-237": (50.0, 9.0, 30.0)}),
        Row("TEGA", "tega"),
    ),
    types="few",
)
SMALL = {
    **NARROW,
    "model.regularisation.init_std": 0.5,
    "task.train_queries": 20,
    "task.eval_queries": 4,
    "task.batch_size": 16,
    "train.steps": 2,
    "train.threads": 1,
}
DEFINITIONS = Definitions(
    {"table99": TABLE},
    {"tiny": Scale("tiny", "two steps", SMALL)},
    {"few": ("1p", "2p", "2pi"), "one": ("2p",)},
)


@pytest.fixture
def plan(tmp_path: Path, registry: Registry) -> Plan:
    return Plan(
        table=TABLE,
        scale=DEFINITIONS.scale("tiny"),
        definitions=DEFINITIONS,
        graph="nations",
        directory=tmp_path / "out",
        seeds=(0, 1),
        command="peirce experiments run tega/table99",
        registry=registry,
    )


def test_every_run_is_done_once_and_every_figure_is_a_mean_of_what_is_kept(plan: Plan) -> None:
    console = Console(width=140, record=True)
    first = run(evolve(plan, seeds=(0,)), console)
    assert {(r.spec, r.type, r.seen, r.answers) for r in first} == {
        (spec, kind, kind != "2pi", answers)
        for spec in ("transformer-absolute", "tega")
        for kind in ("1p", "2p", "2pi")
        for answers in ("entailed", "inferred")
    }
    assert {(r.steps, r.seed, r.graph, r.scale, r.command) for r in first} == {
        (2, 0, "nations", "tiny", plan.command)
    }
    before = (plan.directory / RESULTS).read_text()
    whole = run(plan, console)
    assert (plan.directory / RESULTS).read_text().startswith(before)
    assert len(whole) == 2 * len(first)
    assert run(plan, console) == whole == read_rows(plan.directory / RESULTS, Result)
    assert console.export_text().count("done before") == 2 + 4

    figures = Outcome(plan, whole).figures
    tega = figures["TEGA"][0]
    by_seed = [
        [100 * r.mrr for r in whole if (r.spec, r.seed, r.answers) == ("tega", seed, "entailed") and r.seen]
        for seed in (0, 1)
    ]
    means = [sum(values) / len(values) for values in by_seed]
    assert (tega.mean, tega.low, tega.high) == pytest.approx((sum(means) / 2, min(means), max(means)))
    assert [f.paper for f in figures["absolute"]] == [50.0, 9.0, 30.0]
    assert figures["TEGA"][1].paper is None


def test_tables_share_what_is_trained(plan: Plan) -> None:
    console = Console(width=140, record=True)
    first = run(evolve(plan, seeds=(0,)), console)
    turned = evolve(
        TABLE,
        name="table98",
        cells=(Cell.parse("before:all/entailed"), Cell.parse("after:all/entailed")),
        rows=(evolve(TABLE.rows[0], label="Absolute", paper={"fb15k-237": (54.1, 27.8)}),),
        evaluations={"before": Evaluation("one"), "after": Evaluation("one", reverse=True)},
    )
    other = evolve(plan, table=turned, seeds=(0,))
    found = run(other, console)
    assert {r.run for r in found} == {r.run for r in first if r.spec == "transformer-absolute"}
    assert {(r.evaluation, r.type) for r in found} == {("one", "2p"), ("one-reversed", "2p")}
    before, after = Outcome(other, found).figures["Absolute"]
    assert before.mean is not None
    assert before.mean != after.mean


def test_vectors_are_trained_once_and_begun_with(plan: Plan) -> None:
    row = Row("ComplEx", "transformer-relative-complex", vectors="complex")
    table = evolve(TABLE, rows=(row, evolve(row, label="again", settings={"train.lr": 1e-3})))
    console = Console(width=140, record=True)
    run(evolve(plan, table=table, seeds=(0,)), console)
    assert console.export_text().count("training complex on nations") == 1
    (file,) = (plan.directory / "vectors").iterdir()
    _, entities, _ = read_kge(file)
    (first, *_) = (job.run for job in jobs(evolve(plan, table=table)))
    model = peirce.load(plan.directory / "runs" / first)
    kept = dict(model.named_buffers())
    vectors = next(tensor for name, tensor in kept.items() if name.endswith("vectors"))
    start = model.spec.heads[0].options["first"]
    assert torch.equal(vectors[start : start + len(entities)], entities)


def test_what_a_run_is_known_by(plan: Plan) -> None:
    def known(changed: Plan) -> list[str]:
        return [job.run for job in jobs(changed)]

    assert known(plan) == known(evolve(plan, command="another", directory=Path("elsewhere")))
    assert known(plan) == known(evolve(plan, settings={"train.threads": 2}))
    for key, value in (("train.lr", 1e-2), ("task.eval_queries", 5), ("model.dims.heads", 1)):
        assert not set(known(plan)) & set(known(evolve(plan, settings={key: value})))


def test_files(plan: Plan) -> None:
    outcome = Outcome(plan, run(evolve(plan, seeds=(0,)), Console(quiet=True)))
    paths = outcome.write()
    assert [p.name for p in paths] == [f"table99-nations-tiny.{e}" for e in ("md", "csv", "png")]
    text = paths[0].read_text()
    for words in ("# A small table", "ties rank", "two steps", "[50.0]", "fb15k-237", "tega", plan.command):
        assert words in text
    with paths[1].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["row"], r["column"]) for r in rows[:2]] == [
        ("absolute", "seen types, entailed"),
        ("absolute", "unseen types, inferred"),
    ]
    assert paths[2].read_bytes().startswith(b"\x89PNG")
    assert "Left out" not in text
    partial = Outcome(plan, [r for r in outcome.results if r.type != "2p"])
    assert "Left out, as the graph has no queries of them: 2p." in partial.markdown()


def test_what_differs_from_the_scale_stands_beside_the_figures(plan: Plan) -> None:
    changed = evolve(plan, settings={"train.steps": 3, "task.train_queries": 10})
    assert "scale tiny: two steps; here with train.steps = 3, task.train_queries = 10." in " ".join(
        Outcome(changed, []).facts()
    )


def test_a_graph_that_is_not_there_leaves_nothing_behind(plan: Plan) -> None:
    with pytest.raises(TaskError, match="no-such-graph"):
        run(evolve(plan, graph="no-such-graph"), Console(quiet=True))
    assert not plan.directory.exists()


def test_a_table_without_results_has_dashes(plan: Plan) -> None:
    console = Console(width=200, record=True)
    console.print(Outcome(plan, []).shown())
    assert "- [50.0]" in console.export_text()


def test_a_table_that_no_paper_has(plan: Plan) -> None:
    own = evolve(plan, table=evolve(TABLE, rows=(Row("TEGA", "tega"),)))
    outcome = Outcome(own, [])
    assert outcome.paper_graph == ""
    assert "paper" not in outcome.markdown()
    assert all(path.stat().st_size for path in outcome.write())


def test_the_tables_that_come_with_peirce(registry: Registry) -> None:
    found = definitions()
    for table in found.tables.values():
        if table.measure == "graph":
            continue
        assert {row.spec for row in table.rows} <= set(ready_specs())
        plan = Plan(
            table=table,
            scale=found.scale("small"),
            definitions=found,
            graph="umls",
            directory=Path("unused"),
            seeds=(0,),
            registry=registry,
        )
        assert len({job.run for job in jobs(plan)}) == len(table.rows)
    types = load_types()
    lisp = select(found.types("lisp"), types)
    assert [sum(t.seen for t in lisp), len(lisp)] == [13, 25]


def test_tables_of_sizes(tmp_path: Path, registry: Registry) -> None:
    found = definitions()

    def outcome(name: str) -> Outcome:
        plan = Plan(
            table=found.table(name),
            scale=found.scale("small"),
            definitions=found,
            graph="nations",
            directory=tmp_path,
            registry=registry,
        )
        return Outcome(plan, run(plan, Console(quiet=True)))

    graphs = outcome("tega/table14")
    assert [f.mean for f in graphs.figures["this graph"]] == [55, 14, 1592, 199, 201, 1992]
    assert graphs.figures["this graph"][1].paper == 14505
    models = outcome("tega/table15")
    tega, relative = (models.figures[label][0].mean for label in ("TEGA", "Trans.+Relative PE"))
    assert tega is not None
    assert relative is not None
    assert 0.1 < relative < tega < 1
    for path in (*graphs.write(), *models.write()):
        assert path.stat().st_size
    assert "MRR" not in (tmp_path / "table14-nations-small.md").read_text()


def test_the_command(tmp_path: Path) -> None:
    settings = [word for k, v in SMALL.items() for word in ("--set", f"{k}={v}")]
    command = [
        "run",
        "tega/table4",
        "--graph",
        "nations",
        "--seeds",
        "0",
        "--row",
        "Trans.+Absolute PE",
        "--json",
    ]
    done = CliRunner().invoke(app, [*command, "-o", str(tmp_path), *settings, "--set", "task.eval_queries=2"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [f["column"] for f in told["figures"]] == list(definitions().table("tega/table4").columns)
    assert all(Path(p).is_file() for p in told["files"])
    listed = CliRunner().invoke(app, ["list", "--json"])
    assert "tega/table7" in [e["name"] for e in json.loads(listed.stdout)["experiments"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tega/table77"], "unknown experiment 'tega/table77'.*tega/table7"),
        (["tega/table7", "--scale", "smal"], "unknown scale 'smal'.*small"),
        (["tega/table7", "--seeds", "0,0"], "each stands once"),
        (["tega/table7", "--seeds", "a"], "whole numbers"),
        (["tega/table7", "--row", "TEGGA"], "unknown row 'TEGGA'.*TEGA"),
        (["tega/table7", "--set", "lr=1"], "'lr' begins with none of model., task. and train."),
        (["tega/table7", "--set", "train.lrr=1"], "unknown option 'lrr' of training"),
    ],
)
def test_mistakes(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", *arguments, "--graph", "nations", "-o", str(tmp_path)])
    assert isinstance(done.exception, TaskError)
    with pytest.raises(TaskError, match=words):
        raise done.exception

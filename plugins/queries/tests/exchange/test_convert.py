"""`peirce kg convert`: what a format can hold comes back the same, and published layouts are read as they are."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from kgqa_command import run

from peirce.errors import TaskError
from peirce_queries.engine.answers import Answers
from peirce_queries.graphs.graph import SPLITS, Graph, load_graph
from peirce_queries.sampling.files import read_samples

TYPES = "1p,2p,pi,2in,up,pni,3c"
HOLD = {
    "betae": {"1p", "2p", "pi", "2in", "up"},
    "query2box": {"1p", "2p", "pi", "up"},
    "sqe": {"1p", "2p", "pi", "2in", "up"},
    "efok": {*TYPES.split(",")},
}


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sampled") / "queries"
    run("sample", "--graph", "nations", "--types", TYPES, "--split", "all", "--count", "5", "-o", str(folder))
    return folder


def _query_of(folder: Path, graph: Graph) -> dict[tuple[str, str], set[tuple[str, ...]]]:
    """By split and type: each query as text, with the names of its answers on each graph."""

    def names(answers: Answers, row: int) -> str:
        return " ".join(graph.entity_names[entity] for entity in answers[row])

    return {
        (split, own.type.name): {
            (str(own.query(row, graph)), *(names(own.answers[s], row) for s in SPLITS))
            for row in range(len(own))
        }
        for split in SPLITS
        for own in read_samples(folder, graph, split)
    }


@pytest.mark.parametrize("form", HOLD)
def test_what_a_format_can_hold_comes_back(form: str, sampled: Path, tmp_path: Path) -> None:
    graph = load_graph("nations")
    theirs, back = str(tmp_path / "theirs"), tmp_path / "back"
    asked = ("--graph", "nations", "--to", form, "-o", theirs, "--json")
    told = json.loads(run("convert", str(sampled), *asked))
    assert {row["type"] for row in told["types"] if row["left_out"]} == {*TYPES.split(",")} - HOLD[form]
    assert "exact" in run("convert", theirs, "-o", str(back))
    again = load_graph(str(back))
    assert (again.entity_names, again.relation_names) == (graph.entity_names, graph.relation_names)
    assert all((again.added[split] == graph.added[split]).all() for split in SPLITS)
    expected = {key: said for key, said in _query_of(sampled, graph).items() if key[1] in HOLD[form]}
    assert _query_of(back, again) == expected


def _write(folder: Path, files: dict[str, object]) -> Path:
    """A folder in BetaE's layout, with a graph of three entities and one relation in both directions."""
    folder.mkdir(exist_ok=True)
    graph = {"train": "0\t0\t1\n1\t1\t0\n", "valid": "1\t0\t2\n2\t1\t1\n", "test": "0\t0\t2\n2\t1\t0\n"}
    vocabulary = {"id2ent.pkl": {0: "a", 1: "b", 2: "c"}, "id2rel.pkl": {0: "+r", 1: "-r"}}
    for name, content in {**{f"{split}.txt": graph[split] for split in graph}, **vocabulary, **files}.items():
        if name.endswith(".pkl"):
            (folder / name).write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
        else:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


PATH = (0, (0, 0))


def test_files_of_the_harder_benchmark_keep_what_is_hard(tmp_path: Path) -> None:
    two, four, negated = ("e", ("r", "r")), ("e", ("r",) * 4), ("e", ("r", "r", "n"))
    longer = (0, (0, 1, 0, 1))
    files = {
        "test-queries.pkl": {two: {PATH}, four: {longer}, negated: {(0, (0, 0, -2))}},
        "test-easy-answers.pkl": {PATH: set(), longer: {0}},
        "test-hard-answers.pkl": {PATH: {2}, longer: {1}},
    }
    folder = _write(tmp_path / "h", files)
    shown = " ".join(run("convert", str(folder), "-o", str(tmp_path / "own")).split())
    assert "test 2p 1 0" in shown
    assert "test 4p 1 1" in shown
    assert "left out: (p,(r2),(p,(r1),(s1))) stands in a complement" in shown
    graph = load_graph(str(tmp_path / "own"))
    two, four_hops = read_samples(tmp_path / "own", graph, "test")
    assert two.answers["test"][0].tolist() == [2]
    assert [four_hops.answers[s][0].tolist() for s in SPLITS] == [[0], [0], [0, 1]]
    assert json.loads((tmp_path / "own" / "test" / "sample.json").read_text())["source"] == "h"


def test_published_json_is_read_with_a_vocabulary_elsewhere(tmp_path: Path) -> None:
    folder = _write(tmp_path / "graph", {})
    (tmp_path / "sqe").mkdir()
    answers = {"train_answers": ["0"], "valid_answers": ["0", "2"]}
    own = {"(i,(n,(p,(e))),(p,(e)))": {"(i,(n,(p,(0),(e,(2)))),(p,(1),(e,(1))))": answers}}
    source = tmp_path / "sqe" / "FB_valid_queries_58_types.json"
    source.write_text(json.dumps(own))
    with pytest.raises(TaskError, match=r"has no vocabulary \(id2ent\.pkl.*give --graph the folder"):
        run("convert", str(source), "-o", str(tmp_path / "no"))
    run("convert", str(source), "--graph", str(folder), "-o", str(tmp_path / "own"))
    graph = load_graph(str(tmp_path / "own"))
    (read,) = read_samples(tmp_path / "own", graph, "valid")
    assert (read.type.name, str(read.query(0, graph))) == ("2in", "(-r(b,f))&(!(+r(c,f)))")
    efok = {
        "(r1(f1,s1))&(!(r2(e1,f1)))": [[{"r1": 0, "r2": 1, "s1": 2}, {"f1": [[1]]}, {"f1": [[0]]}]],
        "r1(f1,f2)": [[{"r1": 0}, {}, {}]],
    }
    (tmp_path / "efok").mkdir()
    (tmp_path / "efok" / "test-type0007-EFOX-qaa.json").write_text(json.dumps(efok))
    shown = run("convert", str(tmp_path / "efok"), "--graph", str(folder), "-o", str(tmp_path / "also"))
    assert "type0007" in shown
    assert "left out: it asks for pairs" in " ".join(shown.split())


def test_files_of_query2box_are_read_and_written(tmp_path: Path) -> None:
    named = {"train.txt": "a\t+r\tb\nb\t-r\ta\n"}
    own = {((0, (0,)), (2, (1,)), 1): {0}, ((1, (1,)), (0, (0,)), 0): {1, 2}}
    easy = {((1, (1,)), (0, (0,)), 0): {2}}
    folder = _write(tmp_path / "q2b", {**named, "valid_ans_uc.pkl": own, "valid_ans_uc_hard.pkl": easy})
    for name in ("ent", "rel"):
        (folder / f"id2{name}.pkl").rename(folder / f"ind2{name}.pkl")
    run("convert", str(folder), "-o", str(tmp_path / "own"))
    graph = load_graph(str(tmp_path / "own"))
    run("convert", str(tmp_path / "own"), "--to", "query2box", "-o", str(tmp_path / "back"))
    for name in ("valid_ans_uc", "valid_ans_uc_hard", "ind2ent"):
        files = [pickle.loads((place / f"{name}.pkl").read_bytes()) for place in (folder, tmp_path / "back")]
        assert files[0] | {new: set() for new in {*files[1]} - {*files[0]}} == files[1]
    triples = pickle.loads((tmp_path / "back" / "valid_triples_uc.pkl").read_bytes())
    assert triples == [(*query, tail, "union-chain") for query, tail in zip(own, (0, 2), strict=True)]
    (read,) = read_samples(tmp_path / "own", graph, "valid")
    assert str(read.query(0, graph)) == "((+r(a,e1))|(-r(c,e1)))&(-r(e1,f))"
    found = [[read.answers[s][row].tolist() for s in SPLITS[:2]] for row in (0, 1)]
    assert found == [[[0], [0]], [[1], [1, 2]]]


def test_own_types_are_taken_alone(sampled: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[type]]\nname = "hops"\nformula = "(r2(e1,f))&(r1(s1,e1))"\nseen = true\n')
    theirs = str(tmp_path / "theirs")
    run("convert", str(sampled), "--graph", "nations", "--to", "sqe", "-o", theirs)
    told = json.loads(run("convert", theirs, "--types", str(own), "-o", str(tmp_path / "back"), "--json"))
    assert {row["type"] for row in told["types"] if not row["left_out"]} == {"hops"}
    graph = load_graph(str(tmp_path / "back"))
    assert len(read_samples(tmp_path / "back", graph, "test")) == 1
    some = ("convert", str(sampled), "--graph", "nations", "--types", str(own), "-o", str(tmp_path / "some"))
    with pytest.raises(TaskError, match=r"own.toml has no type of the queries"):
        run(*some)
    own.write_text(own.read_text() + own.read_text().replace("hops", "2p"))
    assert "own.toml has no type of that name" in " ".join(run(*some).split())
    with pytest.raises(TaskError, match="has queries and no graph; give --graph"):
        run("convert", str(sampled), "-o", str(tmp_path / "no"))


@pytest.mark.parametrize("form", ["tsv", "nt"])
def test_graphs_are_written(form: str, tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text('a b\tr "<x>"\t"Ann"@en\n_:b0\tr\\\tä\n"Ann"@en\tr\\\ta b\n')
    run("convert", str(tmp_path / "g.tsv"), "--to", form, "-o", str(tmp_path / "to"))
    graphs = [load_graph(str(place)) for place in (tmp_path / "g.tsv", tmp_path / "to")]
    assert graphs[0].entity_names == graphs[1].entity_names
    assert (graphs[0].added["train"] == graphs[1].added["train"]).all()


def _training(queries: object, answers: object = {}) -> dict[str, object]:
    return {"train-queries.pkl": queries, "train-answers.pkl": answers}


HOP, FORMAT = ("e", ("r",)), "does not follow the published format"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"train.txt": "0\t0\t1\n0\t9\t1\n"}, r"train\.txt, line 2: expected three numbers"),
        ({"id2rel.pkl": {0: "r", 1: "r"}}, r"id2rel\.pkl: .*a name of its own"),
        ({"test-queries.pkl": {}}, r"test-easy-answers\.pkl cannot be read"),
        (_training({"e": 3}), rf"train-queries\.pkl, 'e': the file {FORMAT}"),
        (_training({HOP: {PATH}}), rf"'e', \('r',\)\): .*{FORMAT}"),
        (_training({HOP: {(7, (0,))}}), "has the number 7"),
        (_training({HOP: {(2**70, (0,))}}), "OverflowError"),
        (_training({HOP: {(0, (0,))}}, {(0, (0,)): 3}), "TypeError: 'int'"),
        (_training(b"})" + b"\x85" * 2000 + b"Ns."), "keys of tuples that are nested too deeply"),
        (
            {"x_test_queries.json": {"(p,(e))": {"(p,(0),(p,(0),(e,(1))))": {}}}},
            r"\(p,\(e\)\): .*not a query",
        ),
        ({"x_test_queries.json": "{\n  1"}, r"queries\.json cannot be read as a JSON object: .*line 2"),
        ({"test-qaa.json": {"r1(s1,f)": [[{"r1": 0}, {}, {}]]}}, "KeyError: 's1'"),
        ({"test-qaa.json": {"r1(s1,f)": [[{"r1": 0, "s1": 1}, {"f": ["x"]}, {}]]}}, FORMAT),
    ],
)
def test_wrong_files_leave_nothing_behind(files: dict[str, object], problem: str, tmp_path: Path) -> None:
    folder, output = _write(tmp_path / "wrong", files), tmp_path / "own"
    with pytest.raises(TaskError, match=problem):
        run("convert", str(folder), "-o", str(output))
    assert [path.name for path in tmp_path.iterdir()] == ["wrong"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="is not empty, and nothing is overwritten; give -o a new folder"):
        run("convert", "nations", "-o", str(_write(tmp_path / "there", {})))
    with pytest.raises(TaskError, match=r"unknown format 'n3'\. Known: nt, index, betae"):
        run("convert", "nations", "--to", "n3", "-o", str(tmp_path / "new"))
    (tmp_path / "tab.nt").write_text("<a\\u0009b> <r> <c> .\n")
    with pytest.raises(TaskError, match="a TSV file cannot hold the name"):
        run("convert", str(tmp_path / "tab.nt"), "-o", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()

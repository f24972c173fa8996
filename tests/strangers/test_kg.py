"""Knowledge graphs: names, terms, files, indexes, query languages, and searches that find nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from query_systems import TYPES, grounded, run, small

from peirce.errors import TaskError
from peirce.registry import Registry
from peirce_queries import QueryError, answer, answer_file, load_graph, pair_answers, read_query, to_ids
from peirce_queries.graphs.graph import Graph, from_names

XSD = "http://www.w3.org/2001/XMLSchema#"


def graph_of(folder: Path, lines: str, name: str = "graph.tsv") -> Graph:
    (folder / name).write_text(lines, encoding="utf-8")
    return load_graph(str(folder / name))


def found(query: str, graph: Graph) -> list[Any]:
    parsed = read_query(query, pairs=True)
    if parsed.pairs:
        pairs = pair_answers(*to_ids(parsed, graph), graph.index("train"))[0].tolist()
        return sorted([graph.entity_names[i] for i in pair] for pair in pairs)
    return sorted(graph.entity_names[i] for i in answer(parsed, graph, graph.index("train")))


@pytest.mark.report(
    "https://github.com/dice-group/dice-embeddings/issues/364",
    "identifiers of WordNet were read as numbers, and their leading zeros lost",
    "a name is text: a number that is no name of the graph is refused, and was the entity at that place",
)
@pytest.mark.parametrize(
    "query",
    [
        "5(1,f)",
        "0(00260881,f)",
        "(p,(5),(260881))",
        "SELECT ?f { <1> <5> ?f }",
        "MATCH ({id: '2'})-[:`5`]->(f) RETURN f",
    ],
)
def test_a_number_that_is_no_name_is_refused(query: str, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "00260881\t5\t00045888\n00045888\t5\t7\n")
    assert found("5(00260881,f)", graph) == ["00045888"]
    with pytest.raises(TaskError, match=r"unknown (entity|relation) '\d+'"):
        found(query, graph)
    (tmp_path / "asked.jsonl").write_text(json.dumps({"query": query}))
    with pytest.raises(TaskError, match=r"asked\.jsonl, line 1: unknown"):
        answer_file(graph, "train", tmp_path / "asked.jsonl", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.report(
    "https://github.com/pykeen/pykeen/issues/475",
    "a file of triples that an export had given a further row and column made other entities than it has",
    "a header is refused by file and line, and spaces around names are dropped",
)
@pytest.mark.parametrize("header", ["head\trelation\ttail", "Source\tTarget\tEdge type", "s\tp\to"])
def test_headers_and_spaces_of_triples(header: str, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "DB1 \tTREATS\tMESH 7\r\nDB2\t TREATS\tMESH 7 \r\n")
    assert graph.entity_names == ("DB1", "DB2", "MESH 7")
    with pytest.raises(TaskError, match=r"g\.tsv, line 1: .* is a header"):
        graph_of(tmp_path, f"{header}\nDB1\tTREATS\tMESH 7\n", "g.tsv")
    with pytest.raises(TaskError, match=r"g\.tsv, line 2: expected head, relation and tail"):
        graph_of(tmp_path, "DB1\tTREATS\tMESH 7\n1\tDB2\tTREATS\tMESH 7\n", "g.tsv")


@pytest.mark.report(
    "https://github.com/TimDettmers/ConvE/issues/63",
    "a data set is a folder of train.txt, valid.txt and test.txt, with tabs between the names of a triple",
    "such a folder is a graph, as one of .tsv files is",
)
def test_a_folder_of_txt_files_is_a_graph(tmp_path: Path) -> None:
    for split, line in (("train", "a\tr\tb"), ("valid", "b\tr\tc"), ("test", "c\tr\ta")):
        (tmp_path / f"{split}.txt").write_text(line)
    graph = load_graph(str(tmp_path))
    assert [len(graph.index(split)) for split in ("train", "valid", "test")] == [1, 2, 3]


@pytest.mark.report(
    "https://github.com/blazegraph/database/issues/168",
    "'abc' and 'abc'^^xsd:string were two terms, and a query for one did not find the other",
    "they are one term, as RDF 1.1 says, in graphs and in queries of every syntax; languages are alike in any case",
)
@pytest.mark.parametrize(
    ("query", "heads"),
    [
        ("SELECT ?s { ?s <name> 'abc' }", ["typed", "untyped"]),
        (f"PREFIX x: <{XSD}> SELECT ?s {{ ?s <name> '''abc'''^^x:string }}", ["typed", "untyped"]),
        (f'"name"(f,"\\"abc\\"^^<{XSD}string>")', ["typed", "untyped"]),
        ("MATCH (s)-[:name]->({v: '\"abc\"'}) RETURN s", ["typed", "untyped"]),
        ("SELECT ?s { ?s <name> 'abc'@En-US }", ["spoken"]),
        ("SELECT ?s { ?s <name> 5 }", ["five"]),
        ("""name(f,'"abc"@EN-us')""", ["spoken"]),
    ],
)
def test_one_literal_is_one_term(query: str, heads: list[str], tmp_path: Path) -> None:
    lines = (
        f'<untyped> <name> "abc" .\n<typed> <name> "abc"^^<{XSD}string> .\n<spoken> <name> "abc"@en-US .\n'
    )
    lines += f'<five> <name> "5"^^<{XSD}integer> .\n'
    assert found(query, graph_of(tmp_path, lines, "graph.nt")) == heads


@pytest.mark.report(
    "https://github.com/ad-freiburg/qlever/issues/492",
    "SELECT * was not read, which stands in most queries of the recommendation",
    "it asks for the variables of the pattern, one or two, and says which they are where there are more",
)
def test_select_of_all_variables(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "a\tr\tb\nb\tr\tc\n")
    assert found("SELECT * WHERE { <a> <r> ?x }", graph) == ["b"]
    assert found("SELECT * { ?x <r> ?y . _:any <r> ?x }", graph) == [["b", "c"]]
    assert found("SELECT DISTINCT * { ?x <r> ?y FILTER NOT EXISTS { ?y <r> ?x } }", graph) == [
        ["a", "b"],
        ["b", "c"],
    ]
    with pytest.raises(QueryError, match=r"\* is \?x, \?y, \?z here"):
        found("SELECT * { ?x <r> ?y . ?y <r> ?z }", graph)


@pytest.mark.report(
    "https://github.com/samyama-ai/samyama-graph/issues/639",
    "a variable that a pattern had bound was bound again, and what it said the first time was lost",
    "two entities of a node, a name for two edges or an edge and a node, and columns of other names are refused",
)
@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("MATCH (n {k: 'a'})-[:r]->(x) MATCH (n {k: 'b'})-[:r]->(x) RETURN x", "n is a and b"),
        ("MATCH (n {k: 'a'})-[e:r]->(x) MATCH (m)-[e:r]->(x) RETURN m", "e names two edges"),
        ("MATCH (a)-[e:r]->(b)-[e:r]->(c) RETURN a", "e names two edges"),
        ("MATCH (n {k: 'a'})-[n:r]->(x) RETURN x", "n names a node and an edge"),
        (
            "MATCH ({k: 'a'})-[:r]->(x) RETURN x UNION MATCH ({k: 'b'})-[:r]->(y) RETURN y",
            "rename them with AS",
        ),
    ],
)
def test_one_name_of_a_pattern_is_one_thing(query: str, problem: str, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "a\tr\tx\nb\tr\tx\nb\tr\tb\n")
    assert found("MATCH (n)-[:r]->(n) RETURN n", graph) == ["b"]
    assert found("MATCH (n {k: 'a'})-[:r]->(x), (n {k: 'a'})-[:r]->(y) RETURN x", graph) == ["x"]
    with pytest.raises(QueryError, match=problem):
        found(query, graph)


@pytest.mark.report(
    "https://github.com/jermp/fulgor/issues/42",
    "an index that was damaged ended the program with a message of the library, and nothing told what index it was",
    "each file of an index has a digest: damage and exchanged files are named, with the command that writes it anew",
)
def test_an_index_that_was_damaged_is_refused(tmp_path: Path) -> None:
    names = [(f"e{i % 17}", f"r{i % 3}", f"e{i * 7 % 13}") for i in range(60)]
    from_names("g", {"train": names[:40], "valid": names[40:], "test": []}).write(tmp_path)
    whole = {file: file.read_bytes() for file in tmp_path.iterdir()}
    first = tmp_path / "forward.other.npy"
    for file, content in whole.items():
        flipped = bytearray(content)
        flipped[-1 if file.suffix == ".npy" else len(content) // 2] ^= 1
        for damaged in (bytes(flipped), content[: len(content) // 2], whole[first] + b"\0"):
            file.write_bytes(damaged)
            with pytest.raises(
                TaskError, match=r"cannot be opened as an index: .*`peirce kg convert --to index`"
            ):
                load_graph(str(tmp_path))
        file.write_bytes(content)
    assert len(load_graph(str(tmp_path)).index("train")) == len({*names[:40]})


@pytest.mark.report(
    "https://github.com/MultimediaTechLab/YOLO/issues/45",
    "the greatest of no values ended the evaluation of a batch with an IndexError",
    "a variable without a likely value makes zeros, and the other queries of the batch have their answers",
)
@pytest.mark.parametrize("name", ["qto", "fit"])
def test_a_search_without_candidates_gives_zeros(name: str, registry: Registry) -> None:
    model = small(name, registry, threshold=0.999)
    for kind in ("2p", "3p", "pi", "up", "2in", "pni"):
        scores = run(model, *grounded(kind, rows=4))
        assert scores.shape == (4, 5), TYPES[kind]
        assert np.isfinite(scores.numpy()).all()
        assert (scores.exp() <= 1).all()
    assert run(model, *grounded("2p", rows=4)).exp().max() < 1e-20


@pytest.mark.report(
    "https://github.com/HKUST-KnowComp/FIT/blob/master/Neural_FIT.py",
    "the published matrix takes the known tails of a head to 1 on the average, up to 0.999",
    "`fit` has that matrix, and no longer the one of QTO",
)
def test_links_beside_known_ones_are_scaled_by_these(registry: Registry) -> None:
    import torch

    head = small("fit", registry, threshold=0.0).heads["entities"]
    likely = torch.tensor([[0.1, 0.3, 0.6], [0.2, 0.2, 0.6], [0.5, 0.25, 0.25]])
    rows, tails = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2])
    wanted = [[0.1 * 5, 0.999, 0.999], [0.2 / 0.6, 0.2 / 0.6, 0.999], [0.5, 0.25, 0.25]]
    torch.testing.assert_close(head.truths(likely, rows, tails), torch.tensor(wanted))

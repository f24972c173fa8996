from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from peirce.errors import TaskError
from peirce_queries.graphs.graph import SPLITS, Graph, from_names, load_graph


def _folder(path: Path, **files: str) -> Path:
    for split in SPLITS:
        (path / f"{split}.tsv").write_text(files.get(split, ""), encoding="utf-8")
    return path


def test_folder_of_tsv_and_gzip(tmp_path: Path) -> None:
    _folder(tmp_path, train="\ufeffb\tr\ta\nb\tr\ta\nc\tq\tb\n", test="c\tq\tb\nd é\tr\ta")
    (tmp_path / "valid.tsv").unlink()
    (tmp_path / "valid.tsv.gz").write_bytes(gzip.compress(b"a\tr\tb\r\n"))
    graph = load_graph(str(tmp_path))
    assert graph.entity_names == ("a", "b", "c", "d é")
    assert graph.relation_names == ("q", "r")
    assert graph.duplicates == {"train": 1, "valid": 0, "test": 1}
    assert graph.added["train"].tolist() == [[2, 0, 1], [1, 1, 0]]
    assert [len(graph.index(split)) for split in SPLITS] == [2, 3, 4]
    assert "2 train, 1 valid, 1 test" in graph.summary()
    assert "2 duplicates dropped; 1 entities not in train" in graph.summary()


@pytest.mark.parametrize("line", ["a\tr", "a\tr\tb\tc", "a\t\tb", "", "a r b"])
def test_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    _folder(tmp_path, train=f"a\tr\tb\n{line}\nb\tr\ta\n")
    with pytest.raises(TaskError, match=r"train\.tsv, line 2: expected head, relation and tail"):
        load_graph(str(tmp_path))


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    _folder(tmp_path, train="a\tr\tb\n")
    (tmp_path / "valid.tsv").write_bytes(b"a\tr\tb\na\t\xff\tb\n")
    with pytest.raises(TaskError, match=r"valid\.tsv, line 2: not UTF-8"):
        load_graph(str(tmp_path))
    (tmp_path / "valid.tsv").unlink()
    with pytest.raises(TaskError, match=r"no valid split: none of valid\.tsv, valid"):
        load_graph(str(tmp_path))
    for absent in (str(tmp_path / "nowhere"), "nowhere.tsv.gz"):
        with pytest.raises(TaskError, match="no folder or file"):
            load_graph(absent)
    _folder(tmp_path)
    with pytest.raises(TaskError, match="has no triples"):
        load_graph(str(tmp_path))
    with pytest.raises(TaskError, match=r"unknown graph 'umsl'. Did you mean 'umls'\?"):
        load_graph("umsl")


def test_bytes_round_trip_and_damage() -> None:
    graph = from_names("g", {"train": [("a", "r", "b")], "test": [("b", "q", "b")]})
    data = graph.to_bytes()
    assert data == graph.to_bytes()
    again = Graph.from_bytes(data, "g", graph.entity_names, graph.relation_names)
    assert all((again.added[split] == graph.added[split]).all() for split in SPLITS)
    for damaged in (b"", data[:-30], b"not a zip", data[:200] + b"?" * 20 + data[220:]):
        with pytest.raises(TaskError, match="'g'"):
            Graph.from_bytes(damaged, "g", graph.entity_names, graph.relation_names)
    with pytest.raises(TaskError, match="do not belong to this vocabulary"):
        Graph.from_bytes(data, "g", ("a",), graph.relation_names)


def test_a_number_is_a_name_like_others() -> None:
    graph = from_names("g", {"train": [("10", "r", "0"), ("7", "r", "x")]})
    assert [graph.entity(name) for name in ("0", "10", "7")] == [0, 1, 2]
    for name in ("1", "3", "4", "00", "1" * 5000):
        with pytest.raises(TaskError, match=f"unknown entity '{name[:30]}"):
            graph.entity(name)
    with pytest.raises(TaskError, match="unknown relation '0'"):
        graph.relation("0")


def test_a_literal_is_found_however_it_is_written(tmp_path: Path) -> None:
    string = "http://www.w3.org/2001/XMLSchema#string"
    lines = (f'<a> <name> "Ann"^^<{string}> .', '<b> <name> "Ann" .', '<b> <name> "Ann"@EN-gb .')
    (tmp_path / "g.nt").write_text("\n".join(lines))
    graph = load_graph(str(tmp_path / "g.nt"))
    assert graph.entity_names == ('"Ann"', '"Ann"@en-gb', "a", "b")
    assert [graph.entity(n) for n in (f'"Ann"^^<{string}>', '"\\u0041nn"', '"Ann"@En-GB')] == [0, 0, 1]
    for unknown in ('"Ann"@e', '"Ann', '"\\uD800"'):
        with pytest.raises(TaskError, match="unknown entity"):
            graph.entity(unknown)


def test_spaces_around_names_and_files_that_end_in_txt(tmp_path: Path) -> None:
    for split, text in (("train", "a \tr\tb b \n a\tr\tb b\r\n"), ("valid", "a\tr\tc\u00a0\n"), ("test", "")):
        (tmp_path / f"{split}.txt").write_text(text, encoding="utf-8")
    graph = load_graph(str(tmp_path))
    assert graph.entity_names == ("a", "b b", "c")
    assert graph.duplicates["train"] == 1
    assert load_graph(str(tmp_path / "valid.txt")).name == "valid"
    (tmp_path / "test.tsv").write_text("a\tr\tb")
    with pytest.raises(TaskError, match=r"has test\.tsv and test\.txt; keep one"):
        load_graph(str(tmp_path))


@pytest.mark.parametrize(
    ("header", "order"),
    [
        ("head\trelation\ttail", "remove it$"),
        ("Subject ID\tObject ID\tpredicate", "order head, relation, tail"),
        ("h\tt\tr", "order"),
        (":START_ID\t:TYPE\t:END_ID", "remove it$"),
    ],
)
def test_a_header_is_named(tmp_path: Path, header: str, order: str) -> None:
    _folder(tmp_path, train=f"\ufeff{header}\na\tr\tb\n")
    with pytest.raises(TaskError, match=rf"train\.tsv, line 1: .* is a header, .*{order}"):
        load_graph(str(tmp_path))
    _folder(tmp_path, train="x\tr\ty\nsource\tis a type of\ttarget\n")
    assert load_graph(str(tmp_path)).entities == 4


def test_pykeen_data_set_equals_the_files(shared: Path) -> None:
    ours, theirs = load_graph("umls"), load_graph(str(shared / "data" / "kg" / "umls"))
    assert ours.summary().endswith("135 entities, 46 relations, triples: 5,216 train, 652 valid, 661 test")

    def named(g: Graph) -> set[tuple[str, ...]]:
        triples = (triple for added in g.added.values() for triple in added.tolist())
        return {(g.entity_names[h], g.relation_names[r], g.entity_names[t]) for h, r, t in triples}

    assert named(ours) == named(theirs)

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kgqa_command import run
from kgqa_reference import brute_force, graphs, queries

from peirce.errors import TaskError
from peirce_queries.engine.files import answer_file
from peirce_queries.graphs.graph import SPLITS, Graph, Split
from peirce_queries.languages.language import Query


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A chain of likes in train, one more in valid, a relation and an entity of its own in test, and duplicates."""
    path = tmp_path / "small"
    path.mkdir()
    (path / "train.tsv").write_text("ann\tlikes\tbob\nbob\tlikes\tZoë Q\nann\tlikes\tbob\n", encoding="utf-8")
    (path / "valid.tsv").write_text("ann\tlikes\tcat\n", encoding="utf-8")
    (path / "test.tsv").write_text("dan\tknows\tann\nann\tlikes\tcat\n", encoding="utf-8")
    return path


def _asked(folder: Path, *lines: object, split: Split = "test", **options: str) -> list[dict[str, object]]:
    asked, answered = folder.parent / "in.jsonl", folder.parent / "out.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    asked.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    more = [part for name, value in options.items() for part in (f"--{name}", value)]
    where = ("--graph", str(folder), "--split", split, "--queries", str(asked), "-o", str(answered))
    run("answer", *where, *more)
    return [json.loads(line) for line in answered.read_text(encoding="utf-8").splitlines()]


def test_info_in_json(folder: Path) -> None:
    found = json.loads(run("info", str(folder), "--json"))
    assert found["schema"] == "peirce.kg.info/1"
    assert (found["name"], found["entities"], found["relations"]) == ("small", 5, 2)
    columns = ("split", "added", "cumulative", "duplicates", "new_entities", "new_relations")
    assert [tuple(split[column] for column in columns) for split in found["splits"]] == [
        ("train", 2, 2, 1, 3, 1), ("valid", 1, 3, 0, 1, 0), ("test", 1, 4, 1, 1, 1),
    ]  # fmt: skip
    assert found["by_relation"] == [
        {"relation": "likes", "added": {"train": 2, "valid": 1, "test": 0}, "heads": 2, "tails": 3},
        {"relation": "knows", "added": {"train": 0, "valid": 0, "test": 1}, "heads": 1, "tails": 1},
    ]
    assert found["memory"]["raw"] == 4 * 12


def test_both_forms_of_lines_come_back_with_answers(folder: Path) -> None:
    lines: list[dict[str, object]] = [
        {"formula": "(r1(s1,e1))&(r2(e1,f))", "grounding": {"r1": "likes", "r2": "likes", "s1": "ann"}},
        {"query": "likes(ann, f)", "id": 7},
        {"query": "(p,(likes),(ann))", "note": "\ud800 é"},
        {"query": "knows(f, ann)"},
        {"query": 'likes(e1, "Zoë Q") & likes(f, e1)'},
    ]
    found = _asked(folder, *lines[:3], "", "  ", *lines[3:])
    assert [{k: v for k, v in line.items() if k != "answers"} for line in found] == lines
    answers = [["Zoë Q"], ["bob", "cat"], ["bob", "cat"], ["dan"], ["ann"]]
    assert [line["answers"] for line in found] == answers
    assert [line["answers"] for line in _asked(folder, *lines, split="train")] == [
        ["Zoë Q"], ["bob"], ["bob"], [], ["ann"]
    ]  # fmt: skip
    assert [len(line["answers"]) for line in _asked(folder, *lines, split="valid")] == [1, 2, 2, 0, 1]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON: .*, column 2"),
        ("[1]", r"expected \{\"formula\""),
        ({"formula": "likes(ann,f)"}, "expected"),
        ({"formula": "r1(s1,f)", "grounding": {"r1": "likes", "s1": 3}}, "with names as strings"),
        ({"formula": "r1(s1,f)", "grounding": {"r1": "likes", "s1": "ann", "s2": "bob"}}, "not in it s2"),
        ({"query": "likes(ann,f)", "grounding": {}}, "not both"),
        ({"query": "likes(ann,f"}, "column 12"),
        ({"query": "likes(anne,f)"}, "unknown entity 'anne'. Did you mean 'ann'"),
    ],
)
def test_malformed_lines_are_named_and_nothing_is_written(folder: Path, line: object, problem: str) -> None:
    with pytest.raises(TaskError, match=rf"in\.jsonl, line 2: .*{problem}"):
        _asked(folder, {"query": "likes(ann,f)"}, line)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["in.jsonl", "small"]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(graph=graphs(), asked=st.lists(queries(), min_size=1, max_size=6), split=st.sampled_from(SPLITS))
def test_lines_of_shapes_keep_their_order(
    tmp_path: Path, graph: Graph, asked: list[Query], split: Split
) -> None:
    source, output = tmp_path / "q.jsonl", tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"query": str(query)}) + "\n" for query in asked * 2))
    totals = answer_file(graph, split, source, output)
    found = [json.loads(line)["answers"] for line in output.read_text().splitlines()]
    expected = [[graph.entity_names[i] for i in brute_force(query, graph, split)] for query in asked]
    assert found == expected * 2
    assert (totals.queries, totals.answers) == (len(found), sum(map(len, found)))

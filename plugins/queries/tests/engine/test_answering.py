"""Answering files of queries: where they come from and where the answers go."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from peirce.errors import TaskError
from peirce_queries.engine.files import Totals, answer_file
from peirce_queries.graphs.graph import Graph, from_names

LINE = '{"query": "parent(ann,f)"}\n'


@pytest.fixture
def graph() -> Graph:
    return from_names("family", {"train": [("ann", "parent", "bob")]})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_queries_come_through_a_pipe_of_the_shell_and_no_other(graph: Graph, tmp_path: Path) -> None:
    named, output = tmp_path / "pipe", tmp_path / "answers.jsonl"
    os.mkfifo(named)
    with pytest.raises(TaskError, match=f"^{named}: it is a pipe or a device"):
        answer_file(graph, "test", named, output)
    reader, writer = os.pipe()
    os.write(writer, 2 * LINE.encode())
    os.close(writer)
    assert answer_file(graph, "test", Path(f"/dev/fd/{reader}"), output) == Totals(2, 0, 2)
    os.close(reader)
    assert [json.loads(line)["answers"] for line in output.read_text().splitlines()] == [["bob"], ["bob"]]


def test_an_output_that_cannot_be_is_named_as_the_output(graph: Graph, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_text(LINE)
    for output in (tmp_path, tmp_path / "none" / "answers.jsonl", queries / "answers.jsonl"):
        with pytest.raises(TaskError, match=f"^{output} cannot be written: .*choose another -o"):
            answer_file(graph, "test", queries, output)
    for source in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(TaskError, match=f"^{source}: "):
            answer_file(graph, "test", source, tmp_path / "answers.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["queries.jsonl"]

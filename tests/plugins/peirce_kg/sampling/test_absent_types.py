from __future__ import annotations

from pathlib import Path

import pytest
from peirce.errors import TaskError
from peirce_kg.graphs.graph import load_graph
from peirce_kg.queries.types import load_types, select
from peirce_kg.sampling.sampler import sample
from peirce_kg.task import KgQa, KgQaOptions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A circle of six, in which no two entities have two relations: there is no 2m query."""
    names = "abcdef"
    triples = [
        f"{head}\t{'rs'[i % 2]}\t{tail}\n"
        for i, (head, tail) in enumerate(zip(names, names[1:] + "a", strict=True))
    ]
    (tmp_path / "train.tsv").write_text("".join(triples), encoding="utf-8")
    (tmp_path / "valid.tsv").write_text("a\tr\tc\n", encoding="utf-8")
    (tmp_path / "test.tsv").write_text("b\ts\td\n", encoding="utf-8")
    return tmp_path


def test_a_type_without_queries_is_refused_or_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = load_graph(str(folder))
    types = select(("1p", "2m", "2p"), load_types())
    with pytest.raises(TaskError, match=r"no 2m query .* absent=leave_out"):
        sample(types, graph, "train", 3, 0)
    assert [each.type.name for each in sample(types, graph, "train", 3, 0, leave_out=True)] == ["1p", "2p"]
    with pytest.raises(TaskError, match="no 2m query"):
        sample(types[1:2], graph, "train", 3, 0, leave_out=True)
    options = KgQaOptions(
        graph=str(folder), types=("1p", "2m"), train_queries=3, eval_queries=1, absent="leave_out"
    )
    data = KgQa(options).prepare()
    assert [[each.type.name for each in data.sets[split]] for split in ("train", "test")] == [["1p"], ["1p"]]
    assert capsys.readouterr().err.count("left out, as the graph has no") == 3

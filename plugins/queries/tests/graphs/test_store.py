"""An index in files: what is opened is what was written, and damage is named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kgqa_command import run
from kgqa_reference import graphs

from peirce.errors import TaskError
from peirce_queries.graphs.graph import SPLITS, Graph, load_graph
from peirce_queries.graphs.index import sort_rows
from peirce_queries.sampling.files import fingerprint
from peirce_queries.sampling.lookup import Lookup


@given(graph=graphs())
def test_an_opened_index_is_the_graph(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("index")
    graph.write(folder)
    found = load_graph(str(folder))
    for name in ("name", "entity_names", "relation_names", "duplicates"):
        assert getattr(found, name) == getattr(graph, name)
    assert fingerprint(found) == fingerprint(graph)
    every = [axis.ravel() for axis in np.indices((graph.relations, graph.entities, graph.entities))]
    for split in SPLITS:
        np.testing.assert_array_equal(found.added[split], graph.added[split])
        assert found.index(split).contains(*every).tolist() == graph.index(split).contains(*every).tolist()


def test_a_process_that_gets_its_lookup_opens_the_files(tmp_path: Path) -> None:
    graph = load_graph("umls")
    graph.write(tmp_path)
    opened, whole = Lookup.of(load_graph(str(tmp_path))), Lookup.of(graph)
    sent = pickle.dumps(opened)
    assert len(sent) < 1000 < len(pickle.dumps(whole))
    for lookup in (pickle.loads(sent), pickle.loads(pickle.dumps(whole))):
        np.testing.assert_array_equal(lookup.triples, whole.triples)
        np.testing.assert_array_equal(lookup.levels, whole.levels)


def test_damage_is_named_and_the_command_to_write_it_again(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    run("convert", "umls", "--to", "index", "-o", str(folder))
    about = json.loads((folder / "index.json").read_text())
    files = sorted(folder.glob("*.npy"))
    assert {file.stem for file in files} == {*about["arrays"]}
    whole = files[0].read_bytes()
    for damaged in (whole[:-9], whole[:20], b"", b"0" * 200):
        files[0].write_bytes(damaged)
        with pytest.raises(TaskError, match=r"cannot be opened as an index: .*`peirce kg convert"):
            load_graph(str(folder))
    files[0].unlink()
    with pytest.raises(TaskError, match=files[0].name):
        load_graph(str(folder))
    files[0].write_bytes(whole)
    for key in ("schema", "arrays", "entity_names", "duplicates"):
        (folder / "index.json").write_text(json.dumps({k: v for k, v in about.items() if k != key}))
        with pytest.raises(TaskError, match=f"lacks '{key}'"):
            load_graph(str(folder))
    about["entity_names"].pop()
    (folder / "index.json").write_text(json.dumps(about))
    with pytest.raises(TaskError, match="names 134 entities where there are 135"):
        load_graph(str(folder))


@given(st.data())
def test_rows_sort_as_numbers_or_by_columns(data: st.DataObject) -> None:
    size, rows = data.draw(st.sampled_from([3, 1 << 32])), data.draw(st.integers(0, 30))
    columns = [
        np.array(data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)), np.int32)
        for _ in "abc"
    ]
    found, given = (np.stack(each, 1).tolist() for each in (sort_rows(columns, [size] * 3), columns))
    assert found == sorted(given)

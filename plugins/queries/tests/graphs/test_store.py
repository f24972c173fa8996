"""An index in files: what is opened is what was written, and damage is named."""

from __future__ import annotations

import json
import os
import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kgqa_command import run
from kgqa_reference import graphs

from peirce.errors import TaskError
from peirce.files import digest_of
from peirce_queries.graphs import store
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


def _signed(folder: Path, about: dict[str, Any]) -> None:
    """Write a description with the right digest of itself."""
    content = {key: value for key, value in about.items() if key != "digest"}
    (folder / "index.json").write_text(json.dumps({**content, "digest": digest_of(content)}))


def test_damage_is_named_and_the_command_to_write_it_again(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    run("convert", "umls", "--to", "index", "-o", str(folder))
    about = json.loads((folder / "index.json").read_text())
    files = sorted(folder.glob("*.npy"))
    assert {file.stem for file in files} == {*about["arrays"]} == {*about["sha256"]}
    whole, low, other = (folder / f"{name}.npy" for name in ("forward.other", "forward.low", "backward.low"))
    bytes_ = whole.read_bytes()
    flipped = bytes_[:500] + bytes([bytes_[500] ^ 1]) + bytes_[501:]
    for damaged in (flipped, bytes_[:-9], bytes_[:20], b"", b"0" * 200, bytes_ + b"0"):
        whole.write_bytes(damaged)
        with pytest.raises(
            TaskError, match=r"cannot be opened as an index: forward\.other\.npy .*`peirce kg convert"
        ):
            load_graph(str(folder))
        if damaged is not flipped:
            with pytest.raises(TaskError, match="cannot be opened as an index: "):
                Graph.open_folder(folder, digests=False)
    whole.unlink()
    with pytest.raises(TaskError, match=whole.name):
        load_graph(str(folder))
    os.mkfifo(whole)
    with pytest.raises(TaskError, match=r"forward\.other\.npy: it is a pipe or a device"):
        load_graph(str(folder))
    whole.unlink()
    whole.write_bytes(bytes_)
    for one, two in ((low, other), (other, low)):
        one.rename(folder / "swap")
        two.rename(one)
        (folder / "swap").rename(two)
        with (
            pytest.raises(TaskError, match=r"low\.npy is not what was written")
            if one is low
            else nullcontext()
        ):
            load_graph(str(folder))
    for key in ("schema", "arrays", "entity_names", "duplicates", "sha256"):
        _signed(folder, {k: v for k, v in about.items() if k != key})
        with pytest.raises(TaskError, match=f"lacks '{key}'"):
            load_graph(str(folder))
    (folder / "index.json").write_text(json.dumps(about).replace("acquired", "bequired"))
    with pytest.raises(TaskError, match=r"index\.json is not what was written"):
        load_graph(str(folder))
    for name in ("../index/forward.low", str(low.with_suffix(""))):
        _signed(folder, about | {"arrays": {**about["arrays"], name: [0]}})
        with pytest.raises(TaskError, match="lies outside it"):
            load_graph(str(folder))
    _signed(folder, about | {"entity_names": about["entity_names"][1:]})
    with pytest.raises(TaskError, match="names 134 entities where there are 135"):
        load_graph(str(folder))


def test_an_index_of_an_older_version_and_one_that_is_cut_while_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = load_graph("umls")
    graph.write(tmp_path)
    opened = load_graph(str(tmp_path))
    about = json.loads((tmp_path / "index.json").read_text())
    older = {k: v for k, v in about.items() if k not in ("sha256", "digest")} | {
        "schema": "peirce.kg.index/1"
    }
    (tmp_path / "index.json").write_text(json.dumps(older))
    with pytest.raises(TaskError, match=r"has no digests.*--no-digests` opens it.*`peirce kg convert"):
        load_graph(str(tmp_path))
    monkeypatch.setenv("PEIRCE_NO_DIGESTS", "1")
    assert fingerprint(load_graph(str(tmp_path))) == fingerprint(graph)
    monkeypatch.setattr(store, "COPIED", 0)
    assert fingerprint(load_graph(str(tmp_path))) == fingerprint(graph)
    for file in tmp_path.glob("*.npy"):
        os.truncate(file, 130)
    assert fingerprint(opened) == fingerprint(graph)


@given(st.data())
def test_rows_sort_as_numbers_or_by_columns(data: st.DataObject) -> None:
    size, rows = data.draw(st.sampled_from([3, 1 << 32])), data.draw(st.integers(0, 30))
    columns = [
        np.array(data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)), np.int32)
        for _ in "abc"
    ]
    found, given = (np.stack(each, 1).tolist() for each in (sort_rows(columns, [size] * 3), columns))
    assert found == sorted(given)

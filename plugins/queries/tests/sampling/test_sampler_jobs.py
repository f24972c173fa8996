"""Sampling to files: the same bytes from any number of workers, on Ray, and after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from kgqa_command import run as run_command
from kgqa_reference import brute_force

from peirce.errors import TaskError
from peirce_queries.graphs.graph import SPLITS, Graph, Split, from_names, load_graph
from peirce_queries.languages.language import parse
from peirce_queries.languages.types import QueryType, load_types, select
from peirce_queries.sampling.files import Description, read_samples
from peirce_queries.sampling.jobs import describe, quantities, run
from peirce_queries.sampling.sampler import BLOCK, QuerySet, sample

NAMES = ("2i", "pi", "2in", "1p")
COUNT = 2 * BLOCK + 100
TYPES = select(NAMES, load_types())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of 300 entities with awkward names, of which one-hop queries run out."""
    place = tmp_path_factory.mktemp("graph") / "awkward"
    place.mkdir()
    random = np.random.default_rng(0)
    names = [f"an ({i})" if i % 2 else f"e{i}" for i in range(300)]
    for split, count in (("train", 6000), ("valid", 600), ("test", 600)):
        triples = random.integers((300, 10, 300), size=(count, 3))
        lines = [f"{names[h]}\tis, or\\{r}\t{names[t]}\n" for h, r, t in triples]
        (place / f"{split}.tsv").write_text("".join(lines))
    return place


@pytest.fixture(scope="module")
def graph(folder: Path) -> Graph:
    return load_graph(str(folder))


def _sampled(to: Path, graph: Graph, engine: str = "local", workers: int | None = None) -> dict[str, bytes]:
    wanted = describe(TYPES, dict.fromkeys(NAMES, COUNT), graph, "train", 7, 100)
    run(to, wanted, graph, engine, workers)
    return _files(to / "train")


def _command(folder: Path, to: Path) -> list[str]:
    options = ["--types", ",".join(NAMES), "--count", str(COUNT), "--seed", "7", "-o", str(to)]
    return [sys.executable, "-P", "-m", "peirce", "kg", "sample", "--graph", str(folder), *options]


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def alone(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of one process."""
    return _sampled(tmp_path_factory.mktemp("alone"), graph)


def test_files_hold_what_is_sampled(graph: Graph, alone: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for name, content in alone.items():
        (tmp_path / "train" / name).write_bytes(content)
    assert sorted(alone) == ["1p.parquet", "2i.parquet", "2in.parquet", "pi.parquet", "sample.json"]
    read = read_samples(tmp_path, graph, "train")
    for queries, sampled in zip(read, sample(TYPES, graph, "train", COUNT, 7), strict=True):
        assert (queries.type, queries.split, len(queries)) == (sampled.type, "train", len(sampled))
        assert _ids(queries) == _ids(sampled)
        table = pq.read_table(tmp_path / "train" / f"{queries.type.name}.parquet")
        slots = (*queries.template.relations, *queries.template.constants)
        assert table.column_names == ["query", *slots, *(f"answers_{split}" for split in SPLITS)]
        for row in (0, len(queries) - 1):
            assert parse(table["query"][row].as_py()) == queries.query(row, graph)
            assert table["query"][row].as_py() == str(queries.query(row, graph))
    assert brute_force(read[0].query(0, graph), graph, "test") == read[0].answers["test"][0].tolist()
    assert len(read[0]) == COUNT > BLOCK
    assert 0 < len(read[3]) < COUNT


def _ids(queries: QuerySet) -> list[object]:
    answers = [each for found in queries.answers.values() for each in (found.offsets, found.entities)]
    ids = (queries.groundings.relations, queries.groundings.constants, *answers)
    return [array.tolist() for array in ids]


def test_two_processes_give_the_same_bytes(graph: Graph, alone: dict[str, bytes], tmp_path: Path) -> None:
    assert _sampled(tmp_path, graph, workers=2) == alone


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed")
def test_a_ray_cluster_gives_the_same_bytes(folder: Path, alone: dict[str, bytes], tmp_path: Path) -> None:
    workers = str(min(2, os.cpu_count() or 1))
    quiet = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    # in a process of its own, which starts a cluster and ends it
    command = [*_command(folder, tmp_path), "--engine", "ray", "--workers", workers]
    done = subprocess.run(command, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Started a local Ray instance" in done.stderr
    assert _files(tmp_path / "train") == alone


def test_a_killed_run_ends_with_its_workers_and_goes_on_to_the_same_bytes(
    folder: Path, graph: Graph, alone: dict[str, bytes], tmp_path: Path
) -> None:
    command = [*_command(folder, tmp_path), "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    blocks = tmp_path / "train" / ".blocks"
    while process.poll() is None and not (blocks.is_dir() and any(blocks.glob("*.block"))):
        time.sleep(0.001)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert len(workers) >= 2
    assert psutil.wait_procs(workers, timeout=600)[1] == []
    there = {path.name: path.read_bytes() for path in (tmp_path / "train").iterdir() if path.is_file()}
    assert len(there) < len(alone)
    assert there.items() <= alone.items()
    with pytest.raises(TaskError, match="run `peirce kg sample` again"):
        read_samples(tmp_path, graph, "train")
    kept = {path.name: path.stat().st_mtime_ns for path in blocks.glob("[!.]*.block")}
    assert kept
    seen: list[str] = []
    wanted = describe(TYPES, dict.fromkeys(NAMES, COUNT), graph, "train", 7, 100)
    run(tmp_path, wanted, graph, watch=lambda name, count, seconds: seen.append(name))
    assert _files(tmp_path / "train") == alone
    assert set(seen) == {name for name in NAMES if f"{name}.parquet" not in there}


def test_a_type_that_the_graph_lacks_has_an_empty_file(graph: Graph, tmp_path: Path) -> None:
    never = QueryType("never/ever", parse("r1(s1,f) & !r1(s1,f)"), True)
    wanted = describe([never, TYPES[0]], {never.name: 5, "2i": 5}, graph, "train", 0, 100)
    empty, full = run(tmp_path, wanted, graph)
    assert (len(empty.answers), empty.histogram(), len(full.answers)) == (0, {}, 5)
    assert (tmp_path / "train" / "never%2Fever.parquet").is_file()
    assert [queries.type.name for queries in read_samples(tmp_path, graph, "train")] == ["2i"]
    run(tmp_path, describe([never], {never.name: 5}, graph, "valid", 0, 100), graph)
    with pytest.raises(TaskError, match="hold no queries"):
        read_samples(tmp_path, graph, "valid")


def test_other_queries_are_not_mixed_in(graph: Graph, tmp_path: Path) -> None:
    def asked(seed: int = 0, count: int = 5) -> list[int]:
        wanted = describe(TYPES[:1], {"2i": count}, graph, "train", seed, 100)
        return [len(one.answers) for one in run(tmp_path, wanted, graph)]

    assert asked() == asked() == [5]
    with pytest.raises(TaskError, match=r"sampled with other seed and types.*--overwrite"):
        asked(1, 6)
    mine = tmp_path / "train" / "mine.txt"
    mine.write_text("mine")
    wanted = describe(TYPES[1:2], {"pi": 6}, graph, "train", 0, 100)
    run(tmp_path, wanted, graph, overwrite=True)  # removes queries alone
    assert sorted(_files(tmp_path / "train")) == ["mine.txt", "pi.parquet", "sample.json"]
    assert [len(queries) for queries in read_samples(tmp_path, graph, "train")] == [6]
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "mine.txt").write_text("mine")
    with pytest.raises(TaskError, match="other files than sampled queries"):
        run(tmp_path, describe(TYPES[:1], {"2i": 5}, graph, "test", 0, 100), graph)


@pytest.mark.thorough
def test_a_folder_is_sampled_into_by_one_process(folder: Path, graph: Graph, tmp_path: Path) -> None:
    wanted = describe(TYPES[:1], {"2i": 5}, graph, "train", 0, 100)

    def meanwhile(name: str, count: int, seconds: float) -> None:
        second = subprocess.run(_command(folder, tmp_path), capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert f" writes to {tmp_path / 'train'}; wait until it has ended" in second.stderr

    assert [len(one.answers) for one in run(tmp_path, wanted, graph, watch=meanwhile)] == [5]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["2i.parquet", "sample.json", "train"]


def test_a_file_says_whose_it_is_and_is_held_to_that(graph: Graph, folder: Path, tmp_path: Path) -> None:
    other = from_names("other", {"train": [("a", "r", "b")]})
    kept = {}
    for name, seed, split in (("mine", 0, "train"), ("seed", 1, "train"), ("split", 0, "valid")):
        run(tmp_path / name, describe(TYPES[:2], {"2i": 5, "pi": 5}, graph, split, seed, 100), graph)
        kept[name] = (tmp_path / name / split / "2i.parquet").read_bytes()
    place = tmp_path / "mine" / "train"
    kept["type"] = (place / "pi.parquet").read_bytes()
    for whose in ("seed", "split", "type"):
        (place / "2i.parquet").write_bytes(kept[whose])
        with pytest.raises(TaskError, match=rf"2i\.parquet holds queries of another {whose} "):
            read_samples(tmp_path / "mine", graph, "train")
    (place / "2i.parquet").write_bytes(kept["mine"])
    table = pq.read_table(place / "2i.parquet")
    about = dict(table.schema.metadata)
    pq.write_table(table.replace_schema_metadata({**about, b"graph": b"0"}), place / "2i.parquet")
    with pytest.raises(TaskError, match="another graph"):
        read_samples(tmp_path / "mine", graph, "train")
    for column, values, problem in (
        ("r1", [0] * 4 + [99], "ids of relations that are not 0 to 9"),
        ("s1", [0] * 4 + [-1], "ids of entities that are not 0 to 299"),
        ("s1", [0] * 4 + [None], "a row lacks a number"),
        ("answers_test", [[300]] * 5, "ids of entities"),
        ("answers_test", [[None]] * 5, "a row lacks a number"),
        ("r1", ["x"] * 5, "lacks a column of numbers"),
    ):
        pq.write_table(table.drop_columns(column).append_column(column, [values]), place / "2i.parquet")
        with pytest.raises(TaskError, match=problem):
            read_samples(tmp_path / "mine", graph, "train")
    old = {key: about[key] for key in (b"type", b"formula")}  # as peirce 0.2 wrote it
    pq.write_table(table.replace_schema_metadata(old), place / "2i.parquet")
    assert len(read_samples(tmp_path / "mine", graph, "train")) == 2
    with pytest.raises(TaskError, match="sampled from another graph than 'other'"):
        read_samples(tmp_path / "mine", other, "train")
    place.rename(tmp_path / "mine" / "test")
    with pytest.raises(TaskError, match="test holds train queries"):
        read_samples(tmp_path / "mine", graph, "test")


def test_flipped_bits_are_noticed_or_change_no_query(graph: Graph, tmp_path: Path) -> None:
    run(tmp_path, describe(TYPES[:1], {"2i": 5}, graph, "train", 0, 100), graph)
    path = tmp_path / "train" / "2i.parquet"
    content, noticed = path.read_bytes(), 0

    def read() -> list[object]:
        (queries,) = read_samples(tmp_path, graph, "train")
        return _ids(queries)

    whole, places = read(), range(4, len(content) // 2, 25)
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert read() == whole
        except TaskError:
            noticed += 1
    assert noticed > len(places) // 2


def test_what_cannot_be_read_is_named(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="`peirce kg sample"):
        read_samples(tmp_path, graph, "train")
    with pytest.raises(TaskError, match="unknown engine 'dask'"):
        run(tmp_path, describe(TYPES[:1], {"2i": 5}, graph, "train", 0, 100), graph, "dask")


def test_quantities_are_those_of_table_9(graph: Graph) -> None:
    def counted(graph: Graph, split: Split = "train") -> list[int]:
        return [quantities(TYPES, graph, split)[name] for name in ("1p", "2i")]

    for name, rows in (("FB15k-237", [149_689, 299_378, 5_000]), ("NELL-995", [107_982, 215_964, 4_000])):
        known = Graph(name, graph.entity_names, graph.relation_names, graph.indexes, graph.duplicates)
        assert [*counted(known), counted(known, "test")[0]] == rows
    single = len({(h, r) for h, r, _ in graph.added["train"].tolist()})
    assert counted(graph) == [single, 2 * single]
    assert counted(graph, "valid") == [min(single, 5_000)] * 2


def test_the_command(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[type]]\nname = "both"\nformula = "r1(s1,f) & r2(s1,f)"\nseen = true\n')
    to = tmp_path / "queries"
    options = ["--graph", str(folder), "--split", "all", "--count", "6", "-o", str(to), "--workers", "1"]
    done = run_command("sample", *options, "--types", "both", "--types-file", str(own), "--json")
    found = [(r["split"], r["type"], r["asked"], r["queries"]) for r in json.loads(done)["types"]]
    assert found == [(split, "both", 6, 6) for split in SPLITS]
    shown = run_command("sample", *options, "--types", "2i, pi", "--overwrite")
    assert f"train queries of awkward in {to / 'train'}" in shown
    assert sorted(_files(to / "test")) == ["2i.parquet", "pi.parquet", "sample.json"]
    run_command("sample", *options, "--types", "2i,4i", "--hard", "--overwrite")
    assert Description.read(to / "test").hard
    with pytest.raises(TaskError, match="other types or counts and hard"):
        run_command("sample", *options, "--types", "2i")
    with pytest.raises(TaskError, match="unknown split 'tests'"):
        run_command("sample", "--graph", str(folder), "--split", "tests", "-o", str(to))

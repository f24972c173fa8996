"""Every reader with files that hang, fill memory or nest without end: one sentence each, and little memory."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_specs import TRANSFORMER

import peirce
from peirce.compose import load
from peirce.errors import LONGEST, PeirceError
from peirce.registry import RegistryFile, load_spec
from peirce_export.arrays import read_arrays
from peirce_queries.engine.files import answer_file
from peirce_queries.graphs.graph import from_names, load_graph
from peirce_queries.languages.types import load_types
from peirce_queries.sampling.files import Description
from peirce_text.reading import read_rows as table_rows
from peirce_text.squad.questions import read_file
from peirce_text.text.tokenizer import Tokenizer
from peirce_training.experiments.results import read_rows
from peirce_training.records import read_training

MEGABYTES = 200
SAVED = ("spec.toml", "provenance.json", "weights.safetensors")
SHAPES: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "sparse": lambda path: (path.touch(), os.truncate(path, 3 * 10**9)),
    "deep": lambda path: path.write_text("[" * 10**5),
}


def extended(path: Path) -> Any:
    other = path.with_name("other.toml")
    other.write_text(f'format = 1\nextend = "{path}"\n')
    return load_spec(str(other))


def queries(path: Path) -> Any:
    graph = from_names("family", {"train": [("ann", "parent", "bob")]})
    return answer_file(graph, "test", path, path.with_name("a.jsonl"))


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "spec": ("spec.toml", lambda path: load_spec(str(path))),
    "extended": ("spec.toml", extended),
    "registry": ("registry.toml", RegistryFile.read),
    "types": ("types.toml", load_types),
    "results": ("results.csv", lambda path: read_rows(path, Description)),
    "training": ("training.json", lambda path: read_training(path.parent)),
    "sample": ("sample.json", lambda path: Description.read(path.parent)),
    "tokenizer": ("tokenizer.json", Tokenizer.load),
    "squad": ("train.json", read_file),
    "rows": ("rows.jsonl", lambda path: list(table_rows(path))),
    "columns": ("rows.csv", lambda path: list(table_rows(path))),
    "glue": ("train.tsv", lambda path: list(table_rows(path))),
    "triples": ("graph.nt", lambda path: load_graph(str(path))),
    "queries": ("q.jsonl", queries),
    "arrays": ("a.npz", read_arrays),
    "onnx": ("a.onnx", peirce.Session),
    "pt2": ("a.pt2", peirce.Session),
    **{name: (name, lambda path: load(path.parent)) for name in SAVED},
}
FLAT = {"results", "columns", "glue"}
"""What nothing is nested in."""


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it needs devices, and kilobytes of memory")
@pytest.mark.parametrize("shape", SHAPES)
def test_no_file_hangs_a_reader_or_takes_its_memory(shape: str, tmp_path: Path) -> None:
    peirce.build(TRANSFORMER).save(tmp_path / "saved")
    for name, (file, read) in READERS.items():
        place = tmp_path / name
        shutil.copytree(tmp_path / "saved", place) if name == file else place.mkdir()
        (place / file).unlink(missing_ok=True)
        SHAPES[shape](place / file)
        if shape == "deep" and name in FLAT:
            continue
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(PeirceError) as refused:
            read(place / file)
        said = str(refused.value)
        assert "\n" not in said.partition("\n  extended at ")[0], name
        assert len(said) <= LONGEST, name
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 1000 * MEGABYTES, name

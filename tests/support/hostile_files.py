"""Files that hang, fill memory or nest without end, and what reads them; run as a program, within little memory.

It writes a JSON line for each case: its name, the class and text of the error, seconds, and megabytes of memory that it
took beyond what was taken before.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import shutil
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import peirce
import torch
from peirce.compose import load
from peirce.errors import PeirceError
from peirce.experiments.results import read_rows
from peirce.registry import Registry, RegistryFile, load_spec
from peirce.training.records import read_training
from peirce_export.arrays import read_arrays
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.engine.files import answer_file
from peirce_kg.graphs.graph import Graph, from_names, load_graph
from peirce_kg.queries.types import load_types
from peirce_kg.sampling.files import Description
from peirce_text.reading import read_rows as table_rows
from peirce_text.squad.questions import read_file
from peirce_text.text.tokenizer import Tokenizer

Case = tuple[str, Callable[[], Any]]
MEMORY = 1_500_000_000
"""Bytes of addresses beyond those of the imports: far below what any of the files claims."""
SHAPES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "sparse": lambda path: sparse(path, 3 * 10**9),
    "deep": lambda path: path.write_text("[" * 10**5),
}


def sparse(path: Path, size: int, first: bytes = b"") -> None:
    """A file of zeros that takes no disk, after some first bytes."""
    path.write_bytes(first)
    os.truncate(path, size)


def zipped(header: dict[str, Any], zeros: int) -> bytes:
    """A .npz file with one array `train` of zeros, and what its header says of it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("train.npy", "w") as entry:
        np.lib.format.write_array_header_1_0(entry, header)
        for _ in range(zeros // 10**7):
            entry.write(bytes(10**7))
    return made.getvalue()


def cases(folder: Path, saved: Path) -> Iterator[Case]:
    """Every reader with every shape of file, then what each format alone has."""
    graph = from_names("family", {"train": [("ann", "parent", "bob")]})
    for shape, make in SHAPES.items():
        for name, use in _readers(saved, graph):
            place = folder / f"{shape}-{name}"
            place.mkdir()
            yield f"{name} {shape}", _made(use, make, place)
    yield from _formats(folder, saved)
    yield "inputs beyond memory", lambda: _short_of_memory(saved)


def _short_of_memory(saved: Path) -> None:
    """A batch that its signature lets pass, where little memory is left."""
    model, before = load(saved), resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 60_000_000, before[1]))
    try:
        model(input_ids=torch.zeros((20, 512), dtype=torch.int64))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _made(
    use: Callable[[Callable[[Path], None], Path], Any], make: Callable[[Path], None], place: Path
) -> Any:
    return lambda: use(make, place)


def _readers(saved: Path, graph: Graph) -> Iterator[tuple[str, Any]]:
    def at(name: str, read: Callable[[Path], Any]) -> Any:
        def use(make: Callable[[Path], None], place: Path) -> Any:
            make(place / name)
            return read(place / name)

        return use

    def extended(path: Path) -> Any:
        other = path.with_name("other.toml")
        other.write_text(f'format = 1\nextend = "{path}"\n')
        return load_spec(str(other))

    def inside(name: str) -> Any:
        def use(make: Callable[[Path], None], place: Path) -> Any:
            model = place / "model"
            shutil.copytree(saved, model)
            (model / name).unlink()
            make(model / name)
            return load(model)

        return use

    yield "spec", at("spec.toml", lambda path: load_spec(str(path)))
    yield "extended", at("spec.toml", extended)
    yield "registry", at("registry.toml", RegistryFile.read)
    yield "types", at("types.toml", load_types)
    yield "results", at("results.csv", lambda path: read_rows(path, Description))
    yield "training", at("training.json", lambda path: read_training(path.parent))
    yield "sample", at("sample.json", lambda path: Description.read(path.parent))
    yield "tokenizer", at("tokenizer.json", Tokenizer.load)
    yield "squad", at("train.json", read_file)
    yield "rows", at("rows.jsonl", lambda path: list(table_rows(path)))
    yield "columns", at("rows.csv", lambda path: list(table_rows(path)))
    yield "glue", at("train.tsv", lambda path: list(table_rows(path)))
    yield "triples", at("graph.nt", lambda path: load_graph(str(path)))
    yield "queries", at("q.jsonl", lambda path: answer_file(graph, "test", path, path.with_name("a.jsonl")))
    yield "arrays", at("a.npz", read_arrays)
    yield "onnx", at("a.onnx", peirce.Session)
    for name in ("spec.toml", "provenance.json", "weights.safetensors"):
        yield f"saved {name}", inside(name)


def _formats(folder: Path, saved: Path) -> Iterator[Case]:
    def bomb() -> Any:
        place = folder / "bomb"
        place.mkdir()
        for name in ("train", "valid", "test"):
            with gzip.open(place / f"{name}.tsv.gz", "wb") as file:
                for _ in range(10 if name == "train" else 0):
                    file.write(b"a\tb\t" + b"c" * 9_999_994 + b"\n")
        return load_graph(str(place))

    def arrays(header: dict[str, Any]) -> Any:
        path = folder / "huge.npz"
        path.write_bytes(zipped(header, 0))
        return read_arrays(path)

    def weights(first: bytes, size: int) -> Any:
        place = folder / f"weights-{size}-{len(first)}"
        shutil.copytree(saved, place)
        sparse(place / "weights.safetensors", size, first)
        return load(place)

    flat = {"descr": "|u1", "fortran_order": False, "shape": (10**8,)}
    huge = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**3)}
    whole = (saved / "weights.safetensors").read_bytes()
    known = {"format": 1, "graph": "g", "entities": ["a"], "relations": ["r"]}
    yield "gzip bomb of a graph", bomb
    yield "npz of petabytes", lambda: arrays(huge)
    yield "triples bomb", lambda: Graph.from_bytes(zipped(flat, 10**8), "g", ["a"], ["r"])
    yield "vocabulary deep", lambda: Vocabulary.from_bytes(b"[" * 10**6)
    yield (
        "vocabulary of other types",
        lambda: Vocabulary.from_bytes(json.dumps({**known, "syntax": [], "symbols": 1}).encode()),
    )
    yield "weights of 100 GB", lambda: weights(whole, 10**11)
    yield "weights with a header of terabytes", lambda: weights(struct.pack("<Q", 10**12), 2 * 10**12)


def main(folder: Path, saved: Path) -> None:
    """Run every case."""
    registry = Registry.discover()
    load(saved, registry=registry)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY,) * 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (folder / "results.jsonl").open("w", encoding="utf-8", buffering=1) as results:
        for name, use in cases(folder, saved):
            start, found = time.monotonic(), ["", "it was read"]
            try:
                use()
            except Exception as error:
                kind = "PeirceError" if isinstance(error, PeirceError) else type(error).__name__
                found = [kind, str(error)]
            now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            seconds = time.monotonic() - start
            print(json.dumps([name, *found, round(seconds, 2), (now - peak) // 1024]), file=results)
            peak = max(peak, now)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

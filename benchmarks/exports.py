"""Every ready spec exported in every way: what passes its verification, what is refused and why, seconds and sizes.

The rows go to `results/exports.csv` one by one. A run goes on where the last one ended; `--again` makes rows anew.
Widths are small (`SMALL`), since 42 specs at their own take hours; `--full` takes a spec at its own width and depth.
Seconds are CPU time of all threads, which other processes disturb less. Engines are built by TensorRT for RTX, for one
compute capability and the default profiles, and are not run.

python benchmarks/exports.py [--spec NAME ...] [--way NAME ...] [--full] [--again]
"""

from __future__ import annotations

import argparse
import csv
import io
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import peirce
from measuring import RESULTS, machine
from peirce.files import write_whole
from peirce.registry import ready_specs
from peirce_export.tensorrt import exporter
from peirce_export.tensorrt.building import build

FILE = RESULTS / "exports.csv"
WAYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "TensorRT": ("tensorrt", {"compute_capability": "8.9", "backend": "rtx", "opset": 20, "keep_onnx": True}),
    "opset 20": ("onnx", {"opset": 20}),
    "float16": ("onnx", {"precision": "float16"}),
    "bfloat16": ("onnx", {"precision": "bfloat16"}),
    "int8": ("onnx", {"precision": "int8"}),
    "opset 17": ("onnx", {"opset": 17}),
    "opset 23": ("onnx", {"opset": 23}),
}
"""The exporter and its options, by what a column of the table is called."""
SMALL = {
    "layers": 2,
    "unary": 64,
    "binary": 16,
    "heads": 4,
    "head_size": 16,
    "feedforward": 128,
    "feedforward_unary": 128,
    "feedforward_binary": 32,
}
Row = dict[str, str]
COLUMNS = (
    "spec",
    "width",
    "way",
    "outcome",
    "seconds",
    "layers",
    "build seconds",
    "MB",
    "why",
    "versions",
    "commit",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--spec", nargs="+", choices=sorted(ready_specs()), default=sorted(ready_specs()))
    parser.add_argument("--way", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--full", action="store_true", help="at their own width and depth")
    parser.add_argument("--again", action="store_true", help="make rows anew that are there")
    options = parser.parse_args()
    width = "full" if options.full else "small"
    found = {(row["spec"], row["width"], row["way"]): row for row in kept()}
    for way in options.way:
        for spec in options.spec:
            if (spec, width, way) not in found or options.again:
                for row in exported(spec, width, way):
                    found[spec, width, row["way"]] = row
                    print(*(row[name] for name in COLUMNS[:9]), sep="  ", flush=True)
                keep(found.values())


def exported(name: str, width: str, way: str) -> list[Row]:
    """Export a ready spec with fresh weights, and say how it went; with an engine comes the ONNX file in between."""
    spec = peirce.load_spec(name)
    changes: dict[str, Any] = {"model.name": "spec"}
    changes |= {f"model.augmenters.{i}.file": "" for i in with_files(spec)}
    if width == "small":
        changes |= {f"model.dims.{dim}": SMALL[dim] for dim in spec.dims if dim in SMALL}
    own = {"spec": name, "width": width, "versions": versions(), "commit": machine()["commit"] or ""}
    return [
        dict.fromkeys(COLUMNS, "") | own | found for found in outcomes(spec.replace(changes).to_toml(), way)
    ]


@cache
def outcomes(text: str, way: str) -> list[Row]:
    """How an export goes. Specs that differ in their depth alone are the same at small widths."""
    to, options = WAYS[way]
    model = peirce.build(peirce.Spec.from_toml(text), seed=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{'engine' if to == 'tensorrt' else 'onnx'}"
        started = time.process_time()
        try:
            with built() as engines:
                peirce.export(model, path=path, to=to, **options)
        except peirce.PeirceError as error:
            return [{"way": way, "outcome": "refused", "why": sentence(error)}]
        seconds = time.process_time() - started
        row = {"way": way, "outcome": "ok", "seconds": f"{seconds:.1f}", "MB": megabytes(path)}
        if to != "tensorrt":
            return [row]
        layers, building = engines[0]
        row |= {"layers": str(layers), "build seconds": f"{building:.1f}"}
        own = {"seconds": f"{seconds - building:.1f}", "MB": megabytes(path.with_suffix(".onnx"))}
        return [{"way": "opset 20", "outcome": "ok", **own}, row]


def megabytes(path: Path) -> str:
    """The size of a file."""
    return f"{path.stat().st_size / 1e6:.1f}"


def versions() -> str:
    """What the outcome depends on."""
    found = []
    for package in ("torch", "onnxruntime", "tensorrt-rtx-cu13"):
        with suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return ", ".join(found)


def with_files(spec: peirce.Spec) -> list[int]:
    """The augmenters that read vectors from a file, which only training gives."""
    return [i for i, augmenter in enumerate(spec.augmenters) if "file" in augmenter.options]


@contextmanager
def built() -> Iterator[list[tuple[int, float]]]:
    """The layers of each engine that is built meanwhile, and the CPU seconds that TensorRT took for it."""
    found = []

    def timed(*arguments: Any) -> Any:
        started = time.process_time()
        engine = build(*arguments)
        found.append((engine.layers, time.process_time() - started))
        return engine

    with patch.object(exporter, "build", timed):
        yield found


def sentence(error: Exception) -> str:
    """The first lines of an error, on one line, fit for a table."""
    return " ".join(str(error).split())[:300].replace("|", "/")


def kept() -> Iterator[Row]:
    """The rows of earlier runs."""
    if FILE.is_file():
        with FILE.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)


def keep(rows: Any) -> None:
    """Write all rows: specs in their order, and of each its ways."""
    order = {way: number for number, way in enumerate(WAYS)}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda row: (row["spec"], row["width"], order.get(row["way"], 99))))
    write_whole(FILE, text.getvalue().encode())


if __name__ == "__main__":
    main()

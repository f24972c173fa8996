"""Every ready spec exported in every way: what passes its verification, what is refused and why, seconds and sizes.

The rows go to `results/exports.csv` one by one. A run goes on where the last one ended; `--again` makes rows anew.
Widths are small (`SMALL`), since all specs at their own take hours; `--full` takes a spec at its own width and depth.
Seconds are CPU time of all threads, which other processes disturb less. Ways of one opset and precision share a trace,
whose seconds each of them has. Engines are built by TensorRT for RTX, for one compute capability and the default
profiles, and are not run. `Triton` serves the model by the real server of `nvidia-pytriton`, with its Python backend,
and is `ok` where the answer is that of a session to the bit. It needs what `tox -e serve` installs.

python benchmarks/exports.py [--spec NAME ...] [--way NAME ...] [--full] [--again]
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx_ir as ir
import torch
from measuring import RESULTS, ROOT, machine

import peirce
from peirce.files import write_whole
from peirce.registry import ready_specs
from peirce_export import cases
from peirce_export.onnx import exporter as onnx_exporter
from peirce_export.onnx.optimizer import rewrite
from peirce_export.tensorrt import exporter
from peirce_export.tensorrt.building import build
from peirce_kg.parts.augmenters.kge_files import KgeFacts, write_kge

FILE = RESULTS / "exports.csv"
WAYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "opset 20": ("onnx", {"opset": 20}),
    "as traced": ("onnx", {"opset": 20, "optimize": False}),
    "TensorRT": ("tensorrt", {"compute_capability": "8.9", "backend": "rtx", "opset": 20}),
    "Triton": ("triton", {"kind": "python", "opset": 20, "name": "asked"}),
    "int8": ("onnx", {"precision": "int8"}),
    "float16": ("onnx", {"precision": "float16"}),
    "bfloat16": ("onnx", {"precision": "bfloat16"}),
    "opset 17": ("onnx", {"opset": 17}),
    "opset 23": ("onnx", {"opset": 23}),
}
"""The exporter and its options, by what a column of the table is called."""
SMALL = {
    "layers": 1,
    "unary": 64,
    "binary": 16,
    "heads": 4,
    "kv_heads": 2,
    "head_size": 16,
    "feedforward": 128,
    "feedforward_unary": 128,
    "feedforward_binary": 32,
}
CONFIG = {
    **dict.fromkeys(("hidden_size", "d_model"), 64),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim"), 128),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers"), 1),
    **dict.fromkeys(("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads"), 4),
}
"""The same widths by the names that configurations of transformers have."""
SEARCHES = ("cqd", "fit", "qto")
"""Architectures that try the entities of a graph one by one, of which small ones have 200."""
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
    for spec in options.spec:
        for way in options.way:
            if (spec, width, way) not in found or options.again:
                row = found[spec, width, way] = exported(spec, width, way)
                print(*(row[name] for name in COLUMNS[:9]), sep="  ", flush=True)
                keep(found.values())
    RUNNING.close()
    server.cache_clear()


def exported(name: str, width: str, way: str) -> Row:
    """Export a ready spec with fresh weights, and say how it went."""
    own = {
        "spec": name,
        "width": width,
        "way": way,
        "versions": versions(),
        "commit": machine()["commit"] or "",
    }
    return dict.fromkeys(COLUMNS, "") | own | outcome(sized(name, width), way)


def sized(name: str, width: str) -> str:
    """A ready spec with random vectors and links in place of files, at small widths or at its own, as text."""
    spec = peirce.load_spec(name)
    changes: dict[str, Any] = {"model.name": "spec"}
    changes |= {f"model.augmenters.{i}.file": "" for i in with_files(spec)}
    if spec.architecture in SEARCHES:
        (head,) = spec.heads
        sizes = (300, 200) if width == "small" else (spec.input.vocabulary, head.options["count"])
        changes |= {"model.input.vocabulary": sizes[0], "model.heads.0.count": sizes[1]}
        if "links" in head.options:
            changes["model.heads.0.links"] = known_links(
                sizes[0], head.options["first"], head.options["first"] + sizes[1]
            )
        if "steps" in head.options and width == "small":
            changes["model.heads.0.steps"] = 20
    if "source" in spec.options:  # without the weights of the hub
        config = spec.options["config"]
        narrow = {key: CONFIG[key] for key in config if key in CONFIG} if width == "small" else {}
        changes["model.options"] = {"config": {**config, **narrow}}
    if width == "small":
        changes |= {f"model.dims.{dim}": SMALL[dim] for dim in spec.dims if dim in SMALL}
        if differing := sum(each.repeat for each in spec.operators.layers):
            changes["model.dims.layers"] = differing
    return spec.replace(changes).to_toml()


@cache
def known_links(vocabulary: int, first_entity: int, first_relation: int) -> str:
    """A file of a thousand random links, as `peirce kg embed` writes it, for as long as this process runs."""
    path = Path(RUNNING.enter_context(tempfile.TemporaryDirectory())) / "links.safetensors"
    facts = KgeFacts(
        model="complex", graph="random", width=1, epochs=1, seed=0, vocabulary=vocabulary,
        first_entity=first_entity, first_relation=first_relation,
    )  # fmt: skip
    draw, ends = torch.Generator().manual_seed(0), first_relation - first_entity
    columns = (
        torch.randint(most, (1000,), generator=draw) for most in (ends, vocabulary - first_relation, ends)
    )
    write_kge(path, facts, torch.zeros(1, 1), torch.zeros(1, 1), torch.stack([*columns], 1).int())
    return str(path)


@cache
def outcome(text: str, way: str) -> Row:
    """How an export goes. Specs that differ in their depth alone are the same at small widths."""
    to, options = WAYS[way]
    with tempfile.TemporaryDirectory() as folder, traced(text) as spent, built() as engines:
        name = {"tensorrt": "model.engine", "triton": "repository"}.get(to, "model.onnx")
        path = Path(folder) / name
        started = time.process_time()
        try:
            peirce.export(model_of(text), path=path, to=to, **options)
        except Exception as error:  # of four packages; one that is no refusal ends no run either
            kind = "refused" if isinstance(error, peirce.PeirceError) else "failed"
            return {"outcome": kind, "why": sentence(error).replace(f"{folder}/", "")}
        seconds = time.process_time() - started + sum(spent)
        row = {"outcome": "ok", "seconds": f"{seconds:.1f}"}
        if to == "triton":
            difference = asked(path)
            return row if difference is None else {"outcome": "failed", "why": difference}
        row["MB"] = megabytes(path)
        if to == "tensorrt":
            layers, building = engines[0]
            row |= {"layers": str(layers), "build seconds": f"{building:.1f}"}
        return row


@lru_cache(maxsize=1)
def model_of(text: str) -> Any:
    """A model with fresh weights."""
    return peirce.build(peirce.Spec.from_toml(text), seed=0)


GRAPHS: dict[tuple[Any, ...], tuple[Any, float]] = {}
"""The traced graphs of the last spec, each with the seconds that it took."""


@contextmanager
def traced(text: str) -> Iterator[list[float]]:
    """What is exported meanwhile is traced once; the seconds of traces that were not made again."""
    spent = []

    def once(
        model: Any, opset: int, precision: Any, *, simplify: bool = True, for_cpus: bool = False
    ) -> ir.Model:
        key = (text, opset, precision, simplify)
        if key in GRAPHS:
            spent.append(GRAPHS[key][1])
        else:
            for other in [other for other in GRAPHS if other[0] != text]:
                del GRAPHS[other]
            started = time.process_time()
            GRAPHS[key] = (
                ir.to_proto(trace(model, opset, precision, simplify=simplify)),
                time.process_time() - started,
            )
        graph = ir.from_proto(GRAPHS[key][0])
        if for_cpus and precision == "float32":
            rewrite(graph)
        return graph

    trace = onnx_exporter.trace
    with patch.object(onnx_exporter, "trace", once):
        yield spent


RUNNING = ExitStack()
"""What ends with the run."""


@cache
def server() -> tuple[Path, Any]:
    """The folder of a server's models, and its client."""
    sys.path.append(str(ROOT / "tests" / "support"))
    from triton_server import INSTALLED, serving

    if not INSTALLED:
        raise SystemExit(
            "Triton Inference Server is not installed; `tox -e serve` has it, or leave out Triton"
        )
    folder = Path(RUNNING.enter_context(tempfile.TemporaryDirectory()))
    (folder / "repository").mkdir()
    arguments = (folder / "repository", folder / "server", "--model-control-mode=explicit")
    running = RUNNING.enter_context(serving(*arguments))
    return folder / "repository", RUNNING.enter_context(closing(running.client()))


def asked(repository: Path) -> str | None:
    """Let the server answer, at two sizes; what is different from a session's answer."""
    from tritonclient.grpc import InferInput
    from tritonclient.utils import np_to_triton_dtype

    place, client = server()
    (model,) = repository.iterdir()
    shutil.copytree(model, place / model.name)
    try:
        client.load_model(model.name)
        (file,) = model.glob("1/*.onnx")
        with peirce.Session(file, providers=["CPUExecutionProvider"]) as session:
            for size, batch in ((1, 1), (7, 3)):
                sizes = dict.fromkeys(session.signature.symbols, size) | {"batch": batch}
                case = cases.Case(name="asked", sizes=sizes)
                feeds = cases.inputs(session.signature, case, 0, np.dtype(np.float32))
                tensors = []
                for name, array in feeds.items():
                    tensors.append(InferInput(name, [*array.shape], np_to_triton_dtype(array.dtype)))
                    tensors[-1].set_data_from_numpy(array)
                answer = client.infer(model.name, tensors)
                for name, wanted in session.run(feeds).items():
                    if answer.as_numpy(name).tobytes() != wanted.tobytes():
                        return f"{name} at size {size} is not what a session gives"
    except Exception as error:  # the client's errors share no base with ours
        return sentence(error)
    finally:
        with suppress(Exception):
            client.unload_model(model.name)
        shutil.rmtree(place / model.name)
    return None


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

"""One card: eager torch, torch.compile, ONNX Runtime and TensorRT, by model, length and precision.

Times are medians of forward passes of whole models with their heads, in turns. Inputs come from the CPU; outputs stay
on the device, but for TensorRT's, of which the smallest is copied. `part of peak` compares with what the card itself
reaches in a product of two large matrices, in the same precision and the same run. Memory is what the device has less
while the way is loaded and has run; on the CPU it is the peak of live tensors. A way that does not run has its reason
in `note`.

python benchmarks/gpu.py [--device cuda|cpu] [--small] [--models NAME...] [--lengths N...] [--batch N]
    [--precisions NAME...] [--ways NAME...] [--repeats N]
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import peirce
import torch
from measuring import operations, peak_bytes, record, seconds
from peirce.model import Model
from peirce_export.cases import Case, inputs

MODELS = ("folnet-base", "bert-base", "tega")
PRECISIONS = ("float32", "tf32", "bfloat16")
WAYS = ("eager", "compile", "onnxruntime", "tensorrt")
SMALL = {"model.dims.layers": 1}
"""The changes of `--small`: the benchmark runs within seconds, and its figures mean nothing."""

Way = Callable[[], object]


class NotHereError(Exception):
    """A way that this machine or precision does not have."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="one layer, 2 texts of 8 tokens")
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="ready specs")
    parser.add_argument("--lengths", nargs="+", type=int, default=[32, 128, 512])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            "torch sees no GPU on this machine; run it where there is one, or with --device cpu --small"
        )
    if options.small:
        options.lengths, options.batch = [8], 2
    rows: list[dict[str, Any]] = []
    for precision in options.precisions:
        peak = matrix_peak(precision, options)
        for name in options.models:
            rows += measured(name, precision, peak, options)
    record("gpu", rows)


def measured(
    name: str, precision: str, peak: float | None, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """A model in a precision: a row for each length and way."""
    spec = peirce.load_spec(name, SMALL if options.small else {})
    model = peirce.build(spec, seed=0).eval()
    rows = []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for way in options.ways:
            before = free(options.device)
            try:
                with ExitStack() as stack:
                    made = MAKERS[way](model, precision, Path(folder), options, stack)
                    for length in options.lengths:
                        rows.append(row(name, model, way, made, length, precision, peak, before, options))
            except Exception as error:  # of four packages, on a machine that may lack each of them
                said = f"{type(error).__name__}: " if not isinstance(error, NotHereError) else ""
                note = f"{said}{' '.join(str(error).split())[:200]}"
                rows += [empty(name, way, length, precision, options, note) for length in options.lengths]
            release(options.device)
    return rows


def row(
    name: str,
    model: Model,
    way: str,
    made: Callable[[Mapping[str, Any]], object],
    length: int,
    precision: str,
    peak: float | None,
    before: int,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """One figure."""
    feeds = arrays(model, length, options)

    def run() -> None:
        made(feeds)
        if options.device == "cuda":
            torch.cuda.synchronize()

    time = seconds({way: run}, options.repeats)[way]
    count = operations(lambda: model(**{key: torch.from_numpy(value) for key, value in feeds.items()}))
    if options.device == "cuda":
        memory = (before - free(options.device)) / 2**20
    else:
        memory = peak_bytes(run) / 2**20 if way == "eager" else None
    found = empty(name, way, length, precision, options, "")
    found |= {"ms": time * 1e3, "TFLOP/s": count / time / 1e12, "memory MiB": memory}
    return found | {
        "part of peak": count / time / peak if peak else None,
        "peak TFLOP/s": peak and peak / 1e12,
    }


def empty(
    name: str, way: str, length: int, precision: str, options: argparse.Namespace, note: str
) -> dict[str, Any]:
    """A row without its figures."""
    card = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    return {
        "card": card,
        "model": name,
        "precision": precision,
        "way": way,
        "batch": options.batch,
        "length": length,
        "ms": None,
        "TFLOP/s": None,
        "part of peak": None,
        "peak TFLOP/s": None,
        "memory MiB": None,
        "note": note,
    }


def arrays(model: Model, length: int, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Random inputs: `--batch` rows, and every other dim as long as the length, as far as the model reads so much."""
    signature = model.signature
    sizes = {
        dim: options.batch if dim == "batch" else min(length, signature.largest.get(dim, length))
        for dim in signature.symbols
    }
    return inputs(signature, Case(name="timed", sizes=sizes), 0, np.dtype(np.float32))


def eager(
    model: Model, precision: str, folder: Path, options: argparse.Namespace, stack: ExitStack
) -> Callable[[Mapping[str, Any]], object]:
    """The model itself."""
    matrix_precision(precision, options)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    twin = peirce.build(model.spec, seed=0).eval().to(options.device, dtype)

    def run(feeds: Mapping[str, Any]) -> object:
        return twin(**{name: torch.from_numpy(array).to(options.device) for name, array in feeds.items()})

    return run


def compiled(
    model: Model, precision: str, folder: Path, options: argparse.Namespace, stack: ExitStack
) -> Callable[[Mapping[str, Any]], object]:
    """The model through torch.compile, with one graph for every length."""
    return torch.compile(eager(model, precision, folder, options, stack), dynamic=True)


def onnxruntime(
    model: Model, precision: str, folder: Path, options: argparse.Namespace, stack: ExitStack
) -> Callable[[Mapping[str, Any]], object]:
    """The exported ONNX file; outputs stay on the device."""
    if precision == "tf32" and options.device == "cpu":
        raise NotHereError("the CPU has no TF32")
    if precision == "bfloat16" and options.device == "cpu":
        raise NotHereError("ONNX Runtime's CPU provider does not run bfloat16")
    file = folder / f"{precision}.onnx"
    peirce.export(model, path=file, precision="bfloat16" if precision == "bfloat16" else "float32")
    providers, own = ["CPUExecutionProvider"], None
    if options.device == "cuda":
        providers = ["CUDAExecutionProvider", *providers]
        own = {"CUDAExecutionProvider": {"use_tf32": int(precision == "tf32")}}
    session = stack.enter_context(peirce.Session(file, providers=providers, provider_options=own))
    return session.run_on_device


def tensorrt(
    model: Model, precision: str, folder: Path, options: argparse.Namespace, stack: ExitStack
) -> Callable[[Mapping[str, Any]], object]:
    """A TensorRT engine, built for these sizes."""
    if options.device == "cpu":
        raise NotHereError("TensorRT computes on GPUs alone")
    file = folder / f"{precision}.engine"
    short, long = min(options.lengths), max(options.lengths)
    most = model.signature.largest
    dims = dict.fromkeys(d for spec in model.signature.inputs for d in spec.dims if isinstance(d, str))
    profile = []
    for dim in dims:
        least, best = (min(size, most.get(dim, size)) for size in (short, long))
        profile.append(f"{dim}={options.batch}" if dim == "batch" else f"{dim}={least}:{best}:{best}")
    peirce.export(
        model,
        to="tensorrt",
        path=file,
        precision="bfloat16" if precision == "bfloat16" else "float32",
        tf32=precision == "tf32",
        profile=tuple(profile),
    )
    session = stack.enter_context(peirce.Session(file))
    smallest = min(session.signature.outputs, key=lambda spec: sum(isinstance(dim, str) for dim in spec.dims))
    return lambda feeds: session.run(feeds, [smallest.name])


MAKERS = {"eager": eager, "compile": compiled, "onnxruntime": onnxruntime, "tensorrt": tensorrt}


def matrix_precision(precision: str, options: argparse.Namespace) -> None:
    """Let float32 products compute in TF32 or not.

    Raises:
        NotHereError: the CPU has none.
    """
    if precision == "tf32" and options.device == "cpu":
        raise NotHereError("the CPU has no TF32")
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def matrix_peak(precision: str, options: argparse.Namespace) -> float | None:
    """Operations a second in a large product at its best; None where there is no such precision."""
    try:
        matrix_precision(precision, options)
    except NotHereError:
        return None
    size = 256 if options.small else (8192 if options.device == "cuda" else 2048)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    one = torch.randn(size, size, device=options.device, dtype=dtype)

    def product() -> None:
        torch.mm(one, one)
        if options.device == "cuda":
            torch.cuda.synchronize()

    return 2 * size**3 / min(seconds({"peak": product}, 1)["peak"] for _ in range(6))


def free(device: str) -> int:
    """Bytes that the device has left; 0 on the CPU, which other processes share."""
    return torch.cuda.mem_get_info()[0] if device == "cuda" else 0


def release(device: str) -> None:
    """Give back what the last way held."""
    gc.collect()
    torch.compiler.reset()
    if device == "cuda":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

"""One card: engines of TensorRT held against torch, and timed beside eager torch, torch.compile and ONNX Runtime.

`--all` takes an hour: an engine of every ready spec, at small widths, is verified against torch in float64; whole
models are timed; the tables of the pages are made anew. Rows are kept as they come, and what `--minutes` leaves no time
for says so. Times are medians of forward passes with heads. Inputs come from the CPU; outputs stay on the device, but
for an engine's, of which the smallest is copied. `error` is the largest difference from eager torch in float32, to the
largest value. Memory is what the device has less while the way is loaded and has run. `--dry-run` goes the same way
without a GPU and prints what it would keep: torch and ONNX Runtime compute on the CPU, TensorRT for RTX builds, and
`host_gpu` computes in place of the driver.

python benchmarks/gpu.py [--all] [--models NAME...] [--dry-run] [--minutes N] [--lengths N...] [--batch N] [--repeats N]
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import host_gpu
import measuring
import numpy as np
import tables
import torch
from exports import sentence, sized
from measuring import operations, record, spread, turns

import peirce
from peirce.errors import UnavailableError
from peirce.model import Model
from peirce.registry import ready_specs
from peirce_export.cases import Case, inputs
from peirce_export.tensorrt.header import Header

MODELS = ("folnet-base", "bert-base", "tega")
PRECISIONS = ("float32", "tf32", "bfloat16")
WAYS = {
    "eager": {},
    "torch.compile": {},
    "ONNX Runtime": {},
    "TensorRT": {"backend": "tensorrt"},
    "TensorRT, CUDA graphs": {"backend": "tensorrt", "cuda_graphs": True},
    "TensorRT for RTX": {"backend": "rtx"},
    "TensorRT for RTX, CUDA graphs": {"backend": "rtx", "cuda_graphs": True},
}
QUICK = 1
"""TensorRT's optimisation level of engines that are only held against torch: they build in seconds."""

Row = dict[str, Any]
Run = Callable[[Mapping[str, np.ndarray]], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--all", action="store_true", help="hold every ready spec, not only MODELS")
    parser.add_argument("--models", nargs="+", choices=sorted(ready_specs()), default=list(MODELS))
    parser.add_argument("--dry-run", action="store_true", help="without a GPU; keeps nothing")
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--lengths", nargs="+", type=int, default=[32, 128, 512])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=20)
    asked = parser.parse_args()
    if not asked.dry_run and not torch.cuda.is_available():
        sys.exit("torch sees no GPU on this machine; run it where there is one, or with --dry-run")
    asked.device, asked.card = ("cpu", "none") if asked.dry_run else ("cuda", torch.cuda.get_device_name())
    asked.ends = time.monotonic() + 60 * asked.minutes
    with tempfile.TemporaryDirectory() as folder, host_gpu.gpu() if asked.dry_run else nullcontext():
        if asked.dry_run:
            asked.lengths, asked.batch, asked.repeats = [4, 8], 2, 1
            measuring.RESULTS = tables.RESULTS = Path(folder)
        engines, times = list[Row](), list[Row]()
        specs = sorted(ready_specs()) if asked.all else asked.models
        held(specs, "float32", engines, asked)
        for precision in PRECISIONS:
            for name in asked.models:
                times += timed(name, precision, asked)
                record("gpu", times)
        held(specs, "float16", engines, asked)
        held(specs, "bfloat16", engines, asked)
        for page in tables.pages():
            text = page.read_text(encoding="utf-8")
            if not asked.dry_run:
                page.write_text(tables.remade(text), encoding="utf-8")
            for found in tables.TABLE.finditer(text) if asked.dry_run else ():
                if " gpu" in found["how"]:
                    print(f"\n{page.name}: {found['how']}\n{tables.made(found['how'])}")


def held(specs: Sequence[str], precision: str, rows: list[Row], asked: argparse.Namespace) -> None:
    """Hold engines against torch; specs that differ in their depth alone are one at small widths."""
    found: dict[str, Row] = {}
    for name in specs:
        text = sized(name, "small")
        if text not in found:
            found[text] = {"TensorRT": "", "error": "", "tolerance": "", "seconds": "", "note": ""}
            with noted(found[text], asked), tempfile.TemporaryDirectory() as folder:
                model = peirce.build(peirce.Spec.from_toml(text), seed=0)
                file, started = Path(folder) / "model.engine", time.perf_counter()
                how = {"tf32": False, "builder_optimization_level": QUICK, "precision": precision}
                profile = ranges(model, (1, 2, 4), (1, 16, 64))
                peirce.export(model, to="tensorrt", path=file, profile=profile, **how)
                worst = max(peirce.verify(file, model).lines, key=lambda line: line.error / line.tolerance)
                found[text]["TensorRT"] = Header.read(file).tensorrt
                found[text] |= {"error": f"{worst.error:.1e}", "tolerance": f"{worst.tolerance:.0e}"}
                found[text]["seconds"] = time.perf_counter() - started
        rows.append({"card": asked.card, "spec": name, "precision": precision} | found[text])
    record("gpu-engines", rows)


def timed(name: str, precision: str, asked: argparse.Namespace) -> list[Row]:
    """A model in a precision: a row for each way and length."""
    rows: list[Row] = []
    spec = peirce.Spec.from_toml(sized(name, "small")) if asked.dry_run else peirce.load_spec(name)
    model = peirce.build(spec, seed=0).eval()
    feeds = {length: arrays(model, length, asked) for length in asked.lengths}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack, torch.no_grad():
        exact = made("eager", model, "float32", Path(folder), stack, asked)[1]
        wanted = {length: exact(own) for length, own in feeds.items()}
        for way in WAYS:
            before, note = free(asked), {"note": ""}
            with noted(note, asked), ExitStack() as ends:
                run, answers = made(way, model, precision, Path(folder), ends, asked)
                for length, own in feeds.items():
                    found, right = answers(own), wanted[length]
                    error = max(abs(found[k] - right[k]).max() / abs(right[k]).max() for k in right)
                    spent = turns(
                        {way: partial(finished, run, own, asked)}, asked.repeats, time.perf_counter
                    )[way]
                    count = operations(partial(model, **{k: torch.from_numpy(a) for k, a in own.items()}))
                    figures = {
                        **spread("ms", [1e3 * each for each in spent]),
                        "TFLOP/s": count / median(spent) / 1e12,
                        "error": f"{error:.1e}",
                    }
                    rows.append(
                        figures | {"way": way, "length": length, "MiB": (before - free(asked)) / 2**20}
                    )
            if note["note"]:
                rows.append({"way": way} | note)
            run = answers = None
            torch.compiler.reset()
    columns = dict.fromkeys(("length", "ms", "TFLOP/s", "error", "MiB", "note"), "")
    head = {"card": asked.card, "model": name, "precision": precision, "way": "", "batch": asked.batch}
    return [head | columns | row for row in rows]


def made(
    way: str, model: Model, precision: str, folder: Path, ends: ExitStack, asked: argparse.Namespace
) -> tuple[Run, Run]:
    """What is timed, and what gives every output to the CPU."""
    dtype = "float32" if precision == "tf32" else precision
    how: dict[str, Any] = dict(WAYS[way])
    if not how and way != "ONNX Runtime":
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        twin: Any = peirce.build(model.spec, seed=0).eval().to(asked.device, getattr(torch, dtype))
        if way == "torch.compile":
            twin = torch.compile(twin, dynamic=True, backend="eager" if asked.dry_run else "inductor")

        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
            return twin(**{name: torch.from_numpy(array).to(asked.device) for name, array in feeds.items()})

        return run, lambda feeds: {name: value.float().cpu().numpy() for name, value in run(feeds).items()}
    if not how:
        if asked.dry_run and dtype == "bfloat16":
            raise UnavailableError("ONNX Runtime's CPU provider does not run bfloat16")
        file = peirce.export(model, path=folder / "model.onnx", precision=dtype).file
        providers, own = ["CPUExecutionProvider"], {}
        if not asked.dry_run:
            providers = ["CUDAExecutionProvider", *providers]
            own = {"CUDAExecutionProvider": {"use_tf32": int(precision == "tf32")}}
        session = ends.enter_context(peirce.Session(file, providers=providers, provider_options=own))
        return session.run_on_device, session.run
    options, file = (
        {"TensorRT": {"cuda_graphs": how.pop("cuda_graphs", False)}},
        folder / f"{how['backend']}.engine",
    )
    if not file.exists():  # CUDA graphs replay the same engine
        if how["backend"] == "rtx":
            known = host_gpu.CAPABILITY if asked.dry_run else torch.cuda.get_device_capability()
            how["compute_capability"] = ".".join(map(str, known))
        short, long = min(asked.lengths), max(asked.lengths)
        profile = ranges(model, [asked.batch] * 3, (short, long, long))
        how |= {"precision": dtype, "tf32": precision == "tf32", "profile": profile}
        peirce.export(model, to="tensorrt", path=file, **how)
    session = ends.enter_context(peirce.Session(file, provider_options=options))
    smallest = min(session.signature.outputs, key=lambda spec: sum(isinstance(dim, str) for dim in spec.dims))
    return lambda feeds: session.run(feeds, [smallest.name]), session.run


def ranges(model: Model, batch: Sequence[int], other: Sequence[int]) -> tuple[str, ...]:
    """A profile: sizes of the batch and of every other dim, as far as the model reads so much."""
    sizes = {dim: batch if dim == "batch" else other for dim in model.signature.symbols}
    most = model.signature.largest
    return tuple(f"{d}={':'.join(str(min(size, most.get(d, size))) for size in sizes[d])}" for d in sizes)


def arrays(model: Model, length: int, asked: argparse.Namespace) -> Mapping[str, np.ndarray]:
    """Random inputs of a batch; every other dim is as long as the length, as far as the model reads so much."""
    most = model.signature.largest
    sizes = {dim: min(length, most.get(dim, length)) for dim in model.signature.symbols} | {
        "batch": asked.batch
    }
    return inputs(model.signature, Case(name="timed", sizes=sizes), 0, np.dtype(np.float32))


def finished(run: Run, feeds: Mapping[str, np.ndarray], asked: argparse.Namespace) -> None:
    """Run, and wait until the card has computed it."""
    run(feeds)
    if not asked.dry_run:
        torch.cuda.synchronize()


def free(asked: argparse.Namespace) -> int:
    """Bytes that the card has left, once what was held before is given back."""
    gc.collect()
    if asked.dry_run:
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


@contextmanager
def noted(row: Row, asked: argparse.Namespace) -> Iterator[None]:
    """What does not run on this machine, or has no time left, becomes the note of a row."""
    try:
        if time.monotonic() > asked.ends:
            raise TimeoutError("no time was left; give more --minutes")
        yield
    except Exception as error:  # of four packages, on a machine that may lack each of them
        row["note"] = sentence(error) if isinstance(error, peirce.PeirceError) else repr(error)[:300]


if __name__ == "__main__":
    main()

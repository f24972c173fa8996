"""Ten minutes of one card, the most valuable first; each row is kept as it comes.

A step ends when its seconds are over, of which a rehearsal has a fifth. Rows are lines of JSON; the same command goes
on from them, so that a run which dies loses nothing, and `--fresh` begins anew. After an error that leaves the card
unusable the process ends, and says how to go on. Errors are relative to float64 on the CPU, as norms. Times are
medians, by the card's own clock, of passes whose inputs lie on the card; `floor GB` is what each operator must read and
write once, as `traffic.py` counts it, in the precision. `--dry-run` rehearses it on the CPU, at small sizes, and keeps
nothing unless --rows names a file.

python benchmarks/gpu.py [--steps NAME ...] [--seconds N] [--rows FILE] [--fresh] [--dry-run]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import host_gpu
import numpy as np
import torch
import traffic
from exports import sentence, sized
from measuring import RESULTS, machine, spread
from torch import Tensor, nn
from transformers import BertConfig, BertModel

import peirce
from peirce.registry import ready_specs
from peirce.testing import Conformance
from peirce_export.cases import Case, inputs
from peirce_export.tensorrt.backends import is_installed
from peirce_export.tensorrt.engine import _Device
from peirce_testing.checks.numerics import _views
from peirce_testing.harness.base import modules

ROWS = RESULTS / "gpu.jsonl"
MODELS = ("folnet-base", "bert-base", "tega", "sqe-lstm", "nli-tpru")
PEER = "BERT, transformers"
GENERATING = ("folnet-causal", "gpt2-base", "llama-base")
SHAPES = ((8, 128), (8, 512), (32, 128))
"""Texts of a batch, and their tokens."""
PRECISIONS = {
    "float32": (torch.float32, "highest"),
    "tf32": (torch.float32, "high"),
    "bfloat16": (torch.bfloat16, "highest"),
}
"""The dtype of weights, and how torch multiplies float32."""
ABOUT = ("step", "what", "spec", "part", "model", "way", "precision", "batch", "length")
"""What a row is about, by which one that is there is not made again."""

Row = dict[str, Any]


class NoTimeError(Exception):
    """The seconds of a step are over."""


class Card:
    """A card, the time that is left, and the rows that are kept.

    Args:
        asked: the options of the command.
    """

    def __init__(self, asked: argparse.Namespace) -> None:
        self.dry, self.file, self.ends = asked.dry_run, asked.rows, 0.0
        self.device = "cpu" if self.dry else "cuda"
        self.shapes, self.repeats = (((2, 8),), 1) if self.dry else (SHAPES, 20)
        if asked.fresh:
            self.file.unlink(missing_ok=True)
        elif self.file.exists() and not self.file.read_bytes().endswith(b"\n"):  # a process died within a row
            self.file.write_text(self.file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        self.done = {about(row) for row in read_rows(self.file)}
        self.origin = {"card": "none" if self.dry else torch.cuda.get_device_name()}
        self.origin["commit"] = machine()["commit"]

    def keep(self, step: str, what: Mapping[str, Any], measure: Callable[[], Row]) -> None:
        """Measure what is not there yet, and keep it as a row; what does not run becomes its note."""
        row: Row = {"step": step, **what, "note": ""}
        if about(row) in self.done:
            return
        if time.monotonic() > self.ends:
            raise NoTimeError
        try:
            row |= measure()
        except Exception as error:  # of many packages, on a machine that may lack each of them
            row["note"] = sentence(error) or repr(error)[:300]
        self.done.add(about(row))
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict.fromkeys(ABOUT) | row | self.origin, default=str) + "\n")
        shown = (f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print("  ".join(shown), flush=True)
        gc.collect()
        try:
            self.wait()
        except RuntimeError:
            sys.exit(
                f"the card is unusable in this process; python {shlex.join(sys.argv)} goes on after this row"
            )

    def wait(self) -> None:
        """Wait until the card has computed everything; it raises once the card is unusable in this process."""
        if not self.dry:
            torch.cuda.synchronize()

    def milliseconds(self, run: Callable[[], object], repeats: int = 0) -> list[float]:
        """The times of a run, after three that are not timed."""
        times = []
        for _ in range(1 if self.dry else 3):
            run()
        for _ in range(repeats or self.repeats):
            if self.dry:
                began = time.perf_counter()
                run()
                times.append(1e3 * (time.perf_counter() - began))
                continue
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        return times

    def peak(self) -> float | None:
        """The most MiB that were in use since this was asked last."""
        if self.dry:
            return None
        most = torch.cuda.max_memory_allocated() / 2**20
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", nargs="+", choices=list(STEPS), default=list(STEPS), metavar="NAME")
    parser.add_argument("--seconds", type=float, help="of all steps, which have their shares of it")
    parser.add_argument(
        "--specs", nargs="+", default=sorted(ready_specs()), metavar="SPEC", help="of `parity`"
    )
    parser.add_argument(
        "--models", nargs="+", default=[*MODELS, PEER], metavar="MODEL", help="that are timed"
    )
    parser.add_argument("--rows", type=Path, default=ROWS, metavar="FILE", help="where rows are kept")
    parser.add_argument("--fresh", action="store_true", help="begin the file of rows anew")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, at small sizes")
    asked = parser.parse_args()
    if not asked.dry_run and not torch.cuda.is_available():
        sys.exit("torch sees no GPU on this machine; run it where there is one, or with --dry-run")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        if asked.dry_run and asked.rows == ROWS:
            asked.rows = Path(folder) / ROWS.name
        card = Card(asked)
        share = 0.2 if card.dry else 1.0
        if asked.seconds:
            share = asked.seconds / sum(STEPS[name][0] for name in asked.steps)
        torch.manual_seed(0)
        for name in asked.steps:
            seconds, step = STEPS[name]
            card.ends = time.monotonic() + share * seconds
            try:
                step(card, asked)
            except NoTimeError:
                print(f"{name}: its time is over; the same command goes on", flush=True)
            except Exception as error:  # the other steps are worth as much
                print(f"{name} failed: {error!r}", flush=True)


# --- the steps ------------------------------------------------------------------------------------


def facts(card: Card, asked: argparse.Namespace) -> None:
    """The machine; how fast it copies, and multiplies in each precision."""
    size = 256 if card.dry else 8192

    def versions() -> Row:
        found = {"python": machine()["python"], "torch": torch.__version__, "cuda": torch.version.cuda}
        builders = [name for name in ("tensorrt", "rtx") if is_installed(name)]
        if not card.dry:
            properties = torch.cuda.get_device_properties(0)
            found |= {
                "MiB": properties.total_memory / 2**20,
                "capability": [properties.major, properties.minor],
            }
        return found | {"TensorRT": ", ".join(builders) or "none"}

    def copy_speed() -> Row:
        one = torch.zeros(16 * size**2, device=card.device)
        other = torch.empty_like(one)
        return spread(
            "TB/s", [2 * one.nbytes / ms / 1e9 for ms in card.milliseconds(lambda: other.copy_(one))]
        )

    def product_speed(precision: str) -> Row:
        with matrix_precision(precision) as dtype:
            one = torch.randn(size, size, device=card.device).to(dtype)
            times = card.milliseconds(lambda: one @ one, 5)
        return spread("TFLOP/s", [2 * size**3 / ms / 1e9 for ms in times])

    card.keep("facts", {"what": "machine"}, versions)
    card.keep("facts", {"what": "copy"}, copy_speed)
    for precision in PRECISIONS:
        card.keep("facts", {"what": "product", "precision": precision}, partial(product_speed, precision))


def parity(card: Card, asked: argparse.Namespace) -> None:
    """Every ready spec, small, against float64 on the CPU; specs that differ in their depth alone are one."""
    texts: dict[str, str] = {}
    for name in sorted(asked.specs, key=lambda name: (name not in MODELS, name)):
        texts.setdefault(sized(name, "small"), name)

    def errors(text: str) -> Row:
        exact, model = (model_of(text) for _ in range(2))
        feeds = arrays(model, 3, 12)
        expected, gradients = outcome(exact.double(), feeds, "cpu")
        found: Row = {}
        for precision in PRECISIONS:
            with matrix_precision(precision) as dtype:
                own, slopes = outcome(model.to(card.device, dtype), feeds, card.device)
            found[precision] = error(own, expected)
            if precision == "float32" and gradients:
                found["gradients"] = error(slopes, gradients)
        return found

    for text, name in texts.items():
        card.keep("parity", {"spec": name}, partial(errors, text))


def parts(card: Card, asked: argparse.Namespace) -> None:
    """Every part that the conformance suite moves to another device, alone, against float64 on the CPU."""

    def errors(case: Any) -> Row:
        worst = dict.fromkeys((*PRECISIONS, "gradients"), 0.0)

        def compare(harness: Any) -> None:
            for view in _views(harness)[:2]:
                drawn = harness.draw(view)
                expected, gradients = part_outcome(harness, drawn, view, torch.float64, "cpu")
                for precision in PRECISIONS:
                    with matrix_precision(precision) as dtype:
                        own, slopes = part_outcome(harness, drawn, view, dtype, card.device)
                    worst[precision] = max(worst[precision], error(own, expected))
                    if precision == "float32":
                        worst["gradients"] = max(worst["gradients"], error(slopes, gradients))

        case.each(compare)
        return worst

    for check, case in Conformance().cases():
        if check.name == "devices":
            card.keep("parts", {"part": f"{case.entry.kind}.{case.entry.name}"}, partial(errors, case))


def times(card: Card, asked: argparse.Namespace, ways: Sequence[str] = ("eager", "CUDA graph")) -> None:
    """Forward passes: milliseconds, memory, and what the operations and the floor come to in that time."""

    def measure(name: str, way: str, precision: str, batch: int, length: int) -> Row:
        model = place(name, precision, card)
        feeds = feeds_of(model, batch, length, precision, card)
        kernels = "on" if "kernels" in way else "off"
        with (
            matrix_precision(precision),
            patch.dict(os.environ, PEIRCE_KERNELS=kernels),
            torch.inference_mode("compile" not in way),
            torch.no_grad(),
        ):
            card.peak()
            began = time.monotonic()
            run = as_run(way, model, feeds, card)
            run()
            first = time.monotonic() - began
            milliseconds = card.milliseconds(run)
        row = {**spread("ms", milliseconds), "MiB": card.peak(), "first, s": first}
        if known := counts(name, batch, length, card.dry):
            moved = known["floor GB"] * (1 if precision == "bfloat16" else 2)
            row |= {
                "floor GB": moved,
                "floor, TB/s": moved / row["ms"],
                "TFLOP/s": known["GFLOP"] / row["ms"],
            }
        return row

    for name, precision, (batch, length) in product(asked.models, PRECISIONS, card.shapes):
        if "torch.compile" in ways and (precision == "tf32" or (batch, length) != card.shapes[0]):
            continue
        length = min(length, 512 if name == PEER else peirce.load_spec(name).input.max_length)
        for way in ways:
            if "kernels" in way and not name.startswith("folnet"):
                continue
            what = {"model": name, "way": way, "precision": precision, "batch": batch, "length": length}
            card.keep("times", what, partial(measure, name, way, precision, batch, length))
    place.cache_clear()
    torch.compiler.reset()


def training(card: Card, asked: argparse.Namespace) -> None:
    """Steps with AdamW: milliseconds, memory, and whether the loss falls."""

    def measure(name: str, precision: str) -> Row:
        batch, length = card.shapes[0]
        model = model_of(text_of(name, card)).to(card.device).train()
        feeds = feeds_of(model, batch, length, "float32", card)
        rule = torch.optim.AdamW(model.parameters(), 1e-4, fused=not card.dry)
        mixed = torch.autocast(card.device, torch.bfloat16) if precision == "bfloat16" else nullcontext()
        losses: list[Tensor] = []

        def step() -> None:
            with mixed:
                outputs = [each for each in model(**feeds).values() if each.requires_grad]
                loss = sum((finite(each).float().square().mean() for each in outputs), torch.zeros(()))
            loss.backward()
            rule.step()
            rule.zero_grad()
            losses.append(loss.detach())

        card.peak()
        with matrix_precision("float32" if precision == "bfloat16" else precision):
            milliseconds = card.milliseconds(step, 1 if card.dry else 10)
        first, last = float(losses[0]), float(losses[-1])
        return {**spread("ms", milliseconds), "MiB": card.peak(), "first loss": first, "last loss": last}

    for name, precision in product([name for name in MODELS[:3] if name in asked.models], PRECISIONS):
        card.keep("training", {"model": name, "precision": precision}, partial(measure, name, precision))


def generation(card: Card, asked: argparse.Namespace) -> None:
    """Tokens a second, one after the other, and the error of the first one's logits."""

    def measure(name: str) -> Row:
        model: Any = model_of(text_of(name, card))
        ids = torch.arange(1, 9).unsqueeze(0)
        expected = model.double().advance({"input_ids": ids}, {})[0]
        model, ids = model.to(card.device, torch.float32), ids.to(card.device)
        found, cache = model.advance({"input_ids": ids}, {})
        for count in (3, 2 if card.dry else 32):  # the first ones are not timed
            card.wait()
            began = time.perf_counter()
            for _ in range(count):
                cache = model.advance({"input_ids": ids[:, -1:]}, cache)[1]
            card.wait()
        row = {"error": error(dict(found), dict(expected))}
        return row | {"tokens / s": count / (time.perf_counter() - began)}

    with torch.no_grad():
        for name in GENERATING:
            card.keep("generation", {"model": name}, partial(measure, name))


def onnx_runtime(card: Card, asked: argparse.Namespace) -> None:
    """Exported files of two layers without heads, in ONNX Runtime: their errors and times."""
    from onnxruntime import OrtValue

    from peirce_export.onnx.session import OnnxValue

    provider = "CPUExecutionProvider" if card.dry else "CUDAExecutionProvider"
    options = {} if card.dry else {provider: {"use_tf32": 0}}

    def place_value(array: np.ndarray[Any, Any]) -> OnnxValue:
        return OnnxValue(OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), card.device, 0))

    def run(name: str, precision: str) -> Row:
        spec = peirce.Spec.from_toml(text_of(name, card))
        layers = {"model.dims.layers": 1 if card.dry else 2} if "layers" in spec.dims else {}
        spec = spec.replace({"model.heads": [], "model.input.vocabulary": 1000, **layers})
        model: Any = model_of(spec.to_toml())
        with tempfile.TemporaryDirectory() as folder:
            file = peirce.export(model, path=Path(folder) / "model.onnx", precision=precision).file
            with peirce.Session(file, providers=[provider], provider_options=options) as session:
                feeds = arrays(model, 3, 12)
                own = {key: torch.from_numpy(value) for key, value in session.run(feeds).items()}
                there = {key: place_value(each) for key, each in arrays(model, *card.shapes[0]).items()}
                times = card.milliseconds(lambda: session.run_on_device(there))
        expected = outcome(model.double(), feeds, "cpu")[0]
        return {"on": provider, "error": error(own, expected), **spread("ms", times)}

    for name, precision in product(asked.models, ("float32", "float16", "bfloat16")):
        if name != PEER:
            what = {"model": name, "way": "ONNX Runtime", "precision": precision}
            card.keep("ONNX Runtime", what, partial(run, name, precision))


def engines(card: Card, asked: argparse.Namespace) -> None:
    """Peirce's face of the CUDA runtime; then engines of small models, where a builder is: errors and times.

    Without a card, `host_gpu` computes in place of the driver.
    """

    def runtime() -> Row:
        device, values = _Device(), np.arange(1 << 16, dtype=np.float32)
        one, other = (device.allocate(values.nbytes) for _ in range(2))
        kind = device._cuda.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        copy = partial(device.call, "cudaMemcpyAsync", other, one, values.nbytes, kind, device.stream)
        graph, back = device.capture(copy), np.zeros_like(values)
        device.upload(values, one)
        device.call("cudaGraphLaunch", graph, device.stream)
        device.download(other, back)
        device.call("cudaStreamSynchronize", device.stream)
        if not np.array_equal(values, back):
            raise ArithmeticError("a recorded copy on the device gave other numbers")
        return {"capability": device.capability}

    def engine(name: str, precision: str, backend: str) -> Row:
        model: Any = model_of(sized(name, "small"))
        how: Row = {
            "backend": backend,
            "tf32": False,
            "builder_optimization_level": 1,
            "precision": precision,
        }
        if backend == "rtx":
            held = host_gpu.CAPABILITY if card.dry else torch.cuda.get_device_capability()
            how["compute_capability"] = ".".join(map(str, held))
        dims, most = model.signature.symbols, model.signature.largest
        how["profile"] = tuple(
            f"{dim}=" + ":".join(str(min(size, most.get(dim, size))) for size in (1, 3, 64)) for dim in dims
        )
        with tempfile.TemporaryDirectory() as folder:
            file, began = Path(folder) / "model.engine", time.monotonic()
            peirce.export(model, to="tensorrt", path=file, **how)
            row: Row = {"seconds": time.monotonic() - began}
            line = max(peirce.verify(file, model).lines, key=lambda line: line.error / line.tolerance)
            row |= {"error": line.error, "tolerance": line.tolerance}
            with peirce.Session(file, provider_options={"TensorRT": {"cuda_graphs": True}}) as session:
                feeds = arrays(model, 3, 12)
                return row | spread("ms", card.milliseconds(lambda: session.run(feeds)))

    with host_gpu.gpu() if card.dry else nullcontext():
        card.keep("engines", {"what": "CUDA runtime"}, runtime)
        for backend in filter(is_installed, ("tensorrt", "rtx")):
            for name, precision in product(asked.models, ("float32", "float16", "bfloat16")):
                if name != PEER:
                    what = {"model": name, "way": backend, "precision": precision}
                    card.keep("engines", what, partial(engine, name, precision, backend))


STEPS: Mapping[str, tuple[float, Callable[[Card, argparse.Namespace], None]]] = {
    "facts": (15, facts),
    "parity": (100, parity),
    "parts": (60, parts),
    "times": (100, times),
    "kernels": (40, partial(times, ways=("kernels", "kernels, CUDA graph"))),
    "training": (40, training),
    "generation": (20, generation),
    "compile": (80, partial(times, ways=("torch.compile",))),
    "ONNX Runtime": (90, onnx_runtime),
    "engines": (40, engines),
}
"""What is measured, by its name, with its seconds."""


# --- models, inputs and errors --------------------------------------------------------------------


def text_of(name: str, card: Card) -> str:
    """A ready spec as it is timed."""
    return sized(name, "small" if card.dry else "full")


def model_of(text: str) -> nn.Module:
    """A model with fresh weights, in evaluation."""
    return peirce.build(peirce.Spec.from_toml(text), seed=0).eval()


@lru_cache(maxsize=1)
def place(name: str, precision: str, card: Card) -> nn.Module:
    """A model on the card, in a precision."""
    if name == PEER:
        small = {
            "hidden_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "intermediate_size": 128,
        }
        model: nn.Module = BertModel(
            BertConfig(**small if card.dry else {}, attn_implementation="sdpa")
        ).eval()
    else:
        model = model_of(text_of(name, card))
    return model.to(card.device, PRECISIONS[precision][0])


def as_run(way: str, model: nn.Module, feeds: Mapping[str, Tensor], card: Card) -> Callable[[], object]:
    """A pass of a model in some way."""
    if way == "torch.compile":
        compiled = torch.compile(model, dynamic=False, backend="eager" if card.dry else "inductor")
        return lambda: compiled(**feeds)
    if "CUDA graph" not in way or card.dry:  # without a card there is none to record
        return lambda: model(**feeds)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what is made at the first pass is made before it is recorded
        model(**feeds)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(**feeds)
    return graph.replay


def arrays(model: Any, batch: int, length: int) -> Mapping[str, np.ndarray[Any, Any]]:
    """Random inputs of a length, or of the most that the model reads; no padding."""
    most = model.signature.largest
    sizes = {dim: min(length, most.get(dim, length)) for dim in model.signature.symbols} | {"batch": batch}
    return inputs(model.signature, Case(name="card", sizes=sizes), 0, np.dtype(np.float32))


def feeds_of(model: Any, batch: int, length: int, precision: str, card: Card) -> Mapping[str, Tensor]:
    """Inputs on the card."""
    if isinstance(model, BertModel):
        return {"input_ids": torch.randint(1000, (batch, length), device=card.device)}
    return tensors_of(arrays(model, batch, length), card.device, PRECISIONS[precision][0])


def tensors_of(
    feeds: Mapping[str, np.ndarray[Any, Any]], device: str, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Inputs on a device, real ones in a dtype."""
    tensors = {name: torch.from_numpy(each).to(device) for name, each in feeds.items()}
    return {name: each.to(dtype) if each.is_floating_point() else each for name, each in tensors.items()}


def outcome(model: Any, feeds: Mapping[str, np.ndarray[Any, Any]], device: str) -> tuple[Row, Row]:
    """Outputs, and the gradients of parameters for a random cotangent of all of them."""
    outputs = model(**tensors_of(feeds, device, next(model.parameters()).dtype))
    return outputs, slopes(outputs.values(), model.parameters())


def part_outcome(harness: Any, drawn: Any, view: Any, dtype: torch.dtype, device: str) -> tuple[Row, Row]:
    """As `outcome`, of a part alone."""
    instance = harness.make(seed=11, dtype=dtype)
    for module in modules(instance):
        module.to(device)
    try:
        tensors = drawn.map(lambda _, each: place_leaf(each, dtype, device))
        found = {slot.name: each for slot, each in harness.raw(instance, tensors, view.on(device))}
        leaves = [each for _, each in tensors] + [p for own in modules(instance) for p in own.parameters()]
        return found, slopes(found.values(), leaves)
    finally:
        harness.forget()


def place_leaf(values: Tensor, dtype: torch.dtype, device: str) -> Tensor:
    """An input of a part on a device; a real one has a dtype and gets gradients."""
    there = values.detach().to(device, dtype if values.is_floating_point() else values.dtype)
    return there.requires_grad_(there.is_floating_point())


def slopes(outputs: Iterable[Tensor], leaves: Iterable[Tensor]) -> Row:
    """Gradients of all leaves, in one vector, for cotangents that are the same on every device."""
    draw, total = torch.Generator().manual_seed(0), None
    for each in outputs:
        ahead = torch.randn(each.shape, generator=draw, dtype=torch.float64).to(each.device)
        if each.requires_grad:
            own = (finite(each).double() * ahead).sum()
            total = own if total is None else total + own
    if total is None:
        return {}
    trained = [each for each in leaves if each.requires_grad]
    found = torch.autograd.grad(total, trained, allow_unused=True, materialize_grads=True)
    return {"gradients": torch.cat([each.flatten() for each in found])}


def error(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    """The largest relative error of a name, as norms; what both have infinite, as masks have, is left out."""
    worst = 0.0
    for name, right in expected.items():
        one, other = (each.detach().double().cpu() for each in (found[name], right))
        known = ~(torch.isinf(other) & (one == other))
        apart = float((one - other)[known].norm() / other[known].norm().clamp_min(1e-30))
        worst = max(worst, apart if apart == apart else float("inf"))
    return worst


def finite(values: Tensor) -> Tensor:
    """The values, with zeros for those of masks."""
    return torch.where(values.isfinite(), values, 0)


@contextmanager
def matrix_precision(precision: str) -> Iterator[torch.dtype]:
    """Products of float32 as a precision has them; its dtype."""
    dtype, how = PRECISIONS[precision]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(how)
    try:
        yield dtype
    finally:
        torch.set_float32_matmul_precision(before)


@cache
def counts(name: str, batch: int, length: int, small: bool) -> Row:
    """Operations and the floor of a forward pass in bfloat16, from the rows of `traffic.py` or counted on `meta`."""
    if name == PEER:
        return {}
    file = RESULTS / "traffic.json"
    for row in () if small else json.loads(file.read_text())["rows"]:
        if (row["model"], row.get("what"), row["batch"], row["length"]) == (name, "forward", batch, length):
            return {key: row[key] for key in ("GFLOP", "floor GB")}
    asked = argparse.Namespace(batch=batch, dtype="bfloat16", lines=0)
    model: Any = model_of(sized(name, "small" if small else "full")).to("meta", torch.bfloat16)
    row = next(traffic.rows_of(name, model, traffic.feeds_of(model, asked, length), asked, length))
    return {key: row[key] for key in ("GFLOP", "floor GB")}


def about(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a row is about."""
    return tuple(row.get(name) for name in ABOUT)


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file; a line that a dying process left unfinished is none."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


if __name__ == "__main__":
    main()

"""One model in every runtime that computes on this CPU, beside eager torch: time, error, size and what making it takes.

folnet-base and bert-base of two layers, without heads and with a vocabulary of 1000, on one thread. `error` is the
largest difference from eager torch, to the largest value, of all outputs. `making` is CPU time of tracing, compiling
and, where a file is written, its verification. Where ONNX Runtime has the provider of `onnxruntime-openvino`, in an
environment of its own, since it is an ONNX Runtime of another version), it and the CPU's provider alone are measured,
and kept as `runtimes-openvino`. Without g++ what compiles is left out.

python benchmarks/runtimes.py [--repeats N] [--models NAME ...] [--layers N] [--batch N] [--length N]
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from measuring import beside, parsed, record, spread, turns
from torch import Tensor

import peirce
from peirce.model import Model

EAGER, OPENVINO = "torch, eager", "OpenVINOExecutionProvider"
FILES: Mapping[str, Mapping[str, Any]] = {
    "AOTInductor": {"to": "torch_export", "aot_inductor": "g++"},
    "ONNX Runtime": {},
    "ONNX Runtime, as traced": {"optimize": False},
    "ONNX Runtime, int8 dynamic": {"precision": "int8"},
    "ONNX Runtime, int8 weights": {"precision": "int8", "quantisation": "weights"},
    "ONNX Runtime, int4 weights": {"precision": "int4"},
}
"""How the file of a way is exported."""
Outputs = Mapping[str, np.ndarray]


def main() -> None:
    sizes = {"--layers": 2, "--batch": 4, "--length": 64}
    options = parsed(
        __doc__, 5,
        ("--models", {"nargs": "+", "default": ["folnet-base", "bert-base"]}),
        *((name, {"type": int, "default": size}) for name, size in sizes.items()),
    )  # fmt: skip
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # whose children are counted
    openvino = OPENVINO in onnxruntime.get_available_providers()
    rows = []
    for name in options.models:
        spec = peirce.load_spec(
            name, {"model.dims.layers": options.layers, "model.heads": [], "model.input.vocabulary": 1000}
        )
        model = peirce.build(spec, seed=0).eval()
        ids = np.random.default_rng(0).integers(0, 1000, (options.batch, options.length))
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            rows += measured(name, model, ids, Path(folder), options, openvino=openvino)
    record("runtimes-openvino" if openvino else "runtimes", rows)


def measured(
    name: str, model: Model, ids: np.ndarray, folder: Path, options: Any, *, openvino: bool
) -> list[dict[str, Any]]:
    """A row for each way."""
    eager = partial(arrays, model, ids)
    ways: dict[str, Callable[[], Outputs]] = {EAGER: eager}
    made: dict[str, tuple[float, float | str]] = {EAGER: (0.0, "")}
    compiler = shutil.which("g++") is not None
    if compiler and not openvino:
        begun = spent()
        compiled = partial(arrays, torch.compile(model), ids)
        compiled()
        ways["torch.compile"], made["torch.compile"] = compiled, (spent() - begun, "")
    for way, how in FILES.items():
        if (openvino and how) or ("aot_inductor" in how and not compiler):
            continue
        file = folder / f"{len(ways)}.{'pt2' if 'to' in how else 'onnx'}"
        begun = spent()
        peirce.export(model, path=file, **{"to": "onnx", **how})
        made[way] = spent() - begun, file.stat().st_size / 1e6
        providers = ["torch"] if "to" in how else ["CPUExecutionProvider"]
        session = peirce.Session(file, providers=providers, threads=options.threads)
        ways[way] = partial(session.run, {"input_ids": ids})
    if openvino:
        begun = spent()
        how = {"device_type": "CPU", "num_of_threads": options.threads, "precision": "FP32"}
        session = peirce.Session(file, providers=[OPENVINO], provider_options={OPENVINO: how})
        ways["OpenVINO"] = partial(session.run, {"input_ids": ids})
        ways["OpenVINO"]()
        made["OpenVINO"] = spent() - begun, ""
    times, exact = turns(ways, options.repeats), eager()
    rows: list[dict[str, Any]] = []
    for way, run in ways.items():
        found = run()
        error = max(float(abs(found[k] - exact[k]).max() / abs(exact[k]).max()) for k in exact)
        seconds, size = made[way]
        rows.append(
            {
                "model": name,
                "way": way,
                "layers": options.layers,
                "batch": options.batch,
                "length": options.length,
                **spread("ms", [1e3 * each for each in times[way]]),
                **beside("time / eager", times[way], times[EAGER]),
                "error": error,
                "MB": size,
                "making, s": seconds,
            }
        )
    return rows


def arrays(model: Callable[..., Mapping[str, Tensor]], ids: np.ndarray) -> Outputs:
    """A model's outputs as arrays."""
    return {name: value.numpy() for name, value in model(input_ids=torch.from_numpy(ids)).items()}


def spent() -> float:
    """CPU seconds of this process and of those that it waited for, such as compilers."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


if __name__ == "__main__":
    main()

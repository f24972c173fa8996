"""A second process, which loads saved models and returns what they compute.

It is started once in a run, hashes texts with another seed than this process, and works in a folder of its own.
"""

from __future__ import annotations

import json
import os
import sys
from atexit import register
from functools import cache
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from peirce.compose import load
from peirce.errors import PeirceError, one_line
from peirce.model import Model
from peirce.registry import Registry
from peirce_testing.compare import BrokenError
from peirce_testing.examples import Tensors
from peirce_testing.harness.base import name_outputs, slots, values
from peirce_testing.stub_parts import with_stub_parts

FILE = "outputs.pt"


def example_outputs(model: Model) -> Tensors:
    """The outputs of a model for inputs that its signature allows, where no token is padding."""
    generator, sizes = torch.Generator().manual_seed(0), {"batch": 12, "length": 4}
    reads = slots(model.signature.inputs)
    inputs = {slot.name: values(slot, sizes, generator, torch.float32) for slot in reads}
    inputs |= {name: torch.ones_like(value) for name, value in inputs.items() if value.dtype == torch.bool}
    return name_outputs(model(**inputs), slots(model.signature.outputs))


def outputs_in_subprocess(path: Path, registry: Registry) -> dict[str, Tensor] | None:
    """`example_outputs` of a saved model in the second process; None where it cannot import the registry's plug-ins.

    Raises:
        BrokenError: the model cannot be loaded or run there.
    """
    targets = [plugin.target for plugin in registry.plugins if plugin.target != with_stub_parts.__module__]
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps([str(path), targets]), file=process.stdin, flush=True)
    answer = process.stdout.readline().strip()
    if answer == "unknown":
        return None
    if not answer:
        _process.cache_clear()
    if answer != "done":
        raise BrokenError(f"loading it in another process fails: {answer or 'the process ended'}")
    outputs: dict[str, Tensor] = torch.load(path / FILE)
    return outputs


@cache
def _registry(*targets: str) -> Registry | None:
    """The registry of some plug-ins; None where they cannot be loaded, or not together."""
    try:
        registry = with_stub_parts(Registry.of(*targets))
    except PeirceError:
        return None
    return None if registry.quarantined else registry


@cache
def _process() -> Popen[str]:
    folder = TemporaryDirectory(prefix="peirce-check-")
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    paths = os.pathsep.join(str(Path(each or ".").resolve()) for each in sys.path)
    process = Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
        cwd=folder.name, stdin=PIPE, stdout=PIPE, text=True,
    )  # fmt: skip

    def end() -> None:
        process.communicate()
        folder.cleanup()

    register(end)
    return process


def serve() -> None:
    """Answer in the second process, a line for each line of stdin: `done`, `unknown`, or an error."""
    torch.set_num_threads(1)
    stdout, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        path, targets = json.loads(line)
        answer = "unknown"
        if (registry := _registry(*targets)) is not None:
            try:
                outputs = example_outputs(load(path, registry=registry).eval())
                torch.save({slot.name: value.detach() for slot, value in outputs}, Path(path, FILE))
                answer = "done"
            except Exception as error:
                answer = one_line(error)
        print(answer, file=stdout, flush=True)

"""Another process, which loads saved models and says what they give.

It is started once in a run, hashes texts with another seed than this one, and works in a folder of its own.
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
from peirce_testing.companions import companied
from peirce_testing.compare import BrokenError
from peirce_testing.examples import Tensors
from peirce_testing.harness.base import named, slots, values

FILE = "outputs.pt"


@cache
def _process() -> Popen[str]:
    folder = TemporaryDirectory(prefix="peirce-check-")
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    paths = os.pathsep.join(str(Path(each or ".").resolve()) for each in sys.path)
    begun = Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
        cwd=folder.name, stdin=PIPE, stdout=PIPE, text=True,
    )  # fmt: skip

    def end() -> None:
        begun.communicate()
        folder.cleanup()

    register(end)
    return begun


def drawn_outputs(model: Model) -> Tensors:
    """What a model gives for inputs that its signature allows, where no token is padding."""
    generator, sizes = torch.Generator().manual_seed(0), {"batch": 12, "length": 4}
    reads = slots(model.signature.inputs)
    inputs = {slot.name: values(slot, sizes, generator, torch.float32) for slot in reads}
    inputs |= {name: torch.ones_like(value) for name, value in inputs.items() if value.dtype == torch.bool}
    return named(model(**inputs), slots(model.signature.outputs))


def outputs_elsewhere(path: Path, registry: Registry) -> dict[str, Tensor] | None:
    """What a saved model gives in another process; None where a plug-in of the registry cannot be imported there.

    Raises:
        BrokenError: it cannot be loaded or run there.
    """
    targets = [p.target for p in registry.plugins if not p.target.startswith("peirce_testing.")]
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([str(path), targets]) + "\n")
    process.stdin.flush()
    said = process.stdout.readline()
    if said == "unknown\n":
        return None
    if not said:
        _process.cache_clear()
    if said != "done\n":
        raise BrokenError(f"loaded in another process, it fails: {said.strip() or 'the process ended'}")
    found: dict[str, Tensor] = torch.load(path / FILE)
    return found


@cache
def _registry(*targets: str) -> Registry | None:
    """The registry of some plug-ins; None where they cannot be loaded, or not together."""
    try:
        registry = companied(Registry.of(*targets))
    except PeirceError:
        return None
    return None if registry.quarantined else registry


def serve() -> None:
    """Answer in that process, until stdin ends."""
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        path, targets = json.loads(line)
        said = "unknown"
        if (registry := _registry(*targets)) is not None:
            try:
                outputs = drawn_outputs(load(path, registry=registry).eval())
                torch.save({slot.name: value.detach() for slot, value in outputs}, Path(path, FILE))
                said = "done"
            except Exception as error:
                said = one_line(error)
        print(said, file=answers, flush=True)

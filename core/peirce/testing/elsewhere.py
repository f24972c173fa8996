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

from peirce.errors import one_line
from peirce.registry import Registry
from peirce.testing.compare import BrokenError

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


def outputs_elsewhere(path: Path, registry: Registry) -> dict[str, Tensor] | None:
    """What a saved model gives in another process; None where a plug-in of the registry cannot be imported there.

    Raises:
        BrokenError: it cannot be loaded or run there.
    """
    targets = [p.target for p in registry.plugins if not p.target.startswith("peirce.testing.")]
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([str(path), targets]) + "\n")
    process.stdin.flush()
    said = process.stdout.readline()
    if said == "unknown\n":
        return None
    if said != "done\n":
        raise BrokenError(f"loaded in another process, it fails: {said.strip() or 'the process ended'}")
    found: dict[str, Tensor] = torch.load(path / FILE)
    return found


def serve() -> None:
    """Answer in that process, until stdin ends."""
    from peirce.compose import load
    from peirce.testing.checks.state import drawn_outputs
    from peirce.testing.companions import companied

    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr
    known: dict[str, Registry] = {}
    for line in sys.stdin:
        path, targets = json.loads(line)
        registry = known.setdefault(str(targets), companied(Registry.of(*targets)))
        said = "unknown" if registry.quarantined else "done"
        if said == "done":
            try:
                outputs = drawn_outputs(load(path, registry=registry).eval())
                torch.save({slot.name: value.detach() for slot, value in outputs}, Path(path, FILE))
            except Exception as error:
                said = one_line(error)
        print(said, file=answers, flush=True)

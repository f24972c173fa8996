"""What tasks give in another process, whose hashes of texts are others: sets then have another order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from peirce.errors import PeirceError, one_line
from peirce.registry import import_target
from peirce.spec import structure_value
from peirce_testing.harness.tasks import SPLITS, first_batches

ELSEWHERE = "import sys; sys.path[:] = {path!r}; from peirce_testing.harness.elsewhere import main; main(sys.argv[1:])"


def task_digests(part: type[Any]) -> dict[str, str]:
    """A digest of each thing that a training takes of a task, with its small data.

    Raises:
        PeirceError: it has no data.
    """

    def digest(content: bytes) -> str:
        return sha256(content.replace(str(folder).encode(), b".")).hexdigest()

    with TemporaryDirectory() as outer:
        folder = Path(outer, "small")  # of one name everywhere, since a task may call its data by it
        folder.mkdir()
        given = {**part.example, **part.example_in(folder)}
        task = part(structure_value(part.Options, given))
        data = task.prepare()
        found = {"overrides": digest(repr(sorted(task.overrides(data).items())).encode())}
        found |= {f"the file {name!r}": digest(content) for name, content in task.assets(data).items()}
        for split in SPLITS:
            with suppress(PeirceError):
                found[f"batches of {split!r}"] = digest(
                    b"".join(
                        f"{name} {tensor.dtype} {[*tensor.shape]}".encode() + tensor.numpy().tobytes()
                        for batch in first_batches(task.batches(data, split, 1, 2))
                        for name, tensor in sorted(batch.items())
                    )
                )
        return found


@cache
def digests_elsewhere(targets: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """The digests of several tasks, each a `module:class`, from another process; those that fail there are left out."""
    program = ELSEWHERE.format(path=sys.path)
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *targets],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": seed},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    found: dict[str, dict[str, str]] = json.loads(lines[-1]) if lines and not done.returncode else {}
    return found


def main(targets: list[str]) -> None:
    """Print the digests of tasks as one line of JSON."""
    found = {}
    for target in targets:
        try:
            found[target] = task_digests(import_target(target))
        except (
            Exception
        ) as error:  # a stranger's task may raise anything, and its check says so in the first process
            print(f"{target}: {one_line(error)}", file=sys.stderr)
    print(json.dumps(found))

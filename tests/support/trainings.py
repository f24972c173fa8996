"""Trainings one after another in one process, which may be one of several that train together: `trainings.py FOLDER`.

`FOLDER/trainings.json` holds a list of them: `name`, `spec`, and what differs from the defaults in `options` (of
training), `task` (of the task that `on` names, `filled` if absent), `fail_at` (after so many losses the task fails) and
`resume`. Models go to FOLDER/NAME.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import toy_tasks
from toy_tasks import StoppedError

from peirce.registry import Registry, load_spec
from peirce_training import TrainingOptions, make_task, train

PARTS = ("peirce_basics.plugin", "peirce_folnet.plugin", "peirce_kg.plugin", "peirce_text.plugin")


def main(folder: Path) -> None:
    registry = Registry.of(*PARTS, toy_tasks)
    for training in json.loads((folder / "trainings.json").read_text()):
        fail_at = training.get("fail_at", 0)
        task = make_task(training.get("on", "filled"), training.get("task"), registry)
        if fail_at:
            vars(task)["fail_at"] = fail_at
        with pytest.raises(StoppedError) if fail_at else nullcontext():
            train(
                load_spec(folder / training["spec"]),
                task,
                TrainingOptions(**training["options"]),
                folder / training["name"],
                resume=training.get("resume", False),
                registry=registry,
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

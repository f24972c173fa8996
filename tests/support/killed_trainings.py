"""A training that is killed again and again, in processes of their own: `killed_trainings.py FOLDER SEED KILLS`.

FOLDER holds `spec.toml` and `options.json`. Each process resumes the training in FOLDER/model and kills itself, either
when a loss is asked for or while files of a checkpoint are touched, at a place that SEED draws; the last one ends it.
`deaths.json` tells how each process ended, and what checkpoints it left.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path

import toy_tasks
import trainings
from peirce.registry import Registry, load_spec
from peirce.training import Checkpoints, TrainingOptions, train
from toy_tasks import KILL_AT, Marked, MarkedOptions

_EVENTS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.scandir"})


def train_on(folder: Path) -> None:
    train(
        load_spec(folder / "spec.toml"),
        Marked(MarkedOptions(batch=16)),
        TrainingOptions(**json.loads((folder / "options.json").read_text())),
        folder / "model",
        seed=5,
        resume=True,
        registry=Registry.of(*trainings.PARTS, toy_tasks),
    )


def die_at_file(count: int) -> None:
    """Kill this process when something in the folder of checkpoints is touched for the given time."""
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event in _EVENTS and "/checkpoints/" in str(arguments[0]):
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(folder: Path, seed: int, kills: int) -> None:
    draw = random.Random(seed)
    deaths = []
    for kill in range(kills + 1):
        place, count = draw.choice(("loss", "file")), draw.randint(1, 40)
        child = os.fork()
        if child == 0:
            if kill == kills:
                pass  # the one that ends the training
            elif place == "file":
                die_at_file(count)
            else:
                os.environ[KILL_AT] = str(1 + count % 4)
            train_on(folder)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        names = [path.name for path in Checkpoints(folder / "model", 1).paths()]
        deaths.append(
            {"place": place, "count": count, "status": os.waitstatus_to_exitcode(status), "left": names}
        )
    (folder / "deaths.json").write_text(json.dumps(deaths))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

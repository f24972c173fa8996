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
from kills import below, forked, signal_at
from toy_tasks import KILL_AT, Marked, MarkedOptions

from peirce.registry import Registry, load_spec
from peirce_training import Checkpoints, TrainingOptions, train


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


def main(folder: Path, seed: int, kills: int) -> None:
    draw = random.Random(seed)
    deaths = []
    for kill in range(kills + 1):
        place, count = draw.choice(("loss", "file")), draw.randint(1, 40)

        def body(place: str = place if kill < kills else "end", count: int = count) -> None:
            if place == "file":
                signal_at(signal.SIGKILL, count, below("/checkpoints/"))
            elif place == "loss":
                os.environ[KILL_AT] = str(1 + count % 4)
            train_on(folder)

        status = forked(body)
        left = [path.name for path in Checkpoints(folder / "model", 1).paths()]
        deaths.append({"place": place, "status": status, "left": left})
    (folder / "deaths.json").write_text(json.dumps(deaths))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

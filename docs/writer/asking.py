"""The page on which a small model answers in the reader's browser: trained on RCC-8, exported and written once.

The model stays in `build`, in a folder that is named after all that it depends on here; training it takes about a
minute of one core.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

PAGE = Path("plugins/relations/ask/index.html")
FACTS, PAIR = "a NTPP b, b EC c, c NTPPI d", ("a", "d")
SIZES = {"steps": (2, 3), "branches": (1, 2)}
COUNTS = {"train": 6000, "test": 500}
SETTINGS = {
    "task.batch_size": 32,
    "model.dims": "{layers=4, unary=32, binary=32, heads=4, head_size=8, feedforward_unary=64, feedforward_binary=64}",
    "model.options.vary": 2,
    "train.steps": 1500,
    "train.lr": 3e-3,
}


def write(page: Path, build: Path) -> None:
    """Write the page, of a model that is trained where there is none yet.

    Args:
        page: the file; its folder is made.
        build: where the model stays, and where npm has brought onnxruntime-web.
    """
    model = _model(build)
    file = model / "model.onnx"
    if not file.is_file():
        data = build / "rcc8"
        data.mkdir(exist_ok=True)
        for number, (split, count) in enumerate(COUNTS.items()):
            (data / f"{split}.jsonl").write_text("".join(problems(number, count)), encoding="utf-8")
        sets = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        _peirce(
            "train",
            "relational-rounds",
            "--task",
            "relations",
            "--set",
            f"task.data={data}",
            *sets,
            "-o",
            str(model),
            "--overwrite",
        )
        _peirce("export", str(model), "-o", str(file), "--attention")
    page.parent.mkdir(parents=True, exist_ok=True)
    runtime = build / "node_modules" / "onnxruntime-web" / "dist"
    _peirce("relate", str(model), FACTS, "--pair", *PAIR, "--page", str(page), "--runtime", str(runtime))


def computed(build: Path, facts: str, pair: tuple[str, str]) -> tuple[dict[str, float], int, dict[str, Any]]:
    """The scores of the relations by ONNX Runtime, the number of nodes, and all outputs."""
    import peirce
    from peirce_relations.encoding import read_facts
    from peirce_relations.serving import Relates

    found: dict[str, Any] = {}
    with peirce.Session(_model(build) / "model.onnx") as session:
        model = Relates(_model(build), session)
        model.ask({"facts": facts, "pair": pair}, found.update)
        problem, nodes = read_facts(facts, pair)
        outputs = session.run(model.relations.arrays([problem]))
    return dict(zip(found["relations"], found["scores"], strict=True)), len(nodes), outputs


def _model(build: Path) -> Path:
    """Where the model stays."""
    return build / f"rcc8-{zlib.crc32(repr((SIZES, COUNTS, SETTINGS)).encode()):08x}"


def problems(number: int, count: int) -> Iterator[str]:
    """The problems of a block as lines; half of them ask for another pair that the facts decide, as the page may."""
    import numpy as np
    from attrs import evolve
    from peirce_relations.calculi.algebra import rcc8
    from peirce_relations.calculi.closure import closure
    from peirce_relations.calculi.sources import block, source

    drawn, algebra = Random(number), rcc8()
    for problem in block(source("rcc8", max(SIZES["steps"])), SIZES, seed=0, number=number, count=count):
        if drawn.random() < 0.5:
            left = closure(algebra, problem.nodes, problem.edges, problem.labels)
            x, y = drawn.choice(np.argwhere(left.sum(2) == 1).tolist())
            problem = evolve(problem, query=(x, y), answer=algebra.relations[left[x, y].argmax()])
        yield problem.line()


def _peirce(*words: str) -> None:
    subprocess.run([sys.executable, "-P", "-m", "peirce", *words], check=True)

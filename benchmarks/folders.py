"""A folder of Parquet files predicted by one process, and by two workers of Ray Data that share its files.

The model is `text-small` with random weights, which are as fast as trained ones, and a thread a worker. A turn is the
whole call: two workers start a Ray cluster of their own, two processes that import torch, and end it. `rows a second`
are those between the first file that is done and the last, after the start. Both ways take turns, and the files that
they write are compared byte by byte.

python benchmarks/folders.py [--repeats N] [--files N] [--rows N]
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
from measuring import beside, parsed, record, spread

import peirce
from peirce_text.tabular.folders import Job, predict_folder
from peirce_text.text.tokenizer import Tokenizer

WORDS = 2_000
LENGTH = 64
CLASSES = ("fair", "mixed", "wet")
WORKERS = (1, 2)


def write_model(folder: Path, texts: list[str]) -> None:
    """A classifier with its tokenizer."""
    tokenizer = Tokenizer.train(texts, vocabulary=4_000)
    spec = peirce.load_spec("text-small", {"model.input.vocabulary": tokenizer.vocabulary})
    heads = [{"use": "classification", "classes": len(CLASSES), "problem": "single"}]
    labels = {"task": "classify", "classes": CLASSES, "columns": {"text": "text"}, "length": LENGTH}
    assets = {"tokenizer.json": tokenizer.content, "labels.json": json.dumps(labels).encode()}
    peirce.build(spec.replace({"model.heads": heads}), seed=0).save(folder, assets)


def write_tables(folder: Path, files: int, rows: int) -> list[str]:
    """Files of texts of 5 to 60 words; the texts of the first."""
    draw = random.Random(0)
    first: list[str] = []
    for number in range(files):
        texts = [
            " ".join(f"w{draw.randrange(WORDS)}" for _ in range(draw.randint(5, 60))) for _ in range(rows)
        ]
        first = first or texts
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), folder / f"part-{number:03}.parquet")
    return first


def contents(folder: Path) -> dict[str, bytes]:
    """The files that were written."""
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def main() -> None:
    options = parsed(
        __doc__,
        3,
        ("--files", {"type": int, "default": 16}),
        ("--rows", {"type": int, "default": 1_500, "help": "of each file"}),
    )
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    walls: dict[int, list[float]] = {count: [] for count in WORKERS}
    rates: dict[int, list[float]] = {count: [] for count in WORKERS}
    written: list[dict[str, bytes]] = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "in").mkdir()
        write_model(folder / "model", write_tables(folder / "in", options.files, options.rows))
        for _ in range(options.repeats):
            for count in WORKERS:
                out = folder / "out"
                begun = time.perf_counter()
                predict_folder(
                    Job(source=folder / "in", target=out, model=str(folder / "model")), {}, workers=count
                )
                walls[count].append(time.perf_counter() - begun)
                ends = sorted(path.stat().st_mtime for path in out.glob("*.parquet"))
                rates[count].append((options.files - 1) * options.rows / (ends[-1] - ends[0]))
                written.append(contents(out))
                shutil.rmtree(out)
    assert all(each == written[0] for each in written)
    record(
        "folders",
        [
            {"workers": count, "files": options.files, "rows": options.files * options.rows}
            | spread("rows a second", rates[count])
            | beside("rows a second / one process", rates[count], rates[1])
            | spread("seconds, start included", walls[count])
            for count in WORKERS
        ],
    )


if __name__ == "__main__":
    main()

"""How well a table of 200, 1,000 or all rows is learned: text-small and a frozen or fine-tuned encoder, beside TF-IDF.

The tables are SentEval's CR, MR, SUBJ and TREC. Of the first three a tenth of the rows, drawn by the seed, is the test
set; TREC has its own. Of the rows that are drawn for training a tenth is kept aside for validation, by Peirce alone.
Each run is kept at once, so that one that was ended goes on.

python benchmarks/small_tables.py [--ways WAY ...] [--sets NAME ...] [--rows N ...] [--seeds N] [--kept FILE]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from itertools import groupby, product
from pathlib import Path
from typing import Any

import torch
from measuring import RESULTS, SHARED, record
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from peirce.registry import load_spec
from peirce_text.starts import packaged_models, start_of
from peirce_text.tabular.classify import Classify
from peirce_training.loop import train
from peirce_training.settings import make_task, settings_by_part, training_options

FILES = {"CR": "custrev.all", "MR": "rt-polarity.all", "SUBJ": "subj.all", "TREC": "TREC.train.all"}
Rows = list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--sets", nargs="*", default=list(FILES), choices=list(FILES))
    parser.add_argument("--rows", nargs="*", type=int, default=[200, 1000, 0], help="0 for all")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kept", type=Path, default=RESULTS / "small_tables.jsonl")
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = read_runs(options.kept)
    for rows, seed, name, way in product(options.rows, range(options.seeds), options.sets, options.ways):
        key = {"set": name, "rows": rows or "all", "way": way, "seed": seed}
        if any(key.items() <= each.items() for each in done):
            continue
        learned, tested = draw(name, rows, seed)
        since = time.perf_counter()
        run = {**key, **WAYS[way](learned, tested, seed), "seconds": round(time.perf_counter() - since, 1)}
        print(json.dumps(run), flush=True)
        with options.kept.open("a", encoding="utf-8") as file:
            print(json.dumps(run), file=file)
    record("small_tables", summaries(read_runs(options.kept)))


def read_runs(path: Path) -> list[dict[str, Any]]:
    """The runs that are kept."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def summaries(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean of each way over seeds, with its spread."""

    def key(run: dict[str, Any]) -> tuple[Any, ...]:
        return (
            list(FILES).index(run["set"]),
            float(run["rows"] if run["rows"] != "all" else "inf"),
            list(WAYS).index(run["way"]),
        )

    found = []
    for _, group in groupby(sorted(runs, key=key), key):
        same = list(group)
        scores = [100 * each["accuracy"] for each in same]
        row = {name: same[0][name] for name in ("set", "rows", "way")}
        row |= {"accuracy": statistics.mean(scores), "spread": statistics.pstdev(scores), "seeds": len(same)}
        row["seconds"] = statistics.median(each["seconds"] for each in same)
        if "step" in same[0]:
            row["begin kept"] = sum(each["step"] == 0 for each in same)
        found.append(row)
    return found


def read(name: str) -> Rows:
    """The texts of a file with their labels."""
    with gzip.open(SHARED / "data" / "senteval" / f"{name}.gz", "rt", encoding="latin-1") as file:
        found = [line.strip().partition(" ") for line in file if line.strip()]
    return [(text, f"class {label}") for label, _, text in found]


def draw(name: str, count: int, seed: int) -> tuple[Rows, Rows]:
    """Rows to learn from, and rows to test on."""
    rows = read(FILES[name])
    random.Random(seed).shuffle(rows)
    if name == "TREC":
        tested = read("TREC.test.all")
    else:
        tested, rows = rows[: len(rows) // 10], rows[len(rows) // 10 :]
    return rows[:count] if count else rows, tested


def majority(learned: Rows, tested: Rows, seed: int) -> dict[str, Any]:
    """The most frequent class for every row."""
    ((label, _),) = Counter(label for _, label in learned).most_common(1)
    return {"accuracy": sum(each == label for _, each in tested) / len(tested)}


def tf_idf(learned: Rows, tested: Rows, seed: int) -> dict[str, Any]:
    """TF-IDF with a logistic regression, as scikit-learn has them, on all rows."""
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    (texts, labels), (others, right) = (zip(*rows, strict=True) for rows in (learned, tested))
    return {"accuracy": model.fit(texts, labels).score(others, right)}


def text_small(learned: Rows, tested: Rows, seed: int) -> dict[str, Any]:
    """`peirce train text-small --data FILE`."""
    return run_training("text-small", learned, tested, seed)


FROZEN = {"train.steps": 1, "train.lr": 1e-12}
"""A training that keeps what it begins with."""


def begun(learned: Rows, tested: Rows, seed: int) -> dict[str, Any]:
    """`peirce train text-small --data FILE`, ended before its first step."""
    return run_training("text-small", learned, tested, seed, FROZEN)


def frozen(learned: Rows, tested: Rows, seed: int) -> dict[str, Any]:
    """`peirce train --data FILE` with a pretrained encoder, ended before its first step."""
    settings = start_of(packaged_models()[0], "").settings
    return run_training("minilm", learned, tested, seed, settings, FROZEN)


def pretrained(learned: Rows, tested: Rows, seed: int) -> dict[str, Any]:
    """`peirce train --data FILE` with a pretrained encoder."""
    return run_training("minilm", learned, tested, seed, start_of(packaged_models()[0], "").settings)


def run_training(spec: str, learned: Rows, tested: Rows, seed: int, *settings: Any) -> dict[str, Any]:
    """The accuracy of a training on the test rows, and the step whose model is kept."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for option, rows in (("data", learned), ("test_data", tested)):
            files[f"task.{option}"] = str(Path(folder, f"{option}.csv"))
            with open(files[f"task.{option}"], "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("text", "label"), *rows])
        of_model, of_task, of_training = settings_by_part(Classify.settings, *settings, files)
        of_task["split_seed"] = seed
        task, options = make_task("classify", of_task), training_options(of_training)
        result = train(load_spec(spec, of_model), task, options, Path(folder, "model"), seed=seed)
        best = json.loads(Path(folder, "model", "training.json").read_text("utf-8"))["best"]
    return {"accuracy": result.metrics["accuracy"], "step": best["step"]}


WAYS = {
    "majority": majority,
    "TF-IDF": tf_idf,
    "text-small as it begins": begun,
    "text-small": text_small,
    "frozen MiniLM": frozen,
    "MiniLM": pretrained,
}

if __name__ == "__main__":
    main()

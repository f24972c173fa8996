"""How well a table of 200, 1,000 or all rows is learned: text-small and a frozen or fine-tuned encoder, beside TF-IDF.

The tables are SentEval's CR, MR, SUBJ and TREC. Of the first three a tenth of the rows, drawn by the seed, is the test
set; TREC has its own. Of the rows that are drawn for training a tenth is kept aside for validation, by Peirce alone.
Each run is kept at once in results/small_tables.csv, so that one that was ended goes on. With --memory it is the peak
of memory of `peirce train` on 4,000 and 40,000 short texts, in results/small_tables_memory.json.

python benchmarks/small_tables.py [--ways WAY ...] [--sets NAME ...] [--rows N ...] [--seeds N ...]
    [--threads N] [--memory]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from attrs import define, fields_dict
from measuring import RESULTS, SHARED, machine, record
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import Tensor

from peirce.parts import Encoded, Tokens
from peirce.registry import load_spec
from peirce_hf.pretrained.encoder import Pretrained
from peirce_text.tabular.baseline import class_probabilities, count_ngrams
from peirce_text.tabular.classify import Classify
from peirce_training.experiments import read_rows, write_rows
from peirce_training.loop import train
from peirce_training.settings import make_task, settings_by_part, training_options

FILES = {"CR": "custrev.all", "MR": "rt-polarity.all", "SUBJ": "subj.all", "TREC": "TREC.train.all"}
KEPT = RESULTS / "small_tables.csv"
Rows = list[tuple[str, str]]
Found = tuple[int, str]


@define(kw_only=True)
class Run:
    """How many test rows a way has right; the step whose model was kept, 0 for what a training begins with."""

    size: str
    way: str
    set: str
    seed: str
    run: str
    right: int
    tested: int
    step: str
    cpu_seconds: str
    commit: str
    processor: str
    command: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--sets", nargs="*", default=list(FILES), choices=list(FILES))
    parser.add_argument("--rows", nargs="*", type=int, default=[0, 1000, 200], help="0 for all")
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory:
        starts, counts = ("text-small", "MiniLM"), (4_000, 40_000)
        record("small_tables_memory", [peak(start, count) for start in starts for count in counts])
        return
    command = " ".join(["python benchmarks/small_tables.py", *sys.argv[1:]])
    for rows, seed, name, way in product(options.rows, options.seeds, options.sets, options.ways):
        size = f"{rows or 'all'}"
        key = {"size": size, "way": way, "set": name, "seed": f"{seed}", "run": f"{size}/{way}/{seed}"}
        if any((each.run, each.set) == (key["run"], name) for each in read_rows(KEPT, Run)):
            continue
        learned, tested = draw(name, rows, seed)
        since, on = time.process_time(), machine()
        right, step = WAYS[way](learned, tested, seed)
        run = Run(
            **key, right=right, tested=len(tested), step=step, cpu_seconds=f"{time.process_time() - since:.1f}",
            commit=on["commit"], processor=on["processor"], command=command,
        )  # fmt: skip
        print(run, flush=True)
        write_rows(KEPT, sorted([*read_rows(KEPT, Run), run], key=place), list(fields_dict(Run)))


def place(run: Run) -> tuple[int, ...]:
    """Where a run stands in the file: sizes, ways, sets, seeds."""
    size = 10**6 if run.size == "all" else int(run.size)
    return size, list(WAYS).index(run.way), list(FILES).index(run.set), int(run.seed)


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
    return rows[:count] if count else rows, [row for row in tested if row[0]]


def majority(learned: Rows, tested: Rows, seed: int) -> Found:
    """The most frequent class for every row."""
    ((label, _),) = Counter(label for _, label in learned).most_common(1)
    return sum(each == label for _, each in tested), ""


def tf_idf(learned: Rows, tested: Rows, seed: int) -> Found:
    """TF-IDF with a logistic regression, as scikit-learn has them, on all rows."""
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    (texts, labels), (others, right) = (zip(*rows, strict=True) for rows in (learned, tested))
    return int((model.fit(texts, labels).predict(others) == right).sum()), ""


def bag_of_words(learned: Rows, tested: Rows, seed: int) -> Found:
    """What trainings print for comparison: the same on words and pairs of words, with weaker regularisation."""
    texts, labels = zip(*learned, *tested, strict=True)
    names, numbers = np.unique(labels, return_inverse=True)
    counts = count_ngrams([(text,) for text in texts], len(names))
    seen, left_out = np.split(np.arange(len(texts)), [len(learned)])
    shares = class_probabilities(counts, numbers, seen, left_out, len(names))
    return int((shares.argmax(1) == numbers[left_out]).sum()), ""


def text_small(learned: Rows, tested: Rows, seed: int) -> Found:
    """`peirce train text-small --data FILE`."""
    return run_training("text-small", learned, tested, seed)


FROZEN = {"train.steps": 1, "train.lr": 1e-12}
"""A training that keeps what it begins with."""


def begun(learned: Rows, tested: Rows, seed: int) -> Found:
    """`peirce train text-small --data FILE`, ended before its first step."""
    return run_training("text-small", learned, tested, seed, FROZEN)


def frozen(learned: Rows, tested: Rows, seed: int) -> Found:
    """`peirce train --data FILE` with a pretrained encoder, ended before its first step."""
    with mock.patch.object(Pretrained, "forward", read_once):
        return run_training("minilm", learned, tested, seed, fine_tuning(), FROZEN)


VECTORS: dict[bytes, Tensor] = {}
READ = Pretrained.forward


def read_once(self: Pretrained, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
    """What an encoder gives that no step changes, of each text once in all runs; the head reads what is pooled."""
    if self.training:
        return READ(self, inputs)
    tokens = self.input.tokens(inputs)
    real = torch.ones_like(inputs["input_ids"], dtype=torch.bool) if tokens.real is None else tokens.real
    keys = [ids[there].numpy().tobytes() for ids, there in zip(inputs["input_ids"], real, strict=True)]
    if not VECTORS.keys() >= set(keys):
        encoded, _ = READ(self, inputs)
        VECTORS.update(zip(keys, encoded.pooled.clone(), strict=True))
    pooled = torch.stack([VECTORS[key] for key in keys])
    return Encoded(pooled[:, None], None, pooled, self.input.scope(tokens), self._words()), tokens


def pretrained(learned: Rows, tested: Rows, seed: int) -> Found:
    """`peirce train --data FILE` with a pretrained encoder."""
    return run_training("minilm", learned, tested, seed, fine_tuning())


def by_loss(learned: Rows, tested: Rows, seed: int) -> Found:
    """The same, with what is kept judged by the loss."""
    return run_training("minilm", learned, tested, seed, fine_tuning(), {"train.monitor": "loss"})


def fine_tuning() -> Mapping[str, Any]:
    """What a training on classes sets where the package of MiniLM is installed, and no local model is listed."""
    start = Classify.start()
    assert start.spec == "minilm", start.why
    return start.settings


def run_training(spec: str, learned: Rows, tested: Rows, seed: int, *settings: Mapping[str, Any]) -> Found:
    """The accuracy of a training on the test rows, and the step whose model is kept."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for option, rows in (("data", learned), ("test_data", tested)):
            files[f"task.{option}"] = str(Path(folder, f"{option}.csv"))
            with open(files[f"task.{option}"], "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("text", "label"), *rows])
        of_model, of_task, of_training = settings_by_part(Classify.settings, *settings, files)
        of_task |= {"split_seed": seed, "classes": sorted({label for _, label in (*learned, *tested)})}
        task, options = make_task("classify", of_task), training_options(of_training)
        result = train(load_spec(spec, of_model), task, options, Path(folder, "model"), seed=seed)
        best = json.loads(Path(folder, "model", "training.json").read_text("utf-8"))["best"]
    return round(result.metrics["accuracy"] * len(tested)), str(best["step"])


def peak(start: str, count: int) -> dict[str, Any]:
    """The most memory of `peirce train` on texts of four words: what it begins with, 20 steps, and evaluation."""
    whole = [row for name in (*FILES.values(), "mpqa.all") for row in read(name)]
    rows = [(" ".join(text.split()[:4]), label) for text, label in whole if text]
    with tempfile.TemporaryDirectory() as folder:
        with open(Path(folder, "data.csv"), "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *random.Random(0).sample(rows, count)])
        command = ["-P", "-m", "peirce", "train", *(["text-small"] if start == "text-small" else [])]
        command += ["--data", f"{folder}/data.csv", "-o", f"{folder}/model", "--set", "train.steps=20"]
        process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
    assert status == 0, command
    return {"start": start, "rows": count, "MB": used.ru_maxrss / 1024}


WAYS = {
    "majority": majority,
    "TF-IDF": tf_idf,
    "TF-IDF of pairs": bag_of_words,
    "text-small as it begins": begun,
    "text-small": text_small,
    "frozen MiniLM": frozen,
    "MiniLM, judged by loss": by_loss,
    "MiniLM": pretrained,
}

if __name__ == "__main__":
    main()

"""SentEval's tasks with a few sentences each, in the formats of their files."""

from __future__ import annotations

import gzip
from pathlib import Path

GOOD, BAD = "the dog runs .", "a cat sits"


def write_senteval(folder: Path, count: int = 20) -> None:
    """Write MR, SST-2, TREC, MRPC, SICK and a year of STS, whose labels their sentences give away."""
    rows = [f"{i % 2} {(BAD, GOOD)[i % 2]}" for i in range(count)]
    text = "\n".join(rows) + "\n"
    for name in (
        "rt-polarity.all",
        "stsa.binary.train",
        "stsa.binary.dev",
        "stsa.binary.test",
        "TREC.train.all",
    ):
        (folder / name).write_text(text, encoding="utf-8")
    with gzip.open(folder / "TREC.test.all.gz", "wt", encoding="latin-1") as file:
        file.write(f"0 {BAD}\n1 {GOOD}\n1 caf\xe9 {GOOD}\n")
    for name in ("train", "val", "test"):
        pairs = [f"{i % 2}\t1\t2\t{GOOD}\t{(BAD, GOOD)[i % 2]}" for i in range(count)]
        content = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *pairs]
        (folder / f"msr-para-{name}.tsv").write_text("\ufeff" + "\n".join(content) + "\n", encoding="utf-8")
    for name in ("train", "trial", "test_annotated"):
        labels = ("NEUTRAL\t2.5", "ENTAILMENT\t4.6")
        pairs = [
            "\t".join([str(i), GOOD, (BAD, GOOD)[i % 2], *reversed(labels[i % 2].split("\t"))])
            for i in range(count)
        ]
        head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
        (folder / f"SICK_{name}.tsv").write_text("\n".join([head, *pairs]) + "\n", encoding="utf-8")
    (folder / "sts").mkdir()
    lines = [f"5.0\t{GOOD}\t{GOOD}", f"1.0\t{GOOD}\t{BAD}", f"\t{BAD}\t{BAD}", "4.0\tthe dog .\tthe dog runs"]
    for name in ("images", "belief"):
        (folder / "sts" / f"2015.{name}.test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")

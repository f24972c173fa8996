"""Composition tables that trained networks hold, beside the true one.

A network of `peirce experiments run relations/rcc8` or `intervals` is asked for the relation of the two ends of two
edges, for each pair of basic relations. Its scores order the triples; those of the true table should come first.

python benchmarks/compositions.py runs/rcc8 --algebra rcc8
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import torch
from measuring import record
from numpy.typing import NDArray

import peirce
from peirce_papers.relations.experiments import TEXT, GraphRow
from peirce_relations.calculi.algebra import RelationAlgebra, calculus
from peirce_relations.encoding import LABELS, Relations
from peirce_relations.graphs import Problem
from peirce_training.experiments import read_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the experiment keeps its models")
    parser.add_argument("--algebra", required=True, help="rcc8 or interval")
    asked = parser.parse_args()
    algebra, rows = calculus(asked.algebra), []
    runs = {row.run: row for row in read_rows(asked.folder / "results.csv", GraphRow) if row.arm != TEXT}
    for run, row in runs.items():
        scores = held(asked.folder / run, algebra)
        true = algebra.composition
        unique = true.sum(2) == 1
        rows.append(
            {
                "network": row.arm,
                "seed": row.seed,
                "unique": f"{(scores.argmax(2) == true.argmax(2))[unique].sum()} of {unique.sum()}",
                "first": f"{np.take_along_axis(true, scores.argmax(2)[..., None], 2).sum()} of {unique.size}",
                "order": order(scores, true),
                "commit": row.commit,
            }
        )
        print(rows[-1], flush=True)
    record(f"compositions-{asked.algebra}", rows)


def held(folder: Path, algebra: RelationAlgebra) -> NDArray[np.float64]:
    """The log-probability [r, s, t] that a network gives to t from x to z, where x r y and y s z."""
    model = peirce.load(folder).eval()
    relations = Relations.from_json((folder / "assets" / LABELS).read_text(encoding="utf-8"), str(folder))
    pairs = list(product(algebra.relations, repeat=2))
    asked = [
        Problem(nodes=3, edges=((0, 1), (1, 2)), labels=pair, query=(0, 2), answer=None) for pair in pairs
    ]
    given = {name: torch.from_numpy(array) for name, array in relations.arrays(asked).items()}
    with torch.no_grad():
        scores = model(**given)["relation_logits"][:, 0, 2].double().log_softmax(1).numpy()
    places = [relations.names.index(name) for name in algebra.relations]
    return scores[:, places].reshape(algebra.composition.shape)


def order(scores: NDArray[np.float64], true: NDArray[np.bool_]) -> float:
    """How often a triple of the true table has a higher score than one that is not in it; ties count half."""
    inside, outside = scores[true], np.sort(scores[~true])
    below = np.searchsorted(outside, inside, "left") + np.searchsorted(outside, inside, "right")
    return round(float(below.mean()) / 2 / len(outside), 4)


if __name__ == "__main__":
    main()

"""What TPRU's Table 3 depends on: sentence vectors before and after training on inference, on a year of STS.

A model's vectors are compared by cosines, and by cosines after the mean of all vectors is subtracted. *Directions* are
the exponential of the entropy of the shares of variance along the principal axes: d where d channels vary alike and
independently, 1 where all vectors lie on a line.

python benchmarks/directions.py MODEL... --data FOLDER [--cache FOLDER]

MODELs are folders of trained models, as `peirce experiments run tpru/table2 -o FOLDER` leaves them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from measuring import record
from numpy.typing import NDArray

from peirce.compose import build, load
from peirce_tpru.senteval.files import read_task
from peirce_tpru.senteval.sentences import sentences_of

YEAR = "STS14"
POOLS = ("max", "mean", "last")
Vectors = NDArray[np.float32]


def main() -> None:
    """Measure each model, trained and as it began, by each way to pool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--data", required=True, type=Path, help="the folder of SentEval's tasks")
    parser.add_argument("--cache", default="", help="a folder that keeps an encoder's vectors of words")
    asked = parser.parse_args()
    sets = read_task(asked.data, YEAR).values()
    rows = []
    for folder in asked.models:
        trained = load(folder)
        for state, model in (("trained", trained), ("as it began", build(trained.spec, seed=0))):
            for pool in POOLS:
                sentences = sentences_of(folder, model=model.eval(), pool=pool, cache=asked.cache)
                found = []
                for own in sets:
                    sentences.keep([text for column in own.texts for text in column])
                    one, other = (sentences.of(column, YEAR) for column in own.texts)
                    found.append(
                        (*similarities(one, other, own.labels), directions(np.concatenate([one, other])))
                    )
                weights = [len(own) for own in sets]
                plain, centred, count = np.average(found, axis=0, weights=weights).round(4).tolist()
                about = {"model": str(trained.spec.operators.layer), "weights": state, "pool": pool}
                measured = {"pearson": plain, "pearson centred": centred, "directions": count}
                rows.append(about | {"channels": trained.plan.dims.unary} | measured)
                print(rows[-1], flush=True)
    record("directions", rows)


def similarities(one: Vectors, other: Vectors, scores: NDArray[np.float64]) -> tuple[float, float]:
    """Pearson's correlation of scores [n] with the cosines of pairs [n, d], as they are and centred."""
    middle = np.concatenate([one, other]).mean(0)
    plain, centred = (
        np.corrcoef(cosines(one - shift, other - shift), scores)[0, 1] for shift in (0 * middle, middle)
    )
    return float(plain), float(centred)


def cosines(one: Vectors, other: Vectors) -> Vectors:
    """Of each pair: [n, d], [n, d] -> [n]."""
    return np.asarray((one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1))


def directions(vectors: Vectors) -> float:
    """How many directions vectors [n, d] vary in."""
    shares = np.linalg.svd(vectors - vectors.mean(0), compute_uv=False) ** 2
    shares = shares[shares > 0] / shares.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


if __name__ == "__main__":
    main()

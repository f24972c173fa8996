"""How far the relations that are found in the package's annotated sentences agree with the annotations.

By half, by lexicon and by relation. The rules were developed on the first sentence and every second.

python benchmarks/sentences.py [--parser NAME]
"""

from __future__ import annotations

import argparse

from attrs import asdict
from measuring import record

from peirce_logic.detection.agreement import Agreement, agreements, read_annotated
from peirce_logic.detection.lexicon import NAMED
from peirce_logic.detector import Detector

HALVES = {"development": slice(0, None, 2), "kept aside": slice(1, None, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parser", default="spacy")
    name = parser.parse_args().parser
    rows = []
    for lexicon in NAMED:
        detector = Detector(name, lexicon)
        for half, part in HALVES.items():
            sentences = read_annotated()[part]
            found = [each.relations for each in detector.find([each.text for each in sentences])]
            counts = agreements(sentences, found, detector.lexicon)
            counts["all"] = sum(counts.values(), Agreement())
            rows += [
                {"relation": relation.replace("_", " "), "lexicon": lexicon, "half": half, "parser": name}
                | asdict(each)
                | each.shares
                for relation, each in counts.items()
            ]
    record("sentences", rows)


if __name__ == "__main__":
    main()

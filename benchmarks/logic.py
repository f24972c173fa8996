"""Relations of texts: parsing, and reading from the cache what was parsed before.

The texts are the lexicon's example sentences, numbered so that no two are the same, or the lines of a file.

With --model, what that costs beside the forward pass of a pretrained encoder, sentence by sentence.

python benchmarks/logic.py [--sentences N] [--parser NAME] [--text FILE]
python benchmarks/logic.py --model FOLDER [--repeats N] [--clock wall|cpu]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import peirce
import torch
from measuring import CLOCKS, record, seconds
from peirce.files import read_text
from peirce_logic.detection.lexicon import read_lexicon
from peirce_logic.detector import Detector
from peirce_logic.ids import row_ids
from peirce_text import Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--parser", default="spacy")
    parser.add_argument("--text", type=Path, help="a file of sentences, one a line")
    parser.add_argument("--model", help="the folder of MiniLM")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="cpu")
    options = parser.parse_args()
    if options.model is not None:
        record("logic-model", beside_the_model(options))
        return
    if options.text is None:
        examples = [keyword.example.rstrip(".") for keyword in read_lexicon().keywords]
        texts = [f"{examples[i % len(examples)]} {i}." for i in range(options.sentences)]
    else:
        texts = [line for line in read_text(options.text).splitlines() if line.strip()][: options.sentences]
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


def beside_the_model(options: argparse.Namespace) -> list[dict[str, object]]:
    """Milliseconds a sentence of the lexicon's examples, one at a time: relations, ids of tokens, and the model."""
    texts = [keyword.example for keyword in read_lexicon().keywords]
    tokenizer = Tokenizer.load(options.model)
    encodings = [tokenizer.encode(text, length=128) for text in texts]
    with TemporaryDirectory() as folder:
        plain = Detector(options.parser)
        kept = Detector(options.parser, cache=Path(folder, "relations.sqlite"))
        kept.find(texts)
        found = {text: plain.find([text]) for text in texts}
        levels = [
            torch.from_numpy(row_ids([found[text][0].relations], encoding, 3))[None]
            for text, encoding in zip(texts, encodings, strict=True)
        ]
        ids = [torch.tensor([encoding.ids]) for encoding in encodings]
        models = {
            name: peirce.build(peirce.load_spec(name, {"model.options.source": options.model})).eval()
            for name in ("minilm", "logical-minilm")
        }

        @torch.inference_mode()
        def forward(name: str) -> None:
            for words, logical in zip(ids, levels, strict=True):
                more = {} if name == "minilm" else {"logical_ids": logical}
                models[name](input_ids=words, **more)

        ways = {
            "relations, parsed": lambda: [plain.find([text]) for text in texts],
            "relations, from the cache": lambda: [kept.find([text]) for text in texts],
            "ids of tokens": lambda: [
                row_ids([found[text][0].relations], encoding, 3)
                for text, encoding in zip(texts, encodings, strict=True)
            ],
            "forward pass, minilm": lambda: forward("minilm"),
            "forward pass, logical-minilm": lambda: forward("logical-minilm"),
        }
        times = seconds(ways, options.repeats, CLOCKS[options.clock])
    whole = times["forward pass, minilm"]
    return [
        {
            "what": what,
            "ms": 1000 * took / len(texts),
            "time / forward": took / whole,
            "sentences": len(texts),
            "clock": options.clock,
            "parser": options.parser,
        }
        for what, took in times.items()
    ]


if __name__ == "__main__":
    main()

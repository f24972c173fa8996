"""Relations of texts: parsing, and reading from the cache what was parsed before.

The texts are the lexicon's example sentences, numbered so that no two are the same, or the lines of a file.

With --model, what that costs beside the forward pass of a pretrained encoder, sentence by sentence.

python benchmarks/logic.py [--sentences N] [--parser NAME] [--text FILE]
python benchmarks/logic.py --model FOLDER [--repeats N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from measuring import beside, parsed, record, spread, turns

import peirce
from peirce.files import read_text
from peirce_logic.detection.lexicon import read_lexicon
from peirce_logic.detector import Detector
from peirce_logic.ids import row_ids
from peirce_text import Tokenizer


def main() -> None:
    options = parsed(
        __doc__, 5,
        ("--sentences", {"type": int, "default": 2000, "help": "parsed in each turn"}),
        ("--parser", {"default": "spacy"}),
        ("--text", {"type": Path, "help": "a file of sentences, one a line"}),
        ("--model", {"help": "the folder of MiniLM"}),
    )  # fmt: skip
    if options.model is not None:
        record("logic-model", beside_the_model(options))
        return
    count = options.sentences * (options.repeats + 1)
    if options.text is None:
        examples = [keyword.example.rstrip(".") for keyword in read_lexicon().keywords]
        texts = [f"{examples[i % len(examples)]} {i}." for i in range(count)]
    else:
        texts = [line for line in read_text(options.text).splitlines() if line.strip()][:count]
    size = len(texts) // (options.repeats + 1)
    with TemporaryDirectory() as folder:
        detector = Detector(options.parser, cache=Path(folder, "relations.sqlite"))
        found = {}
        ways: dict[str, Callable[[], None]] = {}
        for what in ("parsed", "read from the cache"):
            starts = iter(range(0, len(texts), size))

            def run(what: str = what, starts: Iterator[int] = starts) -> None:
                start = next(starts)
                found[what] = detector.find(texts[start : start + size])

            ways[what] = run
        times = turns(ways, options.repeats)
    record(
        "logic",
        [
            {
                "relations": what,
                "parser": options.parser,
                "sentences": size,
                "found": float(sum(len(each.relations) for each in found[what])),
                **spread("sentences / s", [size / each for each in times[what]]),
                **beside("time / parsed", times[what], times["parsed"]),
            }
            for what in ways
        ],
    )


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
        times = turns(ways, options.repeats)
    return [
        {
            "what": what,
            **spread("ms", [1e3 * each / len(texts) for each in took]),
            **beside("time / forward", took, times["forward pass, minilm"]),
            "sentences": len(texts),
            "parser": options.parser,
        }
        for what, took in times.items()
    ]


if __name__ == "__main__":
    main()

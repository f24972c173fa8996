"""A forward pass of folnet-base over texts that are padded, beside the same texts with every column real, and BERT.

python benchmarks/padding.py [--repeats N] [--length N] [--layers N]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from measuring import beside, parsed, peak_bytes, record, spread, turns
from models import OURS, PEER, VOCABULARY, models

TEXTS = ((128,) * 8, (128, 97, 71, 45, 31, 88, 60, 110), (50,) * 8)
"""Tokens of each text of a batch."""


def main() -> None:
    options = parsed(
        __doc__, 7,
        ("--length", {"type": int, "default": 128}),
        ("--layers", {"type": int, "default": 2}),
    )  # fmt: skip
    torch.manual_seed(0)
    found = {name: model.eval() for name, model in models(options.layers).items() if name in (PEER, OURS)}
    ways: dict[tuple[str, tuple[int, ...]], Callable[[], object]] = {}
    for texts in TEXTS:
        ids = torch.randint(VOCABULARY, (len(texts), options.length))
        mask = torch.arange(options.length) < torch.tensor(texts).unsqueeze(1)
        for name, model in found.items():
            ways[name, texts] = lambda model=model, ids=ids, mask=mask: model(
                input_ids=ids, attention_mask=mask.to(ids.dtype) if model is found[PEER] else mask
            )
    with torch.no_grad():
        times = turns(ways, options.repeats)
        peaks = {way: peak_bytes(ways[way]) for way in ways}
    record(
        "padding",
        [
            {
                "model": name,
                "tokens": ", ".join(map(str, texts)),
                "columns": options.length,
                **spread("ms", [1e3 * each for each in times[name, texts]]),
                **beside("time / unpadded", times[name, texts], times[name, TEXTS[0]]),
                **beside("time / BERT", times[name, texts], times[PEER, texts]),
                "peak MiB": peaks[name, texts] / 2**20,
            }
            for name, texts in ways
        ],
    )


if __name__ == "__main__":
    main()

"""What a small pass costs beside Hugging Face's modules of the same sizes: Python and dispatch, hardly arithmetic.

Two layers, 64 channels (of relations 16 or 64), four heads, one text of 16 tokens, CPU time of one thread. Each model
is measured beside its peer in turns. One more token is the mean over a
text of 32 generated tokens with cached keys and values.

python benchmarks/overhead.py [--repeats N]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tomlkit
import torch
from measuring import beside, parsed, record, spread, turns
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

import peirce

LENGTH, NEW, VOCABULARY = 16, 32, 1000
SIZES = {"layers": 2, "unary": 64, "heads": 4, "feedforward": 256}
RELATIONS = {"layers": 2, "unary": 64, "binary": 16, "heads": 4, "head_size": 16}
AIMS = {"transformer": 1.15, "folnet": 2.6, "folnet, 64 binary channels": 2.6, "one more token": 1.15}


def model_of(architecture: str, dims: dict[str, int], position: str, **more: Any) -> peirce.Model:
    """A small model with `position`."""
    plain = {"name": "small", "architecture": architecture, "dims": dims, "input": {"vocabulary": VOCABULARY}}
    positions = {"positions": [{"use": position}]}
    spec = tomlkit.dumps({"format": 1, "model": {**plain, **positions, **more}})
    return peirce.build(peirce.Spec.from_toml(spec)).eval()


def passes() -> dict[str, Callable[[], object]]:
    """One forward pass of each encoder."""
    shared = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    bert = BertModel(BertConfig(**shared, intermediate_size=256)).eval()
    transformer = model_of("transformer", SIZES, "absolute")
    folnet = model_of("folnet", RELATIONS, "distance")
    wide = model_of("folnet", {**RELATIONS, "binary": 64}, "distance")
    ids = torch.randint(VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(0))
    return {
        "BERT": lambda: bert(ids),
        "transformer": lambda: transformer(input_ids=ids),
        "folnet": lambda: folnet(input_ids=ids),
        "folnet, 64 binary channels": lambda: wide(input_ids=ids),
    }


def tokens() -> dict[str, Callable[[], object]]:
    """A generated text, token by token."""
    sizes = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}
    gpt2 = GPT2LMHeadModel(GPT2Config(**sizes)).eval()
    ours = model_of(
        "transformer", SIZES, "absolute",
        options={"norm": "pre", "pooler": False}, scope={"kind": "causal"}, heads=[{"use": "causal_lm"}],
    )  # fmt: skip
    prompt = torch.randint(VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(0))

    def theirs_text() -> None:
        past, ids = None, prompt
        for _ in range(NEW):
            output = gpt2(ids, past_key_values=past, use_cache=True)
            past, ids = output.past_key_values, output.logits[:, -1:].argmax(-1)

    def our_text() -> None:
        cache: dict[str, torch.Tensor] = {}
        ids = prompt
        for _ in range(NEW):
            outputs, cache = ours.advance({"input_ids": ids}, cache)
            ids = outputs["causal_lm_logits"][:, -1:].argmax(-1)

    return {"GPT-2": theirs_text, "one more token": our_text}


@torch.no_grad()
def main() -> None:
    options = parsed(__doc__, 5)
    rows = []
    for ways, passed, often in ((passes(), 1, 100), (tokens(), NEW, 8)):
        found = turns(ways, options.repeats, often=often)
        peer, *others = ways
        each = 1e3 / passed
        for name in others:
            rows.append(
                {
                    "what": name,
                    "beside": peer,
                    **spread("milliseconds", [each * own for own in found[name]]),
                    **spread("its milliseconds", [each * own for own in found[peer]]),
                    **beside("ratio", found[name], found[peer]),
                    "aim": AIMS[name],
                }
            )
    record("overhead", rows)


if __name__ == "__main__":
    main()

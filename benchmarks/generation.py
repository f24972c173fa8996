"""Generating with cached keys and values, against recomputing the whole text at each token, at 32 to 512 tokens.

Both ways give the same tokens. The cache costs O(T) a token, and O(T^2 d2) where relations are composed (trans).

And one token at 512 beside transformers' models of the same sizes and their caches, in torch and in ONNX Runtime, and
whole texts with beams.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from measuring import beside, parsed, record, spread, turns
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DynamicCache,
    EncoderDecoderCache,
    GPT2Config,
    GPT2LMHeadModel,
)

import peirce

Ways = dict[str, Callable[[], object]]
LENGTHS = (32, 64, 128, 256, 512)
LAYERS = ("j.a", "jmc.ap", "jmc.atp")


def model_of(layer: str) -> peirce.Model:
    """folnet-causal with fewer layers, so that the uncached way ends: the ratio does not depend on their number."""
    changes: dict[str, Any] = {"model.dims.layers": 2, "model.input.max_length": 1024}
    changes |= {"model.operators.layer": layer, "model.operators.options": {}}
    if "c" in layer.partition(".")[0]:
        changes["model.operators.options"] = {"cjoin": {"premise": "paper"}}
    return peirce.build(peirce.load_spec("folnet-causal").replace(changes)).eval()


@torch.no_grad()
def ways(model: peirce.Model, length: int) -> dict[str, Callable[[], object]]:
    """One more token after `length - 1` others, from a cached state and by reading all of them."""
    text = torch.randint(0, 32768, (1, length), generator=torch.Generator().manual_seed(0))
    _, cache = model.advance({"input_ids": text[:, :-1]}, {})
    new = {"input_ids": text[:, -1:]}

    @torch.no_grad()
    def cached() -> None:
        model.advance(new, cache)

    @torch.no_grad()
    def whole() -> None:
        model(input_ids=text)

    return {"cached": cached, "whole": whole}


GPT2 = {"n_embd": 768, "n_layer": 4, "n_head": 12, "n_positions": 1024}
BART = {
    "encoder_layers": 1, "decoder_layers": 4, "d_model": 768, "max_position_embeddings": 1024,
    "decoder_attention_heads": 12, "encoder_attention_heads": 12, "decoder_ffn_dim": 3072, "encoder_ffn_dim": 3072,
}  # fmt: skip
SPECIAL = {"vocab_size": 32768, "bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
OURS = """
format = 1
[model]
name = "small"
architecture = "transformer"
dims = { layers = 4, unary = 768, heads = 12 }
input = { vocabulary = 32768, max_length = 1024 }
scope = { kind = "causal" }
positions = [{ use = "absolute" }]
options = { norm = "pre", pooler = false }
heads = [{ use = "causal_lm" }]
"""
LENGTH, BEAMS, NEW = 512, 4, 24


class CachedStep(torch.nn.Module):
    """GPT-2's step as `transformers` caches it, with keys and values in and out: what is exported beside ours."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, *kept: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache = DynamicCache(list(zip(kept[::2], kept[1::2], strict=True)))
        logits = self.model(ids, past_key_values=cache, use_cache=True).logits
        return (logits, *(each for layer in cache.layers for each in (layer.keys, layer.values)))


def pretrained(architecture: str, config: dict[str, Any], kind: str) -> peirce.Model:
    """An architecture of `transformers` in Peirce."""
    scope = {"model.scope.kind": "causal"} if kind == "gpt2" else {}
    spec = peirce.Spec(
        name="small", architecture=architecture, dims={}, options={"config": {"model_type": kind, **config}}
    )
    return peirce.build(spec.replace({**scope, "model.heads": [{"use": "causal_lm"}]})).eval()


@torch.no_grad()
def steps(gpt2: Any, models: dict[str, peirce.Model], rows: int) -> Ways:
    """One token after 511 others."""
    ids = torch.randint(SPECIAL["vocab_size"], (rows, LENGTH), generator=torch.Generator().manual_seed(0))
    before, new = ids[:, :-1], ids[:, -1:]
    kept = [(layer.keys, layer.values) for layer in gpt2(before, use_cache=True).past_key_values.layers]
    states = {name: model.advance({"input_ids": before}, {})[1] for name, model in models.items()}
    found: Ways = {"GPT-2": lambda: gpt2(new, past_key_values=DynamicCache(kept), use_cache=True)}
    return found | {
        name: lambda m=model, s=states[name]: m.advance({"input_ids": new}, s)
        for name, model in models.items()
    }


@torch.no_grad()
def targets(bart: Any, ours: peirce.Model, rows: int) -> Ways:
    """One token of a target after 511 others, of a source of 512."""
    random = torch.Generator().manual_seed(0)
    source, ids = torch.randint(2, SPECIAL["vocab_size"], (2, rows, LENGTH), generator=random)
    before, new = ids[:, :-1], ids[:, -1:]
    read = bart(input_ids=source, decoder_input_ids=before, use_cache=True)
    both = read.past_key_values.self_attention_cache, read.past_key_values.cross_attention_cache
    kept = [[(layer.keys, layer.values) for layer in cache.layers] for cache in both]
    encoded = (read.encoder_last_hidden_state,)
    _, state = ours.advance({"input_ids": source, "decoder_input_ids": before}, {})

    def theirs() -> None:
        cache = EncoderDecoderCache(*(DynamicCache(list(each)) for each in kept))
        bart(encoder_outputs=encoded, decoder_input_ids=new, past_key_values=cache, use_cache=True)

    return {
        "BART": theirs,
        "pretrained_encoder_decoder": lambda: ours.advance({"decoder_input_ids": new}, state),
    }


def beams(gpt2: Any, ours: peirce.Model, session: peirce.Session) -> Ways:
    """24 tokens after 488, with four beams."""
    size = LENGTH - NEW
    ids = torch.randint(2, SPECIAL["vocab_size"], (1, size), generator=torch.Generator().manual_seed(0))
    asked = {"num_beams": BEAMS, "max_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
    return {
        "GPT-2": lambda: gpt2.generate(ids, attention_mask=torch.ones_like(ids), **asked),
        "transformer": lambda: ours.generate({"input_ids": ids}, max_new=NEW, beams=BEAMS),
        "transformer, ONNX Runtime": lambda: session.generate(
            {"input_ids": ids.numpy()}, max_new=NEW, beams=BEAMS
        ),
    }


def graphs(gpt2: Any, models: dict[str, peirce.Model], folder: Path) -> dict[str, Path]:
    """The files of the steps; those of ours beside the file that reads prompts."""
    kept = [torch.randn(2, 12, 7, 64) for _ in range(2 * GPT2["n_layer"])]
    batch, past = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("past", min=1, max=1023)
    shapes = ({0: batch}, tuple({0: batch, 2: past} for _ in kept))
    program = torch.onnx.export(
        CachedStep(gpt2).eval(), (torch.ones(2, 1, dtype=torch.int64), *kept), dynamo=True, dynamic_shapes=shapes
    )  # fmt: skip
    files = {"GPT-2": folder / "gpt2.onnx"}
    program.save(files["GPT-2"])
    for name, model in models.items():
        (folder / name).mkdir()
        peirce.export(model, path=folder / name / "model.onnx", to="onnx", generate=True)
        files[name] = folder / name / "model.step.onnx"
    return files


def runs(files: dict[str, Path], rows: int) -> Ways:
    """The steps in ONNX Runtime, after 511 tokens."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    random = np.random.default_rng(0)
    types: dict[str, Callable[[list[int]], Any]] = {
        "tensor(float)": lambda shape: random.standard_normal(shape).astype(np.float32),
        "tensor(bool)": lambda shape: np.ones(shape, np.bool_),
        "tensor(int64)": lambda shape: random.integers(2, 99, shape),
    }
    found: Ways = {}
    for name, file in files.items():
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        feeds = {}
        for given in session.get_inputs():
            shape = [rows, *(LENGTH - 1 if isinstance(dim, str) else dim for dim in given.shape[1:])]
            feeds[given.name] = types[given.type](shape)
        found[name] = lambda session=session, feeds=feeds: session.run(None, feeds)
    return found


def compared(what: str, ways: Ways, repeats: int) -> Iterator[dict[str, Any]]:
    """The ratios to the first of the ways."""
    found = turns(ways, repeats)
    peer, *others = ways
    for name in others:
        yield {
            "what": what,
            "model": name,
            "beside": peer,
            **spread("milliseconds", [1e3 * each for each in found[name]]),
            **spread("its milliseconds", [1e3 * each for each in found[peer]]),
            **beside("ratio", found[name], found[peer]),
        }


@torch.no_grad()
def beside_transformers(repeats: int) -> None:
    """Record what a token and beams cost beside `transformers`."""
    gpt2 = GPT2LMHeadModel(GPT2Config(**GPT2, **SPECIAL)).eval()
    models = {
        "transformer": peirce.build(peirce.Spec.from_toml(OURS)).eval(),
        "pretrained_decoder": pretrained("pretrained_decoder", {**GPT2, **SPECIAL}, "gpt2"),
    }
    bart = BartForConditionalGeneration(BartConfig(**BART, **SPECIAL)).eval()
    ours = pretrained("pretrained_encoder_decoder", {**BART, **SPECIAL}, "bart")
    rows: list[dict[str, Any]] = []
    for texts, said in ((1, "one token"), (BEAMS, f"one token of {BEAMS} texts")):
        rows += compared(f"{said}, torch", steps(gpt2, models, texts), repeats)
        rows += compared(f"{said} of a target, torch", targets(bart, ours, texts), repeats)
    with tempfile.TemporaryDirectory() as folder:
        files = graphs(gpt2, models, Path(folder))
        for texts, said in ((1, "one token"), (BEAMS, f"one token of {BEAMS} texts")):
            rows += compared(f"{said}, ONNX Runtime", runs(files, texts), repeats)
        with peirce.Session(files["transformer"].with_name("model.onnx"), threads=1) as session:
            rows += compared(f"{NEW} tokens, {BEAMS} beams", beams(gpt2, models["transformer"], session), 3)
    record("generation_beside", rows)


def main() -> None:
    only = {"action": "store_true", "help": "measure beside transformers, and nothing else"}
    options = parsed(__doc__, 7, ("--beside", only))
    repeats = options.repeats
    beside_transformers(repeats)
    if options.beside:
        return
    rows = []
    for layer in LAYERS:
        model = model_of(layer)
        for length in LENGTHS:
            times = turns(ways(model, length), min(repeats, 3))
            rows.append(
                {
                    "layer": layer,
                    "tokens": length,
                    **spread("with a memory, ms", [1e3 * each for each in times["cached"]]),
                    **spread("without, ms", [1e3 * each for each in times["whole"]]),
                    **beside("with / without", times["cached"], times["whole"]),
                }
            )
    record("generation", rows)


if __name__ == "__main__":
    main()

"""Saved models that take whole questions, at the smallest widths: of a graph, of texts, and one that writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from small_specs import NARROW

from peirce.compose import build
from peirce.registry import Registry, load_spec
from peirce.spec import Spec
from peirce_text import Tokenizer

CLASSES = ("calm", "stormy", "foggy")
TEXTS = [f"the {sea} is {word} today" for sea in ("sea", "bay", "lake") for word in CLASSES]

TEXT = """
format = 1
[model]
name = "weather"
architecture = "transformer"
[model.dims]
layers = 1
unary = 8
heads = 2
[model.input]
vocabulary = {vocabulary}
max_length = 40
token_types = 2
[model.regularisation]
init_std = 0.5
[[model.positions]]
use = "absolute"
"""
CLASSIFIER = f'{TEXT}[[model.heads]]\nuse = "classification"\nclasses = {len(CLASSES)}\n'
WRITER = TEXT.replace('"weather"', '"novelist"') + (
    '[[model.heads]]\nuse = "causal_lm"\nas = "lm"\n[model.scope]\nkind = "causal"\n'
)


BERT = {
    "model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
    "max_position_embeddings": 64,
}  # fmt: skip
BART = {
    "model_type": "bart", "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "max_position_embeddings": 64,
    "decoder_start_token_id": 3,
}  # fmt: skip


def logical(config: Mapping[str, Any]) -> Spec:
    """A model of transformers with the augmenter `logical`, which reads relations of two levels."""
    return Spec(
        name="small",
        architecture="pretrained_encoder_decoder" if config is BART else "pretrained",
        dims={},
        options={"config": dict(config)},
        augmenters=[{"use": "logical", "depth": 2}],
    ).replace({"model.regularisation.init_std": 0.5})


def graph_model(folder: Path, registry: Registry) -> Path:
    """A narrow TEGA over the graph Nations, with its vocabulary and triples."""
    from peirce_kg.task import KgQa, KgQaOptions  # tests of other distributions run without peirce-kg

    task = KgQa(KgQaOptions(graph="nations", types=("1p",), train_queries=5, eval_queries=5))
    data = task.prepare()
    spec = load_spec("tega", {**task.overrides(data), **NARROW, "model.regularisation.init_std": 0.5})
    build(spec, registry=registry, seed=0).save(folder, task.assets(data))
    return folder


def text_model(spec: str, folder: Path, registry: Registry, seed: int = 0) -> Path:
    """A model of texts, with a tokenizer and the names of three classes."""
    tokenizer = Tokenizer.train(TEXTS, vocabulary=60, min_frequency=1)
    whole = Spec.from_toml(spec.format(vocabulary=tokenizer.vocabulary))
    labels = json.dumps({"task": "weather", "labels": ["0", "1", "2"], "classes": CLASSES}).encode()
    assets = {"tokenizer.json": tokenizer.content, "labels.json": labels}
    build(whole, registry=registry, seed=seed).save(folder, assets)
    return folder

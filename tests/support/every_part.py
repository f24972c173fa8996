"""A spec for each composition of registered parts, at the smallest widths: what every export is tried on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peirce.registry import load_spec, ready_specs
from peirce.spec import Spec

SMALLEST = {
    "layers": 1,
    "unary": 8,
    "embedding": 6,
    "binary": 4,
    "heads": 2,
    "head_size": 4,
    "feedforward": 12,
    "feedforward_unary": 12,
    "feedforward_binary": 6,
}
HEADS = {"first": 4, "count": 9}
CONFIG = {
    "vocab_size": 20, "hidden_size": 8, "d_model": 8, "intermediate_size": 12, "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 12, "num_hidden_layers": 1, "encoder_layers": 1, "decoder_layers": 1,
    "num_attention_heads": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip
"""The widths of a model of transformers, by the names of its configuration."""
INIT_STD = {"lmpnn": 0.3}
"""Where fresh weights of 0.02 would shrink the states, at these widths, to 1e-15, which float16 does not hold."""
KINDS = ("operators", "positions", "augmenters", "heads", "architectures")

FOLNET = """
format = 1
[model]
name = "part"
architecture = "folnet"
[model.dims]
layers = 1
unary = 8
binary = 4
heads = 2
head_size = 4
[model.input]
vocabulary = 20
max_length = 40
"""
TRANSFORMER = """
format = 1
[model]
name = "part"
architecture = "transformer"
[model.dims]
layers = 1
unary = 8
heads = 2
[model.input]
vocabulary = 20
max_length = 40
"""
VARIANTS = {
    "causal": FOLNET
    + """
[model.scope]
kind = "causal"
[model.operators]
layer = "jmc.atp"
[model.operators.options.cjoin]
premise = "paper"
batch_over = "heads"
[[model.positions]]
use = "distance"
clip = 4
[[model.heads]]
use = "causal_lm"
""",
    "decoder": FOLNET.replace("folnet", "folnet_encoder_decoder")
    + """
[model.operators]
layer = "jmc.atp"
[model.operators.options.cjoin]
premise = "paper"
[[model.positions]]
use = "distance"
clip = 4
[[model.heads]]
use = "causal_lm"
as = "lm"
""",
    "prefix": FOLNET
    + """
[model.options]
wiring = "parallel"
affine_norm = true
diag_link = true
[model.scope]
kind = "prefix"
[model.operators]
layer = "jmc.atp"
[model.operators.options.cjoin]
premise = "paper"
[model.operators.options.bool]
activation = "reglu"
[[model.positions]]
use = "t5"
num_buckets = 8
max_distance = 16
""",
    "relation": TRANSFORMER
    + """
[model.options]
norm = "pre"
[model.scope]
kind = "relation"
[[model.positions]]
use = "t5"
num_buckets = 8
max_distance = 16
[[model.augmenters]]
use = "tpr"
roles = 3
[[model.heads]]
use = "classification"
classes = 3
[[model.heads]]
use = "entities"
pool = "max"
[[model.heads]]
use = "contrastive"
as = "scl"
""",
    "levels": TRANSFORMER
    + """
[[model.positions]]
use = "absolute"
kind = "sinusoidal"
[[model.augmenters]]
use = "logical"
depth = 2
width = 6
[[model.augmenters]]
use = "word_vectors"
size = 6
[[model.heads]]
use = "entities"
pool = "mean"
""",
    "mapped": TRANSFORMER
    + """
[[model.augmenters]]
use = "kge"
file = ""
width = 6
frozen = false
[[model.positions]]
use = "disentangled"
clip = 4
[[model.heads]]
use = "entities"
""",
    "graph": FOLNET
    + """
[model.operators]
layer = "jmc.atp"
[[model.positions]]
use = "atoms"
distances = true
[[model.positions]]
use = "adjacency"
outside = "both"
[[model.positions]]
use = "directed_distance"
share_layers = true
[[model.heads]]
use = "entities"
""",
    "forward": """
format = 1
[model]
name = "part"
architecture = "recurrent"
[model.dims]
layers = 2
unary = 8
[model.options]
directions = "forward"
[model.input]
vocabulary = 20
max_length = 40
""",
    "tpru": """
format = 1
[model]
name = "part"
architecture = "recurrent"
[model.dims]
layers = 1
unary = 8
[model.operators]
layer = "tpru"
[model.input]
vocabulary = 20
max_length = 40
""",
    "unmasked": FOLNET
    + """
[model.scope]
mask_padding = false
[model.operators]
layer = "jm.at"
[[model.positions]]
use = "logirpe"
kinds = 3
max_distance = 4
[[model.heads]]
use = "token_classification"
[[model.heads]]
use = "relation"
classes = 3
[[model.heads]]
use = "swap"
[[model.heads]]
use = "span"
[[model.heads]]
use = "multiple_choice"
""",
}


def smallest(spec: Spec) -> Spec:
    """A spec at the smallest widths that it can have; its parts and their options stay."""
    changes: dict[str, Any] = {f"model.dims.{name}": SMALLEST[name] for name in spec.dims}
    changes |= {"model.input.vocabulary": 20, "model.input.max_length": 40, "model.name": "part"}
    changes["model.regularisation.init_std"] = INIT_STD.get(spec.name, spec.regularisation.init_std)
    if "config" in spec.options:
        config = spec.options["config"]
        changes["model.options"] = {"config": {**config, **{k: CONFIG[k] for k in config if k in CONFIG}}}
    for i, head in enumerate(spec.heads):
        changes |= {f"model.heads.{i}.{name}": HEADS[name] for name in head.options if name in HEADS}
        changes[f"model.heads.{i}.as"] = head.use
    return without_files(spec.replace(changes))


def without_files(spec: Spec) -> Spec:
    """The spec with fresh vectors and weights in place of those of files and of the hub."""
    files = [i for i, augmenter in enumerate(spec.augmenters) if "file" in augmenter.options]
    changes: dict[str, Any] = {f"model.augmenters.{i}.file": "" for i in files}
    if "source" in spec.options:
        changes["model.options"] = {name: value for name, value in spec.options.items() if name != "source"}
    return spec.replace(changes)


def parts() -> dict[str, Spec]:
    """One spec for each distinct composition: the ready ones, shrunk, then the variants that none of them has."""
    names = {smallest(load_spec(name)).to_toml(): name for name in sorted(ready_specs(), reverse=True)}
    texts = {name: text for text, name in reversed(names.items())} | VARIANTS
    return {name: Spec.from_toml(text, source=name) for name, text in texts.items()}


SPECS: Mapping[str, Spec] = parts()
SEARCHES = ("cqd-beam", "cqd-continuous")
"""Ready specs that are no networks: they search for answers, and an export refuses them in words."""


def content(spec: Spec) -> set[tuple[str, ...]]:
    """What a composition exports: each size, part and scope in its architecture, and each value of each option."""
    within = spec.architecture
    layer = spec.operators.layer
    listed = () if layer is None or isinstance(layer, str) else layer
    found = {("scope", within, spec.scope.kind), ("padding", within, str(spec.scope.mask_padding))}
    found |= {("dims", within, size) for size in spec.dims}
    if isinstance(layer, str):  # letters around a dot, or one recurrent operator's name
        found |= {("operators", within, one) for one in (layer if "." in layer else (layer,))}
    found |= {("activation", one.use, one.activation) for one in listed}
    groups = {"operators": listed, "positions": spec.positions, "augmenters": spec.augmenters}
    found |= {(kind, within, one.use) for kind, parts in groups.items() for one in parts}
    found |= {("heads", one.use) for one in spec.heads}
    tables = [(within, spec.options), *spec.operators.options.items()]
    tables += [(one.use, one.options) for one in (*listed, *spec.positions, *spec.augmenters, *spec.heads)]
    return found | {("option", part, k, str(v)) for part, table in tables for k, v in table.items()}


def covering() -> tuple[str, ...]:
    """Compositions that together hold what all of them hold: greedily, the one that adds most comes next."""
    left = {name: content(spec) for name, spec in SPECS.items() if name not in SEARCHES}
    chosen = []
    while any(left.values()):
        chosen.append(max(left, key=lambda name: len(left[name])))
        left = {name: rest - left[chosen[-1]] for name, rest in left.items()}
    return tuple(chosen)

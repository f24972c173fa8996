"""A spec for each composition of registered parts, at the smallest widths: what every export is tried on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peirce.registry import load_spec, ready_specs
from peirce.spec import InputSpec, Spec

SMALLEST = {
    "layers": 1, "unary": 8, "embedding": 6, "binary": 4, "heads": 2, "head_size": 4, "feedforward": 12,
    "feedforward_unary": 12, "feedforward_binary": 6, "kv_heads": 1, "relation_layers": 1,
}  # fmt: skip
HEADS = {"first": 4, "count": 9, "links": ""}
CONFIG = {
    "vocab_size": 20, "hidden_size": 8, "d_model": 8, "intermediate_size": 12, "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 12, "num_hidden_layers": 1, "encoder_layers": 1, "decoder_layers": 1,
    "num_attention_heads": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip
"""The widths of a model of transformers, by the names of its configuration."""
INIT_STD = {"lmpnn": 0.3}
"""Where fresh weights of 0.02 would shrink the states, at these widths, to 1e-15, which float16 does not hold."""
KINDS = ("operators", "positions", "augmenters", "heads", "architectures")

_FOLNET = Spec(
    name="part",
    architecture="folnet",
    dims={"layers": 1, "unary": 8, "binary": 4, "heads": 2, "head_size": 4},
    input=InputSpec(vocabulary=20, max_length=40),
)
_TRANSFORMER = _FOLNET.replace(
    {"model.architecture": "transformer", "model.dims": {"layers": 1, "unary": 8, "heads": 2}}
)
_RECURRENT = _FOLNET.replace({"model.architecture": "recurrent", "model.dims": {"layers": 1, "unary": 8}})
_PAPER = {"premise": "paper"}
_DISTANCE = [{"use": "distance", "clip": 4}]
_T5 = [{"use": "t5", "num_buckets": 8, "max_distance": 16}]
VARIANTS: Mapping[str, tuple[Spec, Mapping[str, Any]]] = {
    "causal": (_FOLNET, {
        "scope.kind": "causal", "positions": _DISTANCE, "heads": [{"use": "causal_lm"}],
        "operators": {"layer": "jmc.atp", "options": {"cjoin": {**_PAPER, "batch_over": "heads"}}},
    }),
    "decoder": (_FOLNET, {
        "architecture": "folnet_encoder_decoder", "positions": _DISTANCE,
        "operators": {"layer": "jmc.atp", "options": {"cjoin": _PAPER}},
        "heads": [{"use": "causal_lm", "as": "lm"}],
    }),
    "prefix": (_FOLNET, {
        "scope.kind": "prefix", "positions": _T5,
        "options": {"wiring": "parallel", "affine_norm": True, "diag_link": True},
        "operators": {"layer": "jmc.atp", "options": {"cjoin": _PAPER, "bool": {"activation": "reglu"}}},
    }),
    "relation": (_TRANSFORMER, {
        "scope.kind": "relation", "options": {"norm": "pre"}, "positions": _T5,
        "augmenters": [{"use": "tpr", "roles": 3}],
        "heads": [
            {"use": "classification", "classes": 3}, {"use": "entities", "pool": "max"},
            {"use": "contrastive", "as": "scl"},
        ],
    }),
    "levels": (_TRANSFORMER, {
        "positions": [{"use": "absolute", "kind": "sinusoidal"}],
        "augmenters": [{"use": "logical", "depth": 2, "width": 6}, {"use": "word_vectors", "size": 6}],
        "heads": [{"use": "entities", "pool": "mean"}],
    }),
    "mapped": (_TRANSFORMER, {
        "positions": [{"use": "disentangled", "clip": 4}], "heads": [{"use": "entities"}],
        "augmenters": [{"use": "kge", "file": "", "width": 6, "frozen": False}],
    }),
    "graph": (_FOLNET, {
        "operators.layer": "jmc.atp", "heads": [{"use": "entities"}],
        "positions": [
            {"use": "atoms", "distances": True}, {"use": "adjacency", "outside": "both"},
            {"use": "directed_distance", "share_layers": True},
        ],
    }),
    "attention": (_FOLNET, {
        "scope.kind": "causal", "positions": [*_DISTANCE, *_T5], "heads": [{"use": "causal_lm"}],
        "operators.layer": [{"use": "attention", "kv_heads": 1, "bias": False}, {"use": "assoc"}, {"use": "trans"}],
    }),
    "related": (_TRANSFORMER, {
        "scope.kind": "causal", "positions": [{"use": "rope"}], "heads": [{"use": "causal_lm"}],
        "operators.layer": [
            {"use": "attention"}, {"use": "adapter"},
            {"use": "relational_attention", "symmetric": True, "symbols": "distance", "count": 3},
            {"use": "relational_attention", "cross": True, "symbols": "place"},
        ],
    }),
    "fed": (_TRANSFORMER, {
        "positions": [{"use": "alibi"}, {"use": "fire"}, {"use": "transformer_xl"}, {"use": "none"}],
        "operators.state": ["gelu", "relu", "silu", "reglu", "geglu", "experts"], "heads": [{"use": "entities"}],
    }),
    "contextual": (_TRANSFORMER, {
        "scope.kind": "causal", "positions": [{"use": "cope"}], "heads": [{"use": "causal_lm"}],
    }),
    "near": (_TRANSFORMER, {
        "dims.layers": 2, "dims.embedding": 4, "heads": [{"use": "mlm"}],
        "positions": [{"use": "rope", "layers": [0]}, {"use": "window", "size": 2, "layers": [1]}],
        "options": {
            "norm": "both", "norm_kind": "rms", "norm_offset": True, "query_norm": "head", "score_cap": 5.0,
            "share": True,
        },
    }),
    "deducing": (_FOLNET, {
        "architecture": "two_branch", "dims.head_size": 4, "positions": _DISTANCE, "operators.layer": "jmc.atp",
        "options": {"from_attention": True}, "heads": [{"use": "relation", "classes": 3}],
    }),
    "forward": (_RECURRENT, {"dims.layers": 2, "options": {"directions": "forward"}}),
    "tpru": (_RECURRENT, {"operators.layer": "tpru"}),
    "unmasked": (_FOLNET, {
        "scope.mask_padding": False, "operators.layer": "jm.at",
        "positions": [{"use": "logirpe", "kinds": 3, "max_distance": 4}],
        "heads": [
            {"use": "token_classification"}, {"use": "relation", "classes": 3}, {"use": "swap"}, {"use": "span"},
            {"use": "multiple_choice"}, {"use": "multilabel"},
        ],
    }),
}  # fmt: skip
"""What no ready spec has: each a base, and what differs from it below `model`."""


def smallest(spec: Spec) -> Spec:
    """A spec at the smallest widths that it can have; its parts and their options stay."""
    changes: dict[str, Any] = {f"model.dims.{name}": SMALLEST[name] for name in spec.dims}
    if spec.operators.layers:  # each of them once and again, as it repeats them
        changes["model.dims.layers"] = sum(layer.repeat for layer in spec.operators.layers)
    changes |= {"model.input.vocabulary": 20, "model.input.max_length": 40, "model.name": "part"}
    changes["model.regularisation.init_std"] = INIT_STD.get(spec.name, spec.regularisation.init_std)
    if spec.name == "relational-compose":  # its facets have two symbols or more
        changes["model.dims.binary"] = 16
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
    changes |= {f"model.heads.{i}.links": "" for i, head in enumerate(spec.heads) if "links" in head.options}
    if "source" in spec.options:
        changes["model.options"] = {name: value for name, value in spec.options.items() if name != "source"}
    return spec.replace(changes)


def parts() -> dict[str, Spec]:
    """One spec for each distinct composition: the ready ones, shrunk, then the variants that none of them has."""
    names = {smallest(load_spec(name)).to_toml(): name for name in sorted(ready_specs(), reverse=True)}
    ready = {name: Spec.from_toml(text, source=name) for text, name in reversed(names.items())}
    return ready | {
        name: base.replace({f"model.{key}": value for key, value in changes.items()})
        for name, (base, changes) in VARIANTS.items()
    }


SPECS: Mapping[str, Spec] = parts()
SEARCHES = ("cqd-beam", "cqd-continuous", "cqd-hybrid", "fit", "qto")
"""Ready specs that are no networks: they search for answers, and an export refuses them in words."""


def content(spec: Spec) -> set[tuple[str, ...]]:
    """What a composition exports: each size, part and scope in its architecture, and each value of each option."""
    within = spec.architecture
    said = [each for one in (spec.operators, *spec.operators.layers) for each in (one.layer, one.state)]
    listed = [one for each in said if isinstance(each, tuple) for one in each if not isinstance(one, str)]
    found = {("scope", within, spec.scope.kind), ("padding", within, str(spec.scope.mask_padding))}
    found |= {("dims", within, size) for size in spec.dims}
    for text in (
        each for each in said if isinstance(each, str)
    ):  # letters around a dot, or an operator's name
        found |= {("operators", within, one) for one in (text if "." in text else (text,))}
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

"""From a published Edge Transformer to a saved model. Nothing is dropped but what the published network never reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from torch import Tensor

from peirce.compose import build
from peirce.errors import ModelFileError
from peirce.model import Model, check_published, published_config, published_tensors
from peirce.registry import Registry
from peirce.spec import FORMAT, Spec

SIZES = ("dim", "num_heads", "ff_factor", "edge_types", "num_message_rounds", "target_size")
FLAGS = {"flat_attention": "flat", "lesion_scores": "lesion_scores", "lesion_values": "lesion_values"}
READINGS = {
    False: {0: "query", 1: "key", 2: "value", 3: "right_value"},
    True: {0: "key", 1: "value", 2: "query"},
}
"""Which of the published linear maps is which reading, in the triangular form and in the flat one."""


def import_edge_transformer(
    config: Path, weights: Path, directory: Path, *, name: str | None = None, registry: Registry | None = None
) -> Model:
    """Make a saved model of an Edge Transformer that the published CLUTRR code trained.

    Args:
        config: JSON with `dim`, `num_heads`, `ff_factor`, `edge_types`, `num_message_rounds`, `target_size`,
            `share_layers`, `flat_attention`, `lesion_scores`, `lesion_values` and optionally `dropout`.
        weights: a safetensors file, or a torch file that holds a state dict.
        directory: where the model is saved.
        name: the model's name; the directory's if None.
        registry: where parts are looked up.

    Raises:
        ModelFileError: a file cannot be read, the configuration lacks something, or tensors are unknown, missing or
            misshapen.
    """
    settings = published_config(config)
    sizes = {key: _count(settings, key, config) for key in SIZES}
    if sizes["dim"] % sizes["num_heads"]:
        raise ModelFileError(f"{config}: {sizes['num_heads']} heads do not divide dim = {sizes['dim']}")
    flags = {key: _flag(settings, key, config) for key in ("share_layers", *FLAGS)}
    spec = Spec.from_toml(
        tomlkit.dumps(
            {"format": FORMAT, "model": _spec(sizes, flags, settings, name or directory.resolve().name)}
        ),
        source=str(config),
    )
    model = build(spec, registry=registry)
    tensors = {key.removeprefix("model."): value for key, value in published_tensors(weights).items()}
    table = _names(1 if flags["share_layers"] else sizes["num_message_rounds"], flags)
    state = model.state_dict()
    shapes = {theirs: list(state[ours].shape) for theirs, ours in table.items()}
    read = {key: value for key, value in tensors.items() if not _is_unused(key, flags)}
    tensors = check_published(read, shapes, weights)
    result: dict[str, Tensor] = {ours: tensors[theirs] for theirs, ours in table.items()}
    model.to(next(iter(result.values())).dtype).load_state_dict({**state, **result})
    model.save(directory)
    return model


def _spec(sizes: Mapping[str, int], flags: Mapping[str, bool], settings: Mapping[str, Any], name: str) -> Any:
    width, heads = sizes["dim"], sizes["num_heads"]
    return {
        "name": name,
        "architecture": "relational",
        "dims": {
            "layers": sizes["num_message_rounds"],
            "binary": width,
            "heads": heads,
            "head_size": width // heads,
            "feedforward_binary": sizes["ff_factor"] * width,
        },
        "options": {
            "share": flags["share_layers"],
            "residual": "normed",
            "affine_norm": True,
            "epsilon": 1e-5,
            "ends": False,
        },
        "input": {"vocabulary": 1, "token_types": 0},
        "operators": {
            "layer": [{"use": "edge_attention", **{ours: flags[theirs] for theirs, ours in FLAGS.items()}}],
            "state": "pair_feedforward",
        },
        "positions": [{"use": "edges", "relations": sizes["edge_types"]}],
        "heads": [{"use": "relation", "classes": sizes["target_size"], "hidden": True}],
        "regularisation": {"dropout": float(settings.get("dropout", 0.0))},
    }


def _names(layers: int, flags: Mapping[str, bool]) -> dict[str, str]:
    """The published name of each parameter, and ours."""
    table = {"encoder.embedding.weight": "network.input.positions.0.table.weight"}
    flat = flags["flat_attention"]
    readings = {
        place: name for place, name in READINGS[flat].items() if not _is_unused(f".linears.{place}.", flags)
    }
    for i in range(layers):
        theirs, ours = f"encoder.layers.{i}", f"network.layers.{i}"
        maps = {**readings, 3 if flat else 5: "output"}
        for place, name in maps.items():
            target = f"{ours}.operators.0.edge_attention.{name}.weight"
            table[f"{theirs}.edge_attention.linears.{place}.weight"] = target
        for kind in ("weight", "bias"):
            for place, name in ((1, "hidden"), (2, "output")):
                table[f"{theirs}.linear{place}.{kind}"] = f"{ours}.operators.1.pair_feedforward.{name}.{kind}"
                table[f"{theirs}.norm{place}.{kind}"] = f"{ours}.norms.{place - 1}.binary.{kind}"
    for kind in ("weight", "bias"):
        table[f"decoder2vocab.0.{kind}"] = f"heads.relation.hidden.{kind}"
        table[f"decoder2vocab.3.{kind}"] = f"heads.relation.dense.{kind}"
    return table


def _is_unused(name: str, flags: Mapping[str, bool]) -> bool:
    """Whether the published network never uses a map: the fifth, and that of right values where they are lesioned."""
    return not flags["flat_attention"] and (
        ".linears.4." in name or (flags["lesion_values"] and ".linears.3." in name)
    )


def _count(settings: Mapping[str, Any], key: str, source: Path) -> int:
    value = settings.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelFileError(f"{source}: {key!r} is {value!r}, and must be a whole number of 1 or more")
    return value


def _flag(settings: Mapping[str, Any], key: str, source: Path) -> bool:
    value = settings.get(key, False)
    if not isinstance(value, bool):
        raise ModelFileError(f"{source}: {key!r} is {value!r}, and must be true or false")
    return value

"""Published weights of the unit as saved models, whose output `unary` is the states.

The published code saves the tensors of each layer as `f_layers.N.NAME`, of the one from the right as `b_layers.N.NAME`,
often behind a prefix `en.`; a module saved by itself has the bare names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from peirce.compose import build
from peirce.errors import ModelFileError, unknown
from peirce.model import Model, check_published, published_config, published_tensors
from peirce.registry import Registry
from peirce.spec import Spec
from torch import Tensor

NAMES = {
    "h2fg.weight": "state_weight",
    "h2fg.bias": "state_bias",
    "x2fg.weight": "token_weight",
    "x2fg.bias": "token_bias",
    "v2ru.weight": "vectors_weight",
    "v2ru.bias": "vectors_bias",
    "bias_h": "state_offset",
    "bias_x": "token_offset",
    "basis": "basis",
}
"""The tensors of one direction of one layer, and ours."""
EMBEDDINGS = ("embedding.weight", "embed.weight")
INITIAL = "h0"
READ = ("d_hidden", "n_roles", "d_embed")
OPTIONAL = ("n_layers", "n_embed", "bidirectional", "birnn")
FIXED: Mapping[str, Any] = {"n_slices": 1, "n_heads": 1, "model_type": "plain", "elmo": False}
"""Settings that have one value here; another value would be another network."""
TRAINING = (
    "seed", "save_path", "data_path", "att_layers", "n_classes", "classifier", "pooling", "cuda", "finetune_elmo",
    "seq_length", "lr", "clip", "batch_size", "save_every", "epochs", "dp_ratio", "d_input",
)  # fmt: skip
"""Settings of the training and of what reads the states."""


def import_tpru(
    config: Path, weights: Path, directory: Path, *, name: str | None = None, registry: Registry | None = None
) -> Model:
    """Make a saved model of published weights.

    Args:
        config: a JSON file of the published settings: `d_hidden`, `n_roles`, `d_embed`, and, where they are not one
            layer from the left, `n_layers` and `bidirectional`. `n_embed` counts the tokens where no table comes along.
        weights: a safetensors file, or a torch file of a state dict. A table `embedding.weight` or `embed.weight`
            [v, d_embed] becomes the word embeddings; without one they are new.
        directory: where the model is saved.
        name: the model's name; the directory's if None.
        registry: where parts are looked up.

    Raises:
        ModelFileError: a file cannot be read, a setting is unknown or asks for another network, or tensors are unknown,
            missing or misshapen.
    """
    settings, found = _settings(config), published_tensors(weights)
    spec = _spec(settings, found, name or directory.resolve().name, config)
    model = build(spec, registry=registry, seed=0)
    state = model.state_dict()
    table = _table(found, settings["n_layers"], settings["bidirectional"])
    initial = _initial(found, table)
    if any(bool(found[key].any()) for key in initial):
        raise ModelFileError(
            f"{weights}: {initial[0]} is not zero, and Peirce's recurrences start from zeros"
        )
    rest = {key: value for key, value in found.items() if key not in initial}
    check_published(rest, {theirs: state[ours].shape for theirs, ours in table.items()}, weights)
    (kind,) = {tensor.dtype for tensor in rest.values()}
    model.to(kind).load_state_dict(state | {ours: rest[theirs] for theirs, ours in table.items()})
    model.save(directory)
    return model


def _settings(path: Path) -> dict[str, Any]:
    settings = published_config(path)
    known = (*READ, *OPTIONAL, *FIXED, *TRAINING)
    problems = [f"{key} is missing" for key in READ if key not in settings]
    problems += [unknown("setting", key, known) for key in settings if key not in known]
    problems += [
        f"{key} is {settings[key]!r}, and what can be imported has {value!r}"
        for key, value in FIXED.items()
        if key in settings and settings[key] != value
    ]
    problems += [
        f"{key} is {settings[key]!r}, and must be a count"
        for key in (*READ, "n_layers", "n_embed")
        if key in settings and (type(settings[key]) is not int or settings[key] < 1)
    ]
    problems += [
        f"{key} is {settings[key]!r}, and must be true or false"
        for key in ("bidirectional", "birnn")
        if key in settings and type(settings[key]) is not bool
    ]
    if problems:
        raise ModelFileError(f"{path} cannot be imported: {'; '.join(problems)}")
    both = bool(settings.get("bidirectional") or settings.get("birnn"))
    return {**settings, "n_layers": settings.get("n_layers", 1), "bidirectional": both}


def _spec(settings: Mapping[str, Any], found: Mapping[str, Tensor], name: str, source: Path) -> Spec:
    """The network of the settings; the table's rows count the tokens.

    Raises:
        ModelFileError: nothing counts them, or two things do and differ.
    """
    tables = {key: found[key] for key in EMBEDDINGS if key in found and found[key].dim() == 2}
    counts = {key: len(table) for key, table in tables.items()}
    if len(counts) > 1:
        raise ModelFileError(
            f"the weights have both {' and '.join(counts)}; keep the one that is the embeddings"
        )
    if 0 in counts.values():
        raise ModelFileError(
            f"{next(iter(counts))} has no rows; give the weights of a model that was trained"
        )
    vocabulary = next(iter(counts.values()), settings.get("n_embed"))
    if vocabulary != settings.get("n_embed", vocabulary):
        raise ModelFileError(
            f"{source} says n_embed = {settings['n_embed']}, and {next(iter(counts))} has {vocabulary} rows; give the "
            "two files of one model"
        )
    if vocabulary is None:
        raise ModelFileError(
            f"{source} has no n_embed and the weights no {EMBEDDINGS[0]}, so nothing says how many tokens there are; "
            "add one of them"
        )
    both = settings["bidirectional"]
    options = {"roles": settings["n_roles"], "tanh": False, "state_map": True, "bias": True}
    plain = {
        "name": name,
        "architecture": "recurrent",
        "dims": {
            "layers": settings["n_layers"],
            "unary": settings["d_hidden"] * (2 if both else 1),
            "embedding": settings["d_embed"],
        },
        "options": {"directions": "both" if both else "forward", "pooler": False},
        "input": {"vocabulary": vocabulary, "token_types": 0},
        "operators": {"layer": "tpru", "options": {"tpru": options}},
        "regularisation": {"dropout": 0.0},
    }
    return Spec.from_toml(tomlkit.dumps({"format": 1, "model": plain}), source=str(source))


def _table(found: Mapping[str, Tensor], layers: int, both: bool) -> dict[str, str]:
    """The published names of a model's tensors, and ours."""
    bare = "basis" in found and layers == 1 and not both
    prefix = "" if bare else next((m[1] for key in found if (m := re.match(r"(.*)f_layers\.0\.", key))), "")
    table = {
        (theirs if bare else f"{prefix}{side}_layers.{n}.{theirs}"): f"network.layers.{n}.{way}.{ours}"
        for n in range(layers)
        for side, way in (("f", "forwards"), ("b", "backwards"))[: 1 + both]
        for theirs, ours in NAMES.items()
    }
    return table | {key: "network.input.embedding.weight" for key in EMBEDDINGS if key in found}


def _initial(found: Mapping[str, Tensor], table: Mapping[str, str]) -> list[str]:
    """The tensors of the initial state."""
    return [key for key in found if key.rpartition(".")[2] == INITIAL and key not in table]

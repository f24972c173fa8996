"""Published weights of the unit as saved models, whose output `unary` is the states.

The published code saves the tensors of each layer as `f_layers.N.NAME`, of the one from the right as `b_layers.N.NAME`;
since its last commit both are `layers.N.NAME`, from the left and from the right by turns. Either often stands behind a
prefix `en.`; a module saved by itself has the bare names. A whole model of pairs has a classifier, `clser`, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import tomlkit
import torch
from attrs import frozen
from torch import Tensor

from peirce.compose import build
from peirce.errors import ModelFileError
from peirce.model import Model, check_published, published_config, published_tensors
from peirce.spec import Spec, StructureError, structure_value

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
CLASSIFIER = {"0": "hidden", "2": "dense"}
"""The layers of the perceptron on two texts, and ours."""
POOLINGS = {"max": "max", "avg": "mean"}
TOKEN_TYPES = "network.input.token_type.weight"
"""Ours, which the published code has none of: it is zero."""
INITIAL = "h0"
"""The first state, which must be zero, as ours is."""
TRAINING = (
    "seed", "save_path", "data_path", "att_layers", "n_classes", "classifier", "cuda", "finetune_elmo",
    "seq_length", "lr", "min_lr", "clip", "batch_size", "save_every", "epochs", "dp_ratio", "d_input", "elmo_path",
    "lasth",
)  # fmt: skip
"""Settings of the training and of what reads the states."""


@frozen(kw_only=True)
class Settings:
    """The published settings that say which network it is; `Literal` where another value is another network."""

    d_hidden: int
    n_roles: int
    d_embed: int
    n_layers: int = 1
    n_embed: int | None = None
    bidirectional: bool = False
    birnn: bool = False
    n_slices: Literal[1] = 1
    n_heads: Literal[1] = 1
    model_type: Literal["plain"] = "plain"
    pooling: str = "max"
    elmo: Literal[False] = False

    @property
    def two_directions(self) -> bool:
        """Whether it reads in both directions."""
        return self.bidirectional or self.birnn


def import_tpru(config: Path, weights: Path, directory: Path) -> Model:
    """Make a saved model of published weights.

    Args:
        config: a JSON file of the published settings: `d_hidden`, `n_roles`, `d_embed`, and, where they are not one
            layer from the left, `n_layers` and `bidirectional`. `n_embed` counts the tokens where no table comes along.
        weights: a safetensors file, or a torch file of a state dict. A table `embedding.weight` or `embed.weight`
            [v, d_embed] becomes the word embeddings; without one they are new. With a perceptron `clser` the model
            has the head `matching` of pairs, pooled by the setting `pooling`, `max` or `avg`; the published code's one
            logit of two classes is that of class 1, and class 0 has zero.
        directory: where the model is saved; its name is the model's.

    Raises:
        ModelFileError: a file cannot be read, a setting is unknown or asks for another network, or tensors are unknown,
            missing or misshapen.
    """
    settings, found = _settings(config), published_tensors(weights)
    table = _table(found, settings.n_layers, settings.two_directions)
    pairs = _classifier(found)
    for key, ours in pairs.items():
        if ".dense." in ours and key in found and found[key].shape[:1] == (1,):
            found[key] = torch.cat([torch.zeros_like(found[key]), found[key]])
    model = build(_spec(settings, found, pairs, directory.resolve().name, config), seed=0)
    state = model.state_dict()
    if pairs:
        table |= pairs
        state[TOKEN_TYPES] = torch.zeros_like(state[TOKEN_TYPES])
    initial = [key for key in found if key.rpartition(".")[2] == INITIAL and key not in table]
    if any(bool(found[key].any()) for key in initial):
        raise ModelFileError(
            f"{weights}: {initial[0]} is not zero, but Peirce's recurrences start from zeros"
        )
    rest = {key: value for key, value in found.items() if key not in initial}
    rest = check_published(rest, {theirs: state[ours].shape for theirs, ours in table.items()}, weights)
    (kind,) = {tensor.dtype for tensor in rest.values()}
    model.to(kind).load_state_dict(state | {ours: rest[theirs] for theirs, ours in table.items()})
    model.save(directory)
    return model


def _settings(path: Path) -> Settings:
    given = {key: value for key, value in published_config(path).items() if key not in TRAINING}
    try:
        return structure_value(Settings, given)
    except StructureError as error:
        raise ModelFileError(f"{path} cannot be imported: {error}") from None


def _spec(
    settings: Settings, found: Mapping[str, Tensor], pairs: Mapping[str, str], name: str, source: Path
) -> Spec:
    """The network of the settings; the table's rows count the tokens, and `pairs` has the classifier's tensors, if any.

    Raises:
        ModelFileError: nothing counts the tokens, or two things do and differ, or texts are pooled in another way.
    """
    counts = {key: len(found[key]) for key in EMBEDDINGS if key in found and found[key].dim() == 2}
    if len(counts) > 1:
        raise ModelFileError(
            f"the weights have both {' and '.join(counts)}; keep the one that is the embeddings"
        )
    vocabulary = next(iter(counts.values()), settings.n_embed)
    if vocabulary != (settings.n_embed or vocabulary):
        raise ModelFileError(
            f"{source} says n_embed = {settings.n_embed}, but {next(iter(counts))} has {vocabulary} rows; give the "
            "configuration and weights of the same model"
        )
    if vocabulary is None:
        raise ModelFileError(
            f"{source} has no n_embed and the weights no {EMBEDDINGS[0]}, so the number of tokens is unknown; "
            "add one of them"
        )
    two_directions, width = settings.two_directions, settings.d_hidden * (1 + settings.two_directions)
    options = {"roles": settings.n_roles, "tanh": False, "state_map": True, "bias": True}
    plain: dict[str, Any] = {
        "name": name,
        "architecture": "recurrent",
        "dims": {"layers": settings.n_layers, "unary": width, "embedding": settings.d_embed},
        "options": {"directions": "both" if two_directions else "forward", "pooler": False},
        "input": {"vocabulary": vocabulary, "token_types": 0},
        "operators": {"layer": "tpru", "options": {"tpru": options}},
        "regularisation": {"dropout": 0.0},
    }
    if pairs:
        if settings.pooling not in POOLINGS:
            raise ModelFileError(
                f"{source}: pooling = {settings.pooling!r} is not one of {', '.join(POOLINGS)}; to import the "
                "recurrences alone, leave out the tensors of clser"
            )
        plain["options"]["texts"], plain["input"]["token_types"] = "apart", 2
        classes = next(found[key].numel() for key, ours in pairs.items() if ours.endswith("dense.bias"))
        head = {"use": "matching", "classes": classes, "pool": POOLINGS[settings.pooling], "join": "compared"}
        plain["heads"] = [head | {"hidden": settings.d_hidden}]
    return Spec.from_toml(tomlkit.dumps({"format": 1, "model": plain}), source=str(source))


def _table(found: Mapping[str, Tensor], layers: int, two_directions: bool) -> dict[str, str]:
    """The published names of a model's tensors, and ours."""
    bare = "basis" in found and layers == 1 and not two_directions
    places = (m for key in found if (m := re.match(r"(.*\.|)(f_)?layers\.0\.", key)))
    prefix, sides = next(((m[1], bool(m[2])) for m in places), ("", True))

    def place(n: int, side: int) -> str:
        if bare:
            return ""
        return (
            f"{prefix}{'fb'[side]}_layers.{n}."
            if sides
            else f"{prefix}layers.{n * (1 + two_directions) + side}."
        )

    table = {
        place(n, side) + theirs: f"network.layers.{n}.{way}.{ours}"
        for n in range(layers)
        for side, way in enumerate(("forwards", "backwards")[: 1 + two_directions])
        for theirs, ours in NAMES.items()
    }
    return table | {key: "network.input.embedding.weight" for key in EMBEDDINGS if key in found}


def _classifier(found: Mapping[str, Tensor]) -> dict[str, str]:
    """The published names of a whole model's classifier of pairs, and ours; none where the recurrences stand alone."""
    ends = (m[1] for key in found if (m := re.fullmatch(r"(.*\bclser\.)2\.bias", key)))
    return {
        f"{prefix}{theirs}.{kind}": f"heads.matching.{ours}.{kind}"
        for prefix in ends
        for theirs, ours in CLASSIFIER.items()
        for kind in ("weight", "bias")
    }

"""Published FOLNet checkpoints as saved models, and models as published checkpoints.

A checkpoint is a JSON configuration and a file of tensors. Nothing in either is dropped: what the model has no place
for, or what it needs and the checkpoint lacks, is an error that lists it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
import torch
from attrs import asdict
from safetensors.torch import save_file
from torch import Tensor

from peirce.compose import build, resolve
from peirce.errors import ModelFileError, unknown
from peirce.files import explain_disk_errors, hold_lock, parse_json, read_bytes, scratch_folder
from peirce.model import Model, check_published, published_config, published_tensors, shorten_list
from peirce.parts import Plan, PlannedOperator
from peirce.registry import Registry, default_registry
from peirce.spec import Spec
from peirce_folnet.checkpoints.names import EMBEDDING, TIED, Names, names

CONFIG_ASSET = "published-config.json"
"""The configuration as it was imported, kept among the model's assets for the way back."""

LOSSES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "MLM": (("mlm", "mlm"),),
    "NSP": (("pair", "nsp"),),
    "SOP": (("pair", "nsp"),),
    "SCL": (("contrastive", "scl"),),
}
"""The heads behind `pretrain_loss`, and their names: the published code calls the pair's head one name for both."""

FIXED: Mapping[str, Any] = {
    "hidden_act": "gelu", "layer_norm_eps": 1e-12, "span_dim": 0, "aux_length": 0, "glob_size": 0, "span_size": 0,
    "unit_size": 0,
}  # fmt: skip
"""Settings that have one value in every encoder; another value would be another network."""
READ = (
    "hidden_dropout_prob", "initializer_range", "max_position_offset", "absolute_position", "relative_position",
    "vocab_size", "type_vocab_size", "diag_link", "num_layers", "mixer_ops", "boolean_type", "predicate_dims",
    "intermediate_dims", "num_heads", "head_size", "hidden_size", "pretrain_loss",
)  # fmt: skip
OPTIONAL = ("max_span",)
"""Settings of the training data, which say nothing about the network."""
BOOLEANS = {"mlp": "gelu", "reglu": "reglu"}


def import_folnet(
    config: Path, weights: Path, directory: Path, *, name: str | None = None, registry: Registry | None = None
) -> Model:
    """Make a saved model of a published checkpoint.

    Args:
        config: the published JSON configuration.
        weights: its tensors, a torch file (read with `weights_only=True`) or a safetensors file.
        directory: where the model is saved.
        name: the model's name; the directory's if None.
        registry: where parts are looked up.

    Raises:
        ModelFileError: a file cannot be read, the configuration asks for what Peirce does not have, or tensors are
            unknown, missing or misshapen.
    """
    settings = _read_config(config)
    tensors = published_tensors(weights)
    spec = spec_of(settings, tensors, name=name or directory.resolve().name, source=config)
    model = build(spec, registry=registry)
    state = _state(model, tensors, weights)
    model.to(next(iter(state.values())).dtype).load_state_dict(state)
    model.save(directory, assets={CONFIG_ASSET: read_bytes(config, text=True)})
    return model


def export_folnet(directory: Path, output: Path, *, registry: Registry | None = None) -> None:
    """Write a saved model as config.json and weights.safetensors, under the published names.

    Args:
        directory: of the saved model.
        output: the folder to write to, made if it is not there.
        registry: where the model's parts are looked up; the default registry if None.

    Raises:
        ModelFileError: the model cannot be read, or has parts that the published network does not.
    """
    from peirce.compose import load

    model = load(directory, registry=registry)
    table = _names_of(model)
    state = model.state_dict()
    homeless = sorted(set(state) - {part for parts in table.values() for part in parts})
    if homeless:
        raise ModelFileError(
            f"{directory} cannot be written as a published FOLNet; it has no tensors for {shorten_list(homeless)}"
        )
    published = {theirs: torch.cat([state[part] for part in parts]) for theirs, parts in table.items()}
    if "mlm" in model.heads:
        published[TIED] = published[EMBEDDING].clone()
    kept = directory / "assets" / CONFIG_ASSET
    text = (
        read_bytes(kept, text=True)
        if kept.is_file()
        else json.dumps(config_of(model), indent=1).encode() + b"\n"
    )
    again = spec_of(parse_json(text), published, name=model.spec.name, source=output / "config.json")
    ours, other = _facts(model.plan), _facts(resolve(again, registry or default_registry()))
    changed = [
        f"{what} {other.get(what)!r} in place of {ours.get(what)!r}"
        for what in {**ours, **other}
        if ours.get(what) != other.get(what)
    ]
    if changed:
        raise ModelFileError(
            f"{directory} would be another model as a published FOLNet, which has {'; '.join(changed)}. What no weight "
            f"depends on can be changed in {directory / 'spec.toml'}"
        )
    with (
        explain_disk_errors(f"the checkpoint in {output}"),
        hold_lock(output, folder=True),
        scratch_folder(output / "config.json") as fresh,
    ):
        save_file(
            {key: value.contiguous() for key, value in published.items()}, fresh / "weights.safetensors"
        )
        (fresh / "config.json").write_bytes(text)
        for name in ("weights.safetensors", "config.json"):
            os.replace(fresh / name, output / name)


def spec_of(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], *, name: str, source: Path) -> Spec:
    """A published configuration as a spec.

    Args:
        settings: the configuration.
        tensors: the published weights by name; the table of absolute positions has as many rows as its tensor.
        name: of the spec.
        source: the configuration's file, for errors.

    Raises:
        ModelFileError: the configuration asks for a loss or a form of bool that there is not.
        SpecError: its values make no spec.
    """
    losses = settings["pretrain_loss"].split(".") if settings["pretrain_loss"] else []
    for loss in losses:
        if loss not in LOSSES:
            raise ModelFileError(f"{source}: pretrain_loss: {unknown('loss', loss, LOSSES)}")
    if settings["boolean_type"] not in BOOLEANS:
        raise ModelFileError(f"{source}: {unknown('boolean_type', settings['boolean_type'], BOOLEANS)}")
    operators = [name for branch in "12" for name in settings["mixer_ops"][branch] or ()]
    positions: list[dict[str, Any]] = []
    if settings["absolute_position"]:
        positions.append({"use": "absolute"})
    if settings["relative_position"]:
        positions.append({"use": "distance", "clip": settings["max_position_offset"], "cls": True})
    absolute = tensors.get("folnet.encoder.abs_pos_embd.weight")
    plain = {
        "name": name,
        "architecture": "folnet",
        "dims": {
            "layers": settings["num_layers"],
            "unary": settings["predicate_dims"][1],
            "binary": settings["predicate_dims"][2],
            "heads": settings["num_heads"],
            "head_size": settings["head_size"],
            "feedforward_unary": settings["intermediate_dims"][1],
            "feedforward_binary": settings["intermediate_dims"][2],
        },
        "options": {"diag_link": settings["diag_link"]},
        "input": {
            "vocabulary": settings["vocab_size"],
            "token_types": settings["type_vocab_size"],
            **({} if absolute is None else {"max_length": len(absolute)}),
        },
        "scope": {"mask_padding": False},
        "operators": {
            "layer": [{"use": operator} for operator in operators],
            "options": {"bool": {"activation": BOOLEANS[settings["boolean_type"]]}},
        },
        "positions": positions,
        "heads": [{"use": use, "as": prefix} for loss in losses for use, prefix in LOSSES[loss]],
        "regularisation": {
            "dropout": settings["hidden_dropout_prob"],
            "init_std": settings["initializer_range"],
        },
    }
    return Spec.from_toml(tomlkit.dumps({"format": 1, "model": plain}), source=str(source))


def config_of(model: Model) -> dict[str, Any]:
    """The published configuration of a model that was not imported from one."""
    spec, dims = model.spec, model.plan.dims
    uses = {position.name: position.options for position in model.plan.positions}
    outputs = [(p.output.branch, p.name) for p in model.plan.mixing if p.output is not None]
    branches = {
        number: [name for branch, name in outputs if branch == letter]
        for number, letter in (("1", "U"), ("2", "B"))
    }
    heads = [head.name for head in model.plan.heads]
    losses = [loss for loss in ("MLM", "NSP", "SCL") if LOSSES[loss][0][0] in heads]
    return {
        **FIXED,
        "hidden_dropout_prob": spec.regularisation.dropout,
        "initializer_range": spec.regularisation.init_std,
        "max_position_offset": uses["distance"].clip if "distance" in uses else 64,
        "absolute_position": "absolute" in uses,
        "relative_position": "distance" in uses,
        "vocab_size": dims.vocabulary,
        "type_vocab_size": dims.token_types,
        "diag_link": model.plan.architecture.options.diag_link,
        "num_layers": dims.layers,
        "mixer_ops": {"0": None, **branches},
        "boolean_type": {v: k for k, v in BOOLEANS.items()}[model.plan.state[0].options.activation],
        "predicate_dims": [0, dims.unary, dims.binary],
        "intermediate_dims": [0, dims.feedforward_unary, dims.feedforward_binary],
        "num_heads": dims.heads,
        "head_size": dims.head_size,
        "hidden_size": dims.unary,
        "pretrain_loss": ".".join(losses),
    }


def _facts(plan: Plan) -> dict[str, Any]:
    """What a network computes with, by names that a spec has."""
    facts: dict[str, Any] = {f"scope.{key}": value for key, value in asdict(plan.scope).items()}
    facts |= {f"dims.{key}": getattr(plan.dims, key) for key in asdict(plan.model_dims)}
    facts |= {f"options.{key}": value for key, value in asdict(plan.architecture.options).items()}
    for part in (*plan.mixing, *plan.state, *plan.positions, *plan.heads):
        facts[f"{part.kind} {part.name}"] = "there"
        facts |= {f"{part.name}.{key}": value for key, value in asdict(part.options).items()}
        if isinstance(part, PlannedOperator):
            facts[f"{part.name}.activation"] = part.activation
    return facts


def _names_of(model: Model) -> Names:
    """The published names of a model's parameters.

    Raises:
        ModelFileError: a part of the model has no counterpart in the published network.
    """
    plan = model.plan
    if plan.architecture.name != "folnet":
        raise ModelFileError(
            f"{plan.spec.name!r} is a {plan.architecture.name}, and only a folnet can be a published FOLNet checkpoint"
        )
    unfit = [f"position {p.name!r}" for p in plan.positions if p.name not in ("absolute", "distance")]
    unfit += [
        f"operator {p.name!r}" for p in plan.mixing if not p.part.__module__.startswith("peirce_folnet.")
    ]
    unfit += ["layers that differ"] if len(plan.layers) > 1 else []
    unfit += [f"augmenter {p.name!r}" for p in plan.augmenters]
    sides = [p.output.branch for p in plan.mixing if p.output is not None]
    if sides != sorted(sides, reverse=True):
        unfit.append("an operator that writes relations before one that writes properties")
    if unfit:
        raise ModelFileError(f"the published FOLNet has no equivalent of {', '.join(unfit)}")
    return names(plan, model.state_dict())


def _state(model: Model, tensors: Mapping[str, Tensor], source: Path) -> dict[str, Tensor]:
    """The model's state from published tensors, each checked against the model's shapes."""
    table, state = _names_of(model), model.state_dict()
    shapes = {
        theirs: [sum(len(state[p]) for p in parts), *state[parts[0]].shape[1:]]
        for theirs, parts in table.items()
    }
    if "mlm" in model.heads:
        shapes[TIED] = shapes[EMBEDDING]
    tensors = check_published(tensors, shapes, source)
    if TIED in shapes and not torch.equal(tensors[TIED], tensors[EMBEDDING]):
        raise ModelFileError(
            f"{source}: {TIED} differs from {EMBEDDING}; Peirce's mlm head decodes with the word embeddings, so a "
            "checkpoint whose decoder is not tied cannot be imported"
        )
    result = {}
    for theirs, parts in table.items():
        pieces = tensors[theirs].split_with_sizes([len(state[part]) for part in parts])
        result.update({part: piece.clone() for part, piece in zip(parts, pieces, strict=True)})
    return result


def _read_config(path: Path) -> dict[str, Any]:
    settings = published_config(path)
    known = (*READ, *FIXED, *OPTIONAL)
    problems = [f"{key} is missing" for key in READ if key not in settings]
    problems += [unknown("setting", key, known) for key in settings if key not in known]
    problems += [
        f"{key} is {settings[key]!r}, and Peirce's folnet has {value!r}"
        for key, value in FIXED.items()
        if key in settings and settings[key] != value
    ]
    if not problems and settings["hidden_size"] != settings["predicate_dims"][1]:
        problems.append("hidden_size differs from predicate_dims[1]")
    if problems:
        raise ModelFileError(f"{path} cannot be imported: {'; '.join(problems)}")
    return settings

"""From a folder that `save_pretrained` wrote to a saved model. Nothing in it is executed.

What the model needs and the folder lacks is an error that lists it. What the class in `transformers` does not read is
not read here either, and is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import tomlkit
import torch
from torch import Tensor

from peirce.compose import build
from peirce.errors import ModelFileError, unknown
from peirce.files import read_bytes
from peirce.model import (
    Model,
    check_published,
    published_config,
    published_tensors,
    shorten_list,
    unwrapped_name,
)
from peirce.registry import Registry
from peirce.spec import FORMAT, Spec
from peirce_hf.checkpoints.bert import Bert
from peirce_hf.checkpoints.gpt2 import GPT2
from peirce_hf.checkpoints.layout import Layout, log
from peirce_hf.checkpoints.llama import Llama

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""The files that weights are in; a model in several has an index, which says which of them has which tensor."""
ASSET = "published-config.json"
"""The configuration as it was imported, among the model's assets."""
_OLDER, _NAMES = re.compile(r"(?<=LayerNorm\.)(gamma|beta)$"), {"gamma": "weight", "beta": "bias"}
"""What the first BERTs call the parameters of a norm."""
LAYOUTS: Mapping[str, type[Layout]] = {layout.model_type: layout for layout in (Bert, GPT2, Llama)}


def import_transformers(
    folder: Path, directory: Path, *, name: str | None = None, registry: Registry | None = None
) -> Model:
    """Make a saved model of a BERT, a GPT-2 or a Llama that `transformers` saved.

    Args:
        folder: with `config.json` and `model.safetensors` or `pytorch_model.bin`, or its shards and their index; a
            `tokenizer.json` becomes an asset of the model.
        directory: where the model is saved.
        name: the model's name; the directory's if None.
        registry: where parts are looked up.

    Raises:
        ModelFileError: a file cannot be read, the configuration is of another model or asks for what these layouts do
            not have, or tensors are missing or misshapen.
    """
    path = folder / CONFIG
    settings = {key: value for key, value in published_config(path).items() if value is not None}
    kind = str(settings.get("model_type"))
    if kind not in LAYOUTS:
        message = unknown("model_type", kind, LAYOUTS)
        raise ModelFileError(
            f"{path}: {message}. The architectures 'pretrained', 'pretrained_decoder' and 'pretrained_encoder_decoder' "
            "run others by transformers itself"
        )
    tensors = _without_wrappers(_tensors(folder), LAYOUTS[kind], folder)
    layout = LAYOUTS[kind].read(settings, tensors, path)
    plain = {"name": name or directory.resolve().name, **layout.spec()}
    if not plain["heads"]:
        log.warning("%s has no tensors of a head that is known here: the model gives atoms alone", folder)
    spec = Spec.from_toml(tomlkit.dumps({"format": FORMAT, "model": plain}), source=str(path))
    model = build(spec, registry=registry)
    state = _state(model, layout, tensors, folder)
    model.to(next(iter(state.values())).dtype).load_state_dict(state)
    assets = {ASSET: read_bytes(path, text=True)}
    if (folder / TOKENIZER).exists():
        assets[TOKENIZER] = read_bytes(folder / TOKENIZER, text=True)
    model.save(directory, assets=assets)
    return model


def _without_wrappers(tensors: Mapping[str, Tensor], layout: type[Layout], source: Path) -> dict[str, Tensor]:
    """Tensors by the names that transformers gives them today, without those of modules around the model.

    Raises:
        ModelFileError: two tensors have one name then.
    """
    names = {key: _OLDER.sub(lambda found: _NAMES[found[0]], unwrapped_name(key, ())) for key in tensors}
    before = [
        each.removesuffix(layout.anchor)
        for each in names.values()
        if f".{each}".endswith(f".{layout.anchor}")
    ]
    outer = min(before, key=len, default="").removesuffix(layout.prefix)
    found = {names[key].removeprefix(outer): value for key, value in tensors.items()}
    if len(found) < len(tensors):
        raise ModelFileError(
            f"{source} has {len(tensors)} tensors, of which some have one name when those of wrappers are taken off; "
            "save the state dict of one model alone"
        )
    return found


def _tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of the one file, or of all shards that the index names."""
    for weights in WEIGHTS:
        if (folder / weights).exists():
            return published_tensors(folder / weights, "state_dict")
    indices = [folder / f"{weights}.index.json" for weights in WEIGHTS]
    path = next((index for index in indices if index.exists()), None)
    if path is None:
        raise ModelFileError(
            f"{folder} has none of {', '.join(WEIGHTS)} and no index of shards; save the model there with "
            "transformers: model.save_pretrained(folder)"
        )
    placed = published_config(path).get("weight_map")
    if not (isinstance(placed, dict) and placed and all(isinstance(file, str) for file in placed.values())):
        raise ModelFileError(
            f"{path} has no table `weight_map` from tensors to files; save or copy the model again"
        )
    files = sorted(set(placed.values()))
    for file in files:
        suffix = Path(path.name.removesuffix(".index.json")).suffix
        if Path(file).name != file or not file.endswith(suffix):
            raise ModelFileError(f"{path} names {file!r}, which is not a {suffix} file beside it")
    found: dict[str, Tensor] = {}
    for file in files:
        tensors = published_tensors(folder / file)
        if differing := sorted(tensors.keys() ^ {key for key, value in placed.items() if value == file}):
            raise ModelFileError(
                f"{path} and {file} do not agree on {shorten_list(differing)}; save or copy the model again"
            )
        found |= tensors
    return found


def _state(model: Model, layout: Layout, tensors: Mapping[str, Tensor], source: Path) -> dict[str, Tensor]:
    """The model's state from published tensors, each checked against the model's shapes."""
    state, table = model.state_dict(), layout.names()
    shapes: dict[str, list[int]] = {}
    for theirs, (ours, turned) in table.items():
        shape = [sum(len(state[part]) for part in ours), *state[ours[0]].shape[1:]]
        shapes[theirs] = shape[::-1] if turned else shape
    given = {key: value for key, value in tensors.items() if key in shapes}
    if ignored := [key for key in tensors if key not in shapes]:
        log.warning("%s: a %s does not read the tensors %s", source, layout.model_type, shorten_list(ignored))
    given = check_published(given, shapes, source)
    result = {}
    for theirs, (ours, turned) in table.items():
        whole = given[theirs].t() if turned else given[theirs]
        pieces = whole.split_with_sizes([len(state[part]) for part in ours])
        for part, piece in zip(ours, pieces, strict=True):
            result[part] = piece.clone(memory_format=torch.contiguous_format)
    return result

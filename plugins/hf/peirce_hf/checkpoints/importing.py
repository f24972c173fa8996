"""From a folder that `save_pretrained` wrote to a saved model, and back. Nothing in it is executed.

What the model needs and the folder lacks is an error that lists it. What the class in `transformers` does not read is
not read here either, and is said.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from attrs import evolve
from safetensors.torch import save
from torch import Tensor

from peirce.compose import build, load
from peirce.errors import ModelFileError, TaskError, unknown
from peirce.files import explain_disk_errors, hold_lock, read_bytes, scratch_folder
from peirce.model import (
    Model,
    check_published,
    published_config,
    published_tensors,
    shorten_list,
    unwrapped_name,
)
from peirce.registry import Registry, class_named, default_catalogue
from peirce.spec import FORMAT, Spec
from peirce_hf.hooks import LAYOUTS
from peirce_hf.layouts.layout import Layout, log
from peirce_text import LONGEST, Tokenizer

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""The files that weights are in; a model in several has an index, which says which of them has which tensor."""
ASSET = "published-config.json"
"""The configuration as it was imported, among the model's assets."""
SHARED = ("quantization_config", "tie_word_embeddings")
"""What a multimodal model's configuration says of its language model, beside `text_config`."""
_OLDER, _NAMES = re.compile(r"(?<=LayerNorm\.)(gamma|beta)$"), {"gamma": "weight", "beta": "bias"}
"""What the first BERTs call the parameters of a norm."""


def import_transformers(
    folder: Path,
    directory: Path,
    *,
    name: str | None = None,
    count_padding: bool = False,
    registry: Registry | None = None,
) -> Model:
    """Make a saved model of one that `transformers` saved, of a family that has a layout.

    Args:
        folder: with `config.json` and `model.safetensors` or `pytorch_model.bin`, or its shards and their index; a
            `tokenizer.json`, or `vocab.txt`, becomes an asset of the model, which cuts texts to what the model reads.
        directory: where the model is saved.
        name: the model's name; the directory's if None.
        count_padding: whether padding counts as places, as the class of transformers counts it without `position_ids`.
        registry: where parts are looked up.

    Raises:
        ModelFileError: a file cannot be read, the configuration is of another model or asks for what these layouts do
            not have, or tensors are missing or misshapen.
    """
    path = folder / CONFIG
    settings = _text_settings(whole := published_config(path), path, registry)
    cls = layout_of(str(settings.get("model_type")), path, registry)
    tensors = _without_wrappers(_tensors(folder), cls, folder)
    layout = cls.read(settings, tensors, path)
    spec = _spec(layout, name or directory.resolve().name, path)
    spec = evolve(spec, scope=evolve(spec.scope, count_padding=count_padding))
    if not spec.heads:
        log.warning("%s has no tensors of a head that is known here: the model gives atoms alone", folder)
    model = build(spec, registry=registry)
    state = _state(model, layout, tensors, folder)
    model.to(next(iter(state.values())).dtype).load_state_dict(state)
    assets = {
        ASSET: read_bytes(path, text=True) if settings is whole else json.dumps(settings, indent=2).encode()
    }
    try:
        longest = model.signature.largest.get("length", LONGEST)
        assets[TOKENIZER] = Tokenizer.load(folder).saved_content(longest)
    except TaskError:  # there is none, or one of a kind that no pipeline of Peirce's reads
        if (folder / TOKENIZER).exists():
            assets[TOKENIZER] = read_bytes(folder / TOKENIZER, text=True)
    model.save(directory, assets=assets)
    return model


def export_transformers(directory: Path, output: Path, *, registry: Registry | None = None) -> None:
    """Write an imported model as `transformers` saved it, with the weights that it has now.

    Args:
        directory: of the saved model.
        output: the folder where `config.json`, `model.safetensors` and, if there is one, `tokenizer.json` go.
        registry: where layouts and parts are looked up.

    Raises:
        ModelFileError: it was not imported, or is no longer what its configuration says.
    """
    kept = directory / "assets" / ASSET
    if not kept.is_file():
        raise ModelFileError(
            f"{directory} has no assets/{ASSET}, so it was not imported from transformers; `peirce push` writes any "
            "model for transformers, with classes of Peirce's"
        )
    model = load(directory, registry=registry)
    state, settings = model.state_dict(), published_config(kept)
    cls = layout_of(str(settings.get("model_type")), kept, registry)
    layout = cls.of_model(settings, state, bool(model.spec.heads), kept)
    again = _spec(layout, model.spec.name, kept)
    scope = evolve(again.scope, count_padding=model.spec.scope.count_padding)
    if evolve(again, scope=scope, regularisation=model.spec.regularisation) != model.spec:
        raise ModelFileError(
            f"{directory} is no longer the {cls.model_type} that {kept} describes: its spec.toml says otherwise; undo "
            "the changes of its parts, or keep it as a model of Peirce's"
        )
    named = [str(each) for each in settings.get("architectures") or () if "For" in str(each)]
    if named and not model.spec.heads:
        log.warning(
            "%s is written without a head, which %s of its config.json has: transformers will make it anew",
            directory, named[0],
        )  # fmt: skip
    tensors = {
        theirs: target.join([state[each] for each in target.names])
        for theirs, target in layout.names(state).items()
    }
    if not layout.tie_word_embeddings:  # then transformers does not repeat them itself
        tensors |= {copy: tensors[of].clone() for copy, of in layout.copies().items() if of in tensors}
    files = {CONFIG: read_bytes(kept), WEIGHTS[0]: save(tensors, metadata={"format": "pt"})}
    tokenizer = directory / "assets" / TOKENIZER
    if tokenizer.is_file():
        files[TOKENIZER] = read_bytes(tokenizer)
    with (
        explain_disk_errors(f"the checkpoint in {output}"),
        hold_lock(output, folder=True),
        scratch_folder(output / CONFIG) as fresh,
    ):
        for name, content in files.items():
            (fresh / name).write_bytes(content)
        for name in reversed(files):  # the configuration last: without it, nothing loads
            os.replace(fresh / name, output / name)


def _spec(layout: Layout, name: str, source: Path) -> Spec:
    return Spec.from_toml(
        tomlkit.dumps({"format": FORMAT, "model": {"name": name, **layout.spec()}}), source=str(source)
    )


def layout_of(kind: str, source: Path, registry: Registry | None = None) -> type[Layout]:
    """The layout of a family that a plug-in registers.

    Args:
        kind: what `model_type` of `config.json` says.
        source: the file, for errors.
        registry: where layouts are looked up; what is installed and active if None.

    Raises:
        ModelFileError: there is none; the message lists them.
        RegistryError: what is registered cannot be imported, or is no layout.
    """
    known = (registry or default_catalogue()).names(LAYOUTS)
    if kind not in known:
        raise ModelFileError(
            f"{source}: {unknown('model_type', kind, known)}. The architectures 'pretrained', 'pretrained_decoder' and "
            "'pretrained_encoder_decoder' run others by transformers itself"
        )
    return class_named(LAYOUTS, kind, Layout, registry)


def _text_settings(settings: dict[str, Any], path: Path, registry: Registry | None) -> dict[str, Any]:
    """The settings of a multimodal model's language model, where its layout takes it; otherwise those given."""
    inner: Any = settings.get("text_config")
    kind = str(inner.get("model_type")) if isinstance(inner, dict) else ""
    if kind not in (registry or default_catalogue()).names(LAYOUTS):
        return settings
    layout = layout_of(kind, path, registry)
    if settings.get("model_type") not in layout.inside:
        return settings
    log.warning(
        "%s: of this %s the language model is taken, as a %s; it reads text alone",
        path,
        settings["model_type"],
        kind,
    )
    shared: dict[str, Any] = {key: settings[key] for key in SHARED if key in settings}
    return {**inner, **shared, "architectures": [layout.example[0]]}


def _without_wrappers(tensors: Mapping[str, Tensor], layout: type[Layout], source: Path) -> dict[str, Tensor]:
    """Tensors by the names that transformers gives them today, without those of modules around the model.

    Raises:
        ModelFileError: two tensors have one name then.
    """
    names = {key: _OLDER.sub(lambda found: _NAMES[found[0]], unwrapped_name(key, ())) for key in tensors}
    anchor = layout.anchor()
    before = [each.removesuffix(anchor) for each in names.values() if f".{each}".endswith(f".{anchor}")]
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
    state = model.state_dict()
    table = layout.names(state)
    shapes: dict[str, list[int]] = {}
    for theirs, target in table.items():
        shape = [sum(len(state[part]) for part in target.names), *state[target.names[0]].shape[1:]]
        shapes[theirs] = shape[::-1] if target.transposed else shape
    given = {key: value for key, value in tensors.items() if key in shapes}
    if ignored := [key for key in tensors if key not in shapes]:
        log.warning("%s: a %s does not read the tensors %s", source, layout.model_type, shorten_list(ignored))
    given = check_published(given, shapes, source)
    result: dict[str, Tensor] = {}
    for theirs, target in table.items():
        pieces = target.split(given[theirs], [len(state[part]) for part in target.names])
        result |= dict(zip(target.names, pieces, strict=True))
    return result

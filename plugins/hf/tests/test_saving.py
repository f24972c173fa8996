"""A folder of `transformers` holds the files of one save, or is refused."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from small_specs import TRANSFORMER

import peirce
from peirce.errors import ModelFileError
from peirce.files import NO_DIGESTS
from peirce.registry import Registry
from peirce_hf import PeirceForMaskedLM, from_peirce


@pytest.fixture
def saved(registry: Registry, tmp_path: Path) -> Path:
    _save(tmp_path / "hf", 0, registry)
    return tmp_path / "hf"


def _save(folder: Path, seed: int, registry: Registry, **settings: object) -> None:
    from_peirce(peirce.build(TRANSFORMER, seed=seed, registry=registry), registry=registry).save_pretrained(
        folder, **settings
    )


def _first(folder: Path) -> float:
    model = PeirceForMaskedLM.from_pretrained(folder)
    return float(torch.cat([value.flatten() for value in model.state_dict().values()]).sum())


def test_no_bit_of_weights_and_spec_changes_without_notice(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, content = _first(saved), (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    with pytest.raises(ModelFileError, match=r"model\.safetensors: not what was saved.*remove peirce\.json"):
        _first(saved)
    monkeypatch.setenv(NO_DIGESTS, "1")
    _first(saved)
    monkeypatch.delenv(NO_DIGESTS)
    (saved / "model.safetensors").write_bytes(content)
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, "id2label": {"0": "yes", "1": "no"}}))
    assert _first(saved) == before, "tools may change the rest of the configuration"
    config["spec"]["scope"]["kind"] = "causal"
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFileError, match=r"config\.json: not what was saved"):
        _first(saved)


def test_a_save_that_ends_anywhere_leaves_a_model_that_is_whole_or_refused(
    saved: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _first(saved)
    _save(saved.with_name("other"), 1, registry)
    new = _first(saved.with_name("other"))
    (saved / "notes.txt").write_text("of a user")
    replace, seen = os.replace, set[object]()
    for moves in range(9):
        _save(saved, 0, registry)
        left = [moves]

        def ending(source: Path, target: Path, left: list[int] = left) -> None:
            if Path(target).parent == saved:
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
            replace(source, target)

        monkeypatch.setattr(os, "replace", ending)
        with suppress(KeyboardInterrupt):
            _save(saved, 1, registry, max_shard_size="20KB")
        monkeypatch.setattr(os, "replace", replace)
        try:
            seen.add(_first(saved))
        except ModelFileError:
            seen.add("refused")
    assert seen == {old, new, "refused"}
    assert [path.name for path in saved.parent.iterdir() if path.name.startswith(".")] == []
    assert not (saved / "model.safetensors").exists(), "weights of the save before go"
    assert (saved / "notes.txt").exists()

"""Saves over a model, in processes that are killed or that go on together: `killed_saves.py FOLDER WHEN`.

`at` kills a save at each of its changes of a file, one save after the other; `together` lets three processes save
while this one reads. What lies in FOLDER/model is checked each time; the last line counts what was found.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from killed_moves import killed_at
from kills import fork

from peirce.model import saved_files
from peirce.model.storage import save

OTHERS = {"model.onnx": b"mine", "runs/a/events": b"many", "assets/notes.txt": b"mine as well"}


def model(name: str) -> dict[str, Any]:
    """A model all of whose files tell which it is; each has an asset that the others lack."""
    origin = {"plugin": "p", "distribution": None, "version": None}
    return {
        "spec": f'name = "{name}"\n',
        "tensors": {"weight": torch.full((64,), float(ord(name)))},
        "dtype": "float32",
        "provenance": {"format": 1, "peirce": name, "torch": "0", "parts": {"heads.x": origin}},
        "assets": {"words.txt": name.encode(), f"sub/{name}.txt": name.encode()},
    }


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def whole(files: Mapping[str, bytes]) -> str:
    """The name of the model that files are, all of them.

    Raises:
        AssertionError: they are a mixture.
    """
    found = json.loads(files["provenance.json"])["peirce"]
    saved = model(found)
    assert files["spec.toml"] == saved["spec"].encode(), "the spec is another model's"
    assert files["weights.safetensors"].endswith(saved["tensors"]["weight"].numpy().tobytes()), (
        "the weights are"
    )
    assets = {n.removeprefix("assets/"): c for n, c in files.items() if n.startswith("assets/")}
    assert assets == saved["assets"], f"the assets are {assets}, and the model is {found}"
    return str(found)


def opened(folder: Path) -> str:
    """The name of the model that a reader gets."""
    with saved_files(folder) as files:
        names = ("spec.toml", "weights.safetensors", *(f"assets/{name}" for name in files.assets))
        provenance = json.dumps(dict(files.provenance)).encode()
        return whole({"provenance.json": provenance, **{name: files.read(name) for name in names}})


def looked_at(folder: Path) -> str:
    """The name of the model that lies in a folder, whoever looks."""
    return whole({name: content for name, content in contents(folder).items() if name not in OTHERS})


def _together(folder: Path) -> dict[str, int]:
    """Three processes that save, each its own model; in the end one of their last ones lies there."""

    def saves(name: str) -> None:
        for number in range(8):
            save(folder, **model(name))
            (folder / f"{name}{number}").write_text("put there between saves")

    waiting = {fork(partial(saves, name)) for name in "abc"}
    counts: dict[str, int] = {}
    while waiting:
        found = opened(folder)
        counts[found] = counts.get(found, 0) + 1
        ended = {child: os.waitpid(child, os.WNOHANG) for child in waiting}
        assert all(status == 0 for _, status in ended.values()), "a save failed"
        waiting -= {child for child, (number, _) in ended.items() if number}
        assert (folder / "model.onnx").read_bytes() == OTHERS["model.onnx"]
    for path in [*folder.glob("[abc][0-7]")]:
        path.unlink()
    return counts


def main(place: Path, when: str) -> None:
    folder = place / "model"
    save(folder, **model("a"))
    for name, content in OTHERS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    counts = _together(folder) if when == "together" else _killed_again_and_again(folder)
    save(folder, **model("z"))
    assert looked_at(folder) == "z"
    assert [path.name for path in place.iterdir()] == ["model"], "something is left beside the folder"
    left = {path.name for path in folder.iterdir()} - {path.split("/")[0] for path in OTHERS}
    assert left == {"spec.toml", "weights.safetensors", "provenance.json"}, left
    print(json.dumps(counts))


def _killed_again_and_again(folder: Path) -> dict[str, int]:
    save(folder, **model("b"))
    name, before, counts = "a", "b", {"old": 0, "new": 0}
    for count in range(1, 10_000):
        killed = killed_at(count, lambda name=name: save(folder, **model(name)))
        found = opened(folder)
        assert found in (name, before), found
        for other, content in OTHERS.items():
            assert (folder / other).read_bytes() == content, other
        if not killed:
            break
        counts["new" if found == name else "old"] += 1
        before, name = found, chr(ord("a") + (ord(found) - ord("a") + 1) % 26)
    return counts


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

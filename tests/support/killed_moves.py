"""Exports that are killed while they move what they made to its place: `killed_moves.py KIND FOLDER`.

KIND is `engine` or `triton`. A fork is killed at its first change of a file, the next one at its second, and so on,
each while it puts a new export in the place of an older one. Printed is what was found after each, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kills import CHANGES, forked, signal_at

from peirce.errors import ModelFileError
from peirce.files import digest_of
from peirce.parts import Signature, TensorSpec
from peirce_export.metadata import Metadata
from peirce_export.tensorrt.header import Header, move_engines
from peirce_export.tensorrt.profiles import profiles
from peirce_export.triton.config import CONFIG, TritonOptions, config_text, parse, tensor_config
from peirce_export.triton.repository import add, next_version

MODELS = ("asked", "asked_front")


def killed_at(count: int, move: Callable[[], object]) -> bool:
    """Whether a fork that moves something was killed, at so many changes of a file."""

    def changes(event: str, arguments: tuple[Any, ...]) -> bool:
        mode = arguments[2] if event == "open" else None
        return event in CHANGES or (isinstance(mode, int) and bool(mode & (os.O_RDWR | os.O_WRONLY)))

    def body() -> None:
        signal_at(signal.SIGKILL, count, changes)
        move()

    status = forked(body)
    assert status in (0, -signal.SIGKILL), f"a move failed with {status}"
    return status != 0


def engine(folder: Path, metadata: Metadata, name: str) -> list[Path]:
    """An engine and its header; the content tells its name."""
    folder.mkdir(parents=True)
    path = folder / "model.engine"
    path.write_bytes(name.encode() * 1000)
    Header(
        metadata=metadata, backend="rtx", tensorrt="0", capabilities=("8.9",), layers=1, seconds=0.0, onnx="",
        profiles=profiles(metadata.signature), size=path.stat().st_size, sha256=digest_of(path),
    ).write(path)  # fmt: skip
    return list(folder.iterdir())


def after_kills(
    folder: Path, prepared: Callable[[], tuple[Callable[[], object], Callable[[], str]]]
) -> list[str]:
    """What is found after each kill; `prepared` gives in a new folder what moves something and what looks at it."""
    found = []
    for count in range(1, 1000):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        move, look = prepared()
        killed = killed_at(count, move)
        found.append(look())
        if not killed:
            return found
    raise AssertionError("a move does not end")


def engines(folder: Path, metadata: Metadata) -> list[str]:
    """What a session finds after each kill: the older engine, the newer one, or a refusal."""
    path = folder / "place" / "model.engine"

    def look() -> str:
        try:
            Header.read(path).check(path)
            return path.read_text()[0]
        except ModelFileError:
            return "refused"

    def prepared() -> tuple[Callable[[], object], Callable[[], str]]:
        engine(path.parent, metadata, "a")
        new = engine(folder / "new", metadata, "b")
        return lambda: move_engines(new, path.parent), look

    return after_kills(folder, prepared)


def repositories(folder: Path, metadata: Metadata) -> list[str]:
    """The versions of each model that there are after each kill, all of them whole."""
    place = folder / "repository"

    def look() -> str:
        said = ", ".join("".join(map(str, versions(place / name))) for name in MODELS)
        number = next_version(place, MODELS)
        add(repository(folder / "next", metadata, number), place, number, MODELS)
        assert all(number in versions(place / name) for name in MODELS)
        return said

    def prepared() -> tuple[Callable[[], object], Callable[[], str]]:
        add(repository(folder / "old", metadata, 1), place, 1, MODELS)
        made = repository(folder / "made", metadata, 2)
        return lambda: add(made, place, 2, MODELS), look

    return after_kills(folder, prepared)


def repository(folder: Path, metadata: Metadata, version: int) -> Path:
    """One version of two models."""
    for name in MODELS:
        (folder / name / str(version)).mkdir(parents=True)
        (folder / name / str(version) / "model.onnx").write_bytes(bytes([version]) * 1000)
        (folder / name / "warmup").mkdir()
        (folder / name / "warmup" / "mask").write_bytes(b"1" * 16)
        config = tensor_config(name, metadata, TritonOptions(max_batch=version))
        (folder / name / CONFIG).write_text(config_text(config))
    return folder


def versions(model: Path) -> list[int]:
    """The versions of a model; each of them, and what stands beside them, is whole."""
    config = parse((model / CONFIG).read_text(), str(model))
    assert config.max_batch_size >= 1
    assert (model / "warmup" / "mask").read_bytes() == b"1" * 16
    numbers = sorted(int(each.name) for each in model.iterdir() if each.name.isdigit())
    for number in numbers:
        assert (model / str(number) / "model.onnx").read_bytes() == bytes([number]) * 1000
    return numbers


def main(kind: str, folder: Path) -> None:
    dims = ("batch", "length")
    signature = Signature(
        [TensorSpec(name="input_ids", dtype="int64", dims=dims, high=9)],
        [TensorSpec(name="unary", dtype="float", dims=(*dims, 8))],
    )
    metadata = Metadata(
        signature=signature, spec="", provenance={}, precision="float32", opset_requested=20, opset_actual=20
    )
    print(json.dumps({"engine": engines, "triton": repositories}[kind](folder, metadata)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

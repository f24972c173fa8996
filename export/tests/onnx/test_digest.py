"""An ONNX file carries its own digest: no bit of it, or of what belongs to it, changes without notice."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from command_line import exit_code
from hand_model import Hand

from peirce import Session
from peirce.errors import ModelFileError
from peirce.files import NO_DIGESTS
from peirce_export.metadata import PREFIX, step_of
from peirce_export.onnx.content import DIGEST, OTHERS, Content, RewrittenError, sign
from peirce_export.onnx.exporter import trace, write
from peirce_export.runtimes import find_runtime


def check(path: Path) -> str | None:
    return Content.read(path).check()


@pytest.fixture
def file(hand_file: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(hand_file, tmp_path / "m.onnx"))


def _flip(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as opened:
        opened.seek(place)
        (byte,) = opened.read(1)
        opened.seek(place)
        opened.write(bytes([byte ^ 1 << bit]))


def test_a_flipped_bit_anywhere_is_refused_in_one_line(file: Path) -> None:
    draw, size = random.Random(0), file.stat().st_size
    assert check(file) == onnx.load(str(file)).metadata_props[-1].value
    tail = [(place, bit) for place in range(size - 160, size) for bit in range(8)]
    places = [(draw.randrange(size), draw.randrange(8)) for _ in range(60)] + draw.sample(tail, 60)
    for place, bit in places:
        _flip(file, place, bit)
        with pytest.raises(ModelFileError, match=r"m\.onnx") as refused:
            check(file)
        assert not isinstance(refused.value, RewrittenError)
        assert "\n" not in str(refused.value)
        _flip(file, place, bit)
    assert check(file)


def test_sessions_and_verification_refuse_it_unless_asked_not_to(
    file: Path, hand: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Session(file) as session:
        assert session.digest == check(file)
    weights = file.read_bytes().index(onnx.load(str(file)).graph.initializer[0].raw_data) + 1
    _flip(file, weights, 0)
    for opening in (lambda: Session(file), lambda: find_runtime(file).verify(file, hand)):
        with pytest.raises(ModelFileError, match=r"m\.onnx is not what was exported.*digests=False"):
            opening()
    assert exit_code("verify", file, "--alone") == 2
    assert "is not what was exported" in capsys.readouterr().err
    with Session(file, digests=False) as session:
        assert session.digest is None
    monkeypatch.setenv(NO_DIGESTS, "1")
    Session(file).close()


def test_a_file_of_0_1_has_no_digest_and_opens(file: Path, hand: Any) -> None:
    proto = onnx.load(str(file))
    kept = [entry for entry in proto.metadata_props if entry.key not in (DIGEST, OTHERS)]
    del proto.metadata_props[:]
    proto.metadata_props.extend(kept)
    onnx.save(proto, str(file))
    with pytest.raises(ModelFileError, match="has lost its digest"):
        Session(file)
    next(entry for entry in proto.metadata_props if entry.key == f"{PREFIX}format").value = "1"
    onnx.save(proto, str(file))
    with Session(file) as session:
        assert session.digest is None
    assert any("carries no digest" in note for note in find_runtime(file).verify(file, hand).notes)
    sign(file)
    with Session(file) as session:
        assert session.digest


def test_a_file_that_a_tool_wrote_again_says_so(file: Path, hand: Any) -> None:
    proto = onnx.load(str(file))
    proto.metadata_props.add(key="colour", value="blue")
    onnx.save(proto, str(file))
    with pytest.raises(
        ModelFileError, match=r"was written again after its export.*Export it again.*digests=False"
    ):
        Session(file)
    assert any("was written again" in note for note in find_runtime(file).verify(file, hand).notes)
    with Session(file, digests=False) as session:
        assert session.signature == hand.signature


def test_weights_beside_the_file_and_the_graph_of_a_step_belong_to_it(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    graph = trace(hand, 20, "float32")
    write(graph, step_of(path))
    write(graph, path, external_above=100)
    listed = {p.key: p.value for p in onnx.load(str(path), load_external_data=False).metadata_props}
    assert set(json.loads(listed[OTHERS])) == {"m.onnx.data", "m.step.onnx"}
    assert check(path)
    for name in ("m.onnx.data", "m.step.onnx"):
        other = tmp_path / name
        _flip(other, other.stat().st_size // 2, 3)
        with pytest.raises(ModelFileError, match=rf"{name} is not what was exported with .*m\.onnx"):
            Session(path)
        _flip(other, other.stat().st_size // 2, 3)
    for name in ("m.onnx", "m.step.onnx"):
        (tmp_path / name).rename(tmp_path / name.replace("m.", "n.", 1))
    assert check(tmp_path / "n.onnx"), "files may move together"

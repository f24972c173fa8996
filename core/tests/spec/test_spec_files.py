"""Specs extend one another, single values are replaced, and ready specs go by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peirce.errors import SpecError
from peirce.registry import load_spec, ready_specs
from peirce.spec import Spec, parse_override

BASE = """\
format = 1
[model]
name = "base"
architecture = "folnet"
options = { diag_link = true }
[model.dims]
layers = 12
unary = 768
[model.operators]
layer = "j.a"
[[model.positions]]
use = "distance"
clip = 64
[[model.heads]]
use = "mlm"
[[model.heads]]
use = "entities"
count = 10
"""
CHILD = """\
extend = "base.toml"
[model]
name = "child"
[model.dims]
layers = 2
[[model.positions]]
use = "absolute"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "child.toml").write_text(CHILD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tables_merge_and_lists_are_replaced(folder: Path) -> None:
    spec = load_spec("child.toml")
    assert (spec.name, spec.architecture) == ("child", "folnet")
    assert spec.dims == {"layers": 2, "unary": 768}
    assert [position.use for position in spec.positions] == ["absolute"]
    assert [head.use for head in spec.heads] == ["mlm", "entities"]
    assert "extend" not in spec.to_toml()
    assert Spec.from_toml(spec.to_toml()) == spec


def test_each_key_is_placed_in_the_file_that_gave_it(folder: Path) -> None:
    spec = load_spec("child.toml")
    assert spec.at("model.dims.layers") == "child.toml:5"
    assert spec.at("model.dims.unary") == "base.toml:8"
    assert spec.at("model.positions.0.use") == "child.toml:7"
    assert spec.at("model.positions.0.clip") == "child.toml:6"
    assert spec.at("model.heads.1.count") == "base.toml:18"


def test_a_relative_path_starts_at_the_extending_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "grand.toml").write_text('extend = "../child.toml"\n[model]\nname = "grand"\n')
    spec = load_spec(inner / "grand.toml")
    assert (spec.name, spec.dims["layers"], spec.dims["unary"]) == ("grand", 2, 768)
    assert spec.at("model.name") == "inner/grand.toml:3"
    text = (inner / "grand.toml").read_text()
    assert Spec.from_toml(text, str(inner / "grand.toml")) == spec


def test_a_circle_is_named(folder: Path) -> None:
    (folder / "base.toml").write_text('extend = "child.toml"\n')
    with pytest.raises(SpecError, match=r"child.toml extends base.toml extends child.toml: .*cannot"):
        load_spec("child.toml")


@pytest.mark.parametrize(
    ("extend", "message"),
    [
        (
            '"other.toml"',
            r"no spec file other.toml; that folder has base.toml, child(.|\n)*child.toml:1",
        ),
        ('"no-such-name"', r"unknown ready spec 'no-such-name'(.|\n)*extended at child.toml:1"),
        ("3", "child.toml:1: extend must be a string"),
    ],
)
def test_extending_nothing_is_an_error(folder: Path, extend: str, message: str) -> None:
    (folder / "child.toml").write_text(CHILD.replace('"base.toml"', extend))
    with pytest.raises(SpecError, match=message):
        load_spec("child.toml")


def test_a_mistake_in_the_extended_file_is_placed_there(folder: Path) -> None:
    (folder / "base.toml").write_text(BASE.replace('use = "mlm"', "use = 3"))
    with pytest.raises(SpecError, match=r"^base.toml:15: model.heads.0.use must be a string"):
        load_spec("child.toml")


def test_overrides_reach_every_depth(folder: Path) -> None:
    changes: dict[str, Any] = {
        "model.dims.layers": 3,
        "model.heads.1.count": 135,
        "model.input.vocabulary": 193,
        "model.operators.layer": [{"use": "join"}],
        "model.regularisation": {"dropout": 0.0},
    }
    spec = load_spec("child.toml", changes)
    assert spec == load_spec("child.toml").replace(changes)
    assert spec.dims["layers"] == 3
    assert spec.heads[1].options["count"] == 135
    assert spec.input.vocabulary == 193
    assert spec.operators.layer[0].use == "join"  # type: ignore[index,union-attr]
    assert spec.regularisation.dropout == 0.0
    assert spec.at("model.dims.layers") == "override model.dims.layers"
    assert spec.at("model.dims.unary") == "base.toml:8"
    assert load_spec("child.toml").dims["layers"] == 2


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model.nme", 2, "override model.nme: unknown key 'nme' of model. Did you mean 'name'"),
        ("model.input.vocab", 2, "override model.input.vocab: unknown key 'vocab' of model.input"),
        ("model.input.vocabulary", "2", "override model.input.vocabulary: .* must be an integer, not '2'"),
        ("model.heads.5.count", 2, "override model.heads.5.count: model.heads is a list of 2"),
        ("model.heads.x", 2, "override model.heads.x: model.heads is a list of 2"),
        ("model.name.x", 2, "override model.name.x: model.name is 'child', which has no key 'x'"),
        ("dims.layers", 2, "override dims.layers: unknown key 'dims' of a spec.*: write model.dims$"),
        ("model..x", 2, "not a dotted key"),
        ("model.dims.layers", None, "a spec contains"),
    ],
)
def test_an_override_that_leads_nowhere_is_an_error(folder: Path, key: str, value: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_spec("child.toml", {key: value})
    with pytest.raises(SpecError, match=message):
        load_spec("child.toml").replace({key: value})


def test_overrides_from_the_command_line_are_toml() -> None:
    assert parse_override("model.dims.layers=2") == ("model.dims.layers", 2)
    assert parse_override("model.scope.mask_padding = false") == ("model.scope.mask_padding", False)
    assert parse_override('model.name="a=b"') == ("model.name", "a=b")
    assert parse_override("model.name=tega") == ("model.name", "tega")
    assert parse_override("model.dims={layers=2}") == ("model.dims", {"layers": 2})
    for wrong in ("model.dims.layers", "=2"):
        with pytest.raises(SpecError, match="KEY=VALUE"):
            parse_override(wrong)


def test_a_name_that_lacks_its_ending_is_shown_with_it(folder: Path) -> None:
    (folder / "odd").write_text(BASE)
    (folder / "saved").mkdir()
    (folder / "saved" / "spec.toml").write_text(BASE)
    for name, path in (("base", "base.toml"), ("odd", "./odd"), ("saved", "saved/spec.toml")):
        with pytest.raises(SpecError, match=f"'{name}' is not a ready spec; .* write {path}$"):
            load_spec(name)
        assert load_spec(path).name == "base"
    with pytest.raises(SpecError, match=r"unknown ready spec 'bass'.*A path ends in .toml"):
        load_spec("bass")
    with pytest.raises(SpecError, match=r"^saved is a folder, not a spec; that folder has spec.toml$"):
        load_spec("saved/")


@pytest.mark.parametrize("name", sorted(ready_specs()))
def test_a_ready_spec_is_named_as_its_file_and_survives_its_toml(name: str) -> None:
    spec = load_spec(name)
    assert spec.name == name
    assert Spec.from_toml(spec.to_toml()) == spec


def test_a_byte_order_mark_is_no_part_of_a_spec(folder: Path) -> None:
    (folder / "marked.toml").write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load_spec("./marked.toml") == load_spec("./base.toml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x93\x00 no text", "given.toml: not text in UTF-8, and a spec is a .toml file"),
        (
            b'{"format": 1}',
            "given.toml:1, column 1: not valid TOML: .*looks like JSON, whose tables are written",
        ),
        (
            BASE.encode() + b"[train]\nlr = 1\n",
            r"given.toml:\d+: how to train is no part of a spec; say it with --set",
        ),
    ],
)
def test_another_file_than_a_spec_is_told(folder: Path, content: bytes, message: str) -> None:
    (folder / "given.toml").write_bytes(content)
    with pytest.raises(SpecError, match=message):
        load_spec("./given.toml")
    (folder / "sub").mkdir()
    with pytest.raises(SpecError, match=r"sub is a folder without spec\.toml, which a saved model has"):
        load_spec("sub")


def test_a_number_of_a_setting_may_begin_or_end_with_its_point() -> None:
    assert parse_override("x=.5") == ("x", 0.5)
    assert parse_override("x=-.5e-3") == ("x", -0.0005)
    assert parse_override("x=1.") == ("x", 1.0)
    assert parse_override("x=.hidden") == ("x", ".hidden")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"x = {'[' * 3000}{']' * 3000}", "nested more than 64 deep"),
        (f"x = {'[' * 100}{']' * 100}", "nested more than 64 deep"),
        (f"[{'.'.join('a' * 100)}]", "nested more than 64 deep"),
        (f"x = {'9' * 5000}", "not valid TOML: Exceeds the limit"),
    ],
    ids=["recursion", "lists", "tables", "digits"],
)
def test_what_a_parser_chokes_on_is_one_sentence(folder: Path, line: str, message: str) -> None:
    (folder / "odd.toml").write_text(line)
    with pytest.raises(SpecError, match=rf"odd.toml.*{message}|{message}"):
        load_spec("./odd.toml")

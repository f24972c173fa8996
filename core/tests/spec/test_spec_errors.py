"""A mistake in a spec is named, with its file and line, and with what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import field, frozen, validators

from peirce.errors import SpecError
from peirce.registry import load_spec
from peirce.spec import Spec, structure

GOOD = """\
format = 1
[model]
name = "small"
architecture = "folnet"
[model.dims]
layers = 2
[model.input]
vocabulary = 99
[model.operators]
layer = "j.a"
[[model.positions]]
use = "distance"
clip = 64
[[model.heads]]
use = "mlm"
[[model.heads]]
use = "pair"
as = "sop"
[model.regularisation]
dropout = 0.1
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "a.toml:1: format 2 is newer than 1"),
        ("format = 1", "format = 0", "a.toml:1: format must be >= 1"),
        ("format = 1", "format = true", "a.toml:1: format must be an integer, not True"),
        ("format = 1", "modle = 1", "a.toml:1: unknown key 'modle' of a spec. Did you mean 'model'?"),
        ('name = "small"', 'nam = "small"', "a.toml:3: unknown key 'nam' of model. Did you mean 'name'?"),
        ('name = "small"', "", "a.toml:2: missing key of model: 'name', which is required"),
        ('name = "small"', 'name = ""', "a.toml:3: model.name must not be empty"),
        ('name = "small"', "name = 1979-05-27", "a.toml:3: model.name must be a string, not datetime.date"),
        ('architecture = "folnet"', "", "missing key of model: 'architecture'"),
        ("[model.dims]\nlayers = 2\n", "", "a.toml:2: missing key of model: 'dims'"),
        ("[model.dims]\nlayers = 2\n", "dims = 2\n", "a.toml:5: model.dims must be a table, not 2"),
        ("layers = 2", "layers = 1979-05-27", "a.toml:6: model.dims.layers is refused: a spec contains"),
        ("vocabulary = 99", "vocabulary = true", "a.toml:8: model.input.vocabulary must be an integer"),
        ("vocabulary = 99", "vocabulary = 0", "a.toml:8: model.input.vocabulary must be >= 1: 0"),
        ("vocabulary = 99", "vocab = 99", "unknown key 'vocab' of model.input. Did you mean 'vocabulary'?"),
        ('layer = "j.a"', "layer = 3", "a.toml:10: model.operators.layer must be a string or a list"),
        ('layer = "j.a"', 'layer = [{ activation = "none" }]', "key of model.operators.layer.0: 'use'"),
        ('layer = "j.a"', "options.join = 3", "a.toml:10: model.operators.options.join must be a table"),
        ('use = "distance"', "", "a.toml:11: missing key of model.positions.0: 'use'"),
        ("clip = 64", "clip = 12:00:00", "a.toml:13: model.positions.0.clip is refused"),
        ('as = "sop"', "as = 1", "a.toml:18: model.heads.1.as must be a string"),
        (
            '[[model.heads]]\nuse = "mlm"\n[[model.heads]]\nuse = "pair"\nas = "sop"', '[model.heads]\nuse = "mlm"',
            "a.toml:14: model.heads must be a list of tables, not one table: write [[model.heads]]",
        ),
        (
            "[model.input]", "[[model.input]]",
            "a.toml:7: model.input must be one table, not a list of tables: write [model.input]",
        ),
        (
            "vocabulary = 99", "vocabulary = 99\n[dims]\nlayers = 2",
            "a.toml:9: unknown key 'dims' of a spec. Known: model, format. It is a key of model: write model.dims",
        ),
        (
            'name = "small"', 'name = "small"\nvocabulary = 99',
            "It is a key of model.input: write model.input.vocabulary",
        ),
        ("dropout = 0.1", "dropout = 1", "a.toml:20: model.regularisation.dropout must be < 1"),
        ("dropout = 0.1", "dropout = false", "model.regularisation.dropout must be a number, not False"),
        ("[model.input]", "[model.scope]\nkind = 'casual'\n[model.input]", "must be 'bidirectional' or"),
        ("layers = 2", "layers = ", "a.toml:6, column 10: not valid TOML: invalid value, in the line: layers ="),
        ('name = "small"', "name = small", "invalid value, unless it is a text, which stands in quotes, in the line"),
        ('name = "small"', r'name = "C:\data"', "a backslash in \"...\" begins an escape: write a path as '...'"),
        ('name = "small"', r'name = "C:\Users"', "not valid TOML: invalid hex value; a backslash"),
        ("layers = 2", "layers = 2\nlayers = 3", "a.toml:7, column 11: not valid TOML: cannot overwrite a value:"),
        ("dropout = 0.1\n", "dropout = [0.1", "a.toml:20: not valid TOML: unclosed array"),
    ],
)  # fmt: skip
def test_the_message_says_what_is_wrong_and_where(old: str, new: str, message: str) -> None:
    assert Spec.from_toml(GOOD).name == "small"
    assert old in GOOD
    with pytest.raises(SpecError) as caught:
        Spec.from_toml(GOOD.replace(old, new, 1), "a.toml")
    assert message in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    text = GOOD.replace("vocabulary = 99", "vocab = 99").replace("clip = 64", "clip = 12:00:00")
    with pytest.raises(SpecError) as caught:
        Spec.from_toml(text, "a.toml")
    assert [line.split(" ")[0] for line in str(caught.value).splitlines()] == ["a.toml:8:", "a.toml:13:"]


def test_at_finds_a_key_or_its_nearest_ancestor() -> None:
    spec = Spec.from_toml(GOOD, "a.toml")
    assert spec.at("model.positions.0.clip") == "a.toml:13"
    assert spec.at("model.positions.0.absent") == "a.toml:11"
    assert spec.at(("model", "heads", "1", "as")) == "a.toml:18"
    assert spec.at("model.scope.kind") == "a.toml:2"
    made = Spec(name="made", architecture="folnet", dims={})
    assert made.at("model.dims") == "spec 'made'"


@frozen(kw_only=True)
class Inner:
    depth: int = 1


@frozen(kw_only=True)
class Options:
    clip: int = field(default=3, validator=validators.ge(2))
    terms: Literal["key", "key+value"] = "key"
    scale: float | None = None
    size: int | Literal["auto"] = "auto"
    ids: tuple[int, ...] = ()
    pair: tuple[int, str] = (1, "a")
    share: bool = False
    width: int | float | str = 1
    inner: Inner = field(factory=Inner)
    weights: Mapping[str, float] = field(factory=dict)
    anything: Any = None

    def __attrs_post_init__(self) -> None:
        if self.share and self.terms == "key+value":
            raise ValueError("share works only with terms = 'key'")


def options(table: dict[str, Any]) -> Any:
    where = Spec.from_toml(GOOD, "a.toml").at
    return structure(Options, table, where=where, path="model.positions.0", label="option of position 'shaw'")


def test_options_take_each_type() -> None:
    read = options(
        {
            "clip": 8, "terms": "key+value", "scale": 1, "size": 4, "ids": [1, 2], "pair": (3, "b"),
            "width": 0.5, "inner": {"depth": 2}, "weights": {"a": 1}, "anything": [{"x": [1]}],
        }
    )  # fmt: skip
    assert read == Options(
        clip=8, terms="key+value", scale=1.0, size=4, ids=(1, 2), pair=(3, "b"), width=0.5,
        inner=Inner(depth=2), weights={"a": 1.0}, anything=({"x": (1,)},),
    )  # fmt: skip
    assert type(read.scale) is float
    assert type(options({"width": 1}).width) is int
    assert options({"size": "auto"}).size == "auto"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"clp": 1},
            "a.toml:11: unknown option 'clp' of position 'shaw'. Did you mean 'clip'? Known: clip",
        ),
        ({"clip": True}, "a.toml:13: model.positions.0.clip must be an integer, not True"),
        ({"clip": 1}, "a.toml:13: model.positions.0.clip must be >= 2: 1"),
        ({"terms": "keys"}, "model.positions.0.terms must be 'key' or 'key+value', not 'keys'"),
        ({"scale": "1"}, "model.positions.0.scale must be a number, not '1'"),
        ({"size": 1.5}, "model.positions.0.size must be an integer or 'auto', not 1.5"),
        ({"ids": 1}, "model.positions.0.ids must be a list such as [1, 2], not 1"),
        ({"ids": "12"}, "model.positions.0.ids must be a list"),
        ({"ids": [1, "2"]}, "model.positions.0.ids.1 must be an integer, not '2'"),
        ({"pair": [1]}, "model.positions.0.pair must be a list of 2 (an integer, a string), not [1]"),
        ({"share": 1}, "model.positions.0.share must be true or false, not 1"),
        ({"inner": {"deep": 1}}, "unknown key 'deep' of model.positions.0.inner. Did you mean 'depth'?"),
        ({"weights": {"a": "x"}}, "model.positions.0.weights.a must be a number, not 'x'"),
        ({"share": True, "terms": "key+value"}, "is refused: share works only with terms = 'key'"),
    ],
)
def test_a_wrong_option_is_placed(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        options(table)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_and_one_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "near.toml").write_text(GOOD)
    with pytest.raises(SpecError, match=r"no spec file .*neer.toml; that folder has near.toml"):
        load_spec(tmp_path / "neer.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match=r"bad.toml: not text in UTF-8, and a spec is"):
        load_spec(tmp_path / "bad.toml")
    with pytest.raises(SpecError, match=r"is a folder, not a spec; that folder has"):
        load_spec(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model.input.vocabulary", 2**63, "must be an integer of at most 64 bits"),
        ("model.regularisation.init_std", float("inf"), "must be a finite number, not inf"),
        ("model.regularisation.dropout", float("nan"), "must be a finite number, not nan"),
        ("model.heads.0.as", "", "must be letters, digits, '_' and '-', not ''"),
        ("model.heads.0.as", "a.b", "must be letters, digits, '_' and '-', not 'a.b'"),
        ("model.heads.0.as", "../x", "must be letters, digits, '_' and '-'"),
    ],
)
def test_a_value_that_nothing_can_hold_is_refused(key: str, value: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        Spec.from_toml(GOOD).replace({key: value})
    assert message in str(caught.value)

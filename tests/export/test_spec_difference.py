"""Two specs differ in their keys and values, and not in what one of them leaves to the defaults."""

from __future__ import annotations

from peirce.registry import load_spec
from peirce_export.spec_difference import spec_difference
from small_specs import FOLNET


def test_equal_specs_differ_in_nothing() -> None:
    assert spec_difference(FOLNET.to_toml(), FOLNET.to_toml()) is None
    assert 'kind = "bidirectional"\n' in FOLNET.to_toml()
    assert spec_difference(FOLNET.to_toml().replace('kind = "bidirectional"\n', ""), FOLNET.to_toml()) is None


def test_each_key_is_named_with_both_values() -> None:
    other = FOLNET.replace(
        {
            "model.dims.layers": 3,
            "model.heads.1.as": "sop",
            "model.positions.0.clip": 8,
            "model.name": "other",
        }
    )
    said = spec_difference(FOLNET.to_toml(), other.to_toml())
    assert said is not None
    for clause in (
        "model.name is 'small-folnet' in the file and 'other' in the model",
        "model.dims.layers is 2 in the file and 3 in the model",
        "model.heads.1.as is 'nsp' in the file and 'sop' in the model",
        "model.positions.0.clip is 4 in the file and 8 in the model",
    ):
        assert clause in said


def test_a_part_that_one_lacks_is_absent() -> None:
    said = spec_difference(FOLNET.replace({"model.positions": []}).to_toml(), FOLNET.to_toml())
    assert said is not None
    assert "model.positions is absent in the file and [{" in said


def test_two_models_without_much_in_common_are_not_told_in_full() -> None:
    said = spec_difference(FOLNET.to_toml(), load_spec("tega").to_toml())
    assert said is not None
    assert said.count(" in the file and ") == 8
    assert said.endswith(" more.")

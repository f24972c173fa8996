"""What a signature says of its dims: which input masks one, and how large it may be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from small_specs import DECODER, ENCODER_DECODER

from peirce import PlanError, Signature, TensorSpec, build

ROW = ("batch", "length")


def test_masks_are_found_by_their_dim_and_not_by_name() -> None:
    real = TensorSpec(name="is_real", dtype="bool", dims=("length", "batch"), masks="length")
    ids = TensorSpec(name="ids", dtype="int64", dims=ROW)
    other = TensorSpec(name="labels", dtype="int64", dims=("batch",))
    signature = Signature([ids, real, other], [])
    assert signature.mask("ids") is real
    assert signature.mask("labels") is None


def test_the_least_of_several_sizes_counts() -> None:
    one = TensorSpec(name="one", dtype="int64", dims=ROW, largest={"length": 9, "batch": 4})
    two = TensorSpec(name="two", dtype="int64", dims=ROW, largest={"length": 7})
    assert Signature([one, two], []).largest == {"length": 7, "batch": 4}


@pytest.mark.parametrize("said", [{"masks": "lenght"}, {"largest": {"lenght": 3}}])
def test_a_dim_that_the_tensor_does_not_have_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=r"no dim 'lenght'.*its dims are batch, length"):
        TensorSpec(name="mask", dtype="bool", dims=ROW, **said)


def test_models_declare_both_and_json_keeps_them() -> None:
    for spec, largest in ((DECODER, {"length": 32}), (ENCODER_DECODER, {"length": 32, "target_length": 32})):
        model = build(spec)
        signature = model.signature
        assert signature.largest == largest
        masks = {s.name: s.masks for s in signature.inputs if s.masks}
        names = {"length": "attention_mask", "target_length": "decoder_attention_mask"}
        assert masks == {names[dim]: dim for dim in largest}
        cache = {s.name: s for s in model.network.cached_state()}
        assert cache["memory_input_ids"].largest == {"past": 31}
        assert cache["memory_attention_mask"].masks == "past"
        assert Signature.from_dict(json.loads(json.dumps(signature.to_dict()))) == signature


def test_a_file_of_version_0_1_names_its_masks_by_their_names() -> None:
    old = {
        "dtype": "bool",
        "dims": ["batch", "length"],
        "required": False,
        "meaning": "",
        "high": None,
        "default": True,
    }
    found = Signature.from_dict(
        {"inputs": [{"name": "attention_mask", **old}, {"name": "other", **old}], "outputs": []}
    )
    assert [spec.masks for spec in found.inputs] == ["length", None]
    assert found.largest == {}

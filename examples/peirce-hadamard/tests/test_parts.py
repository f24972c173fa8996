"""What the conformance suite cannot know: what the parts are for."""

import pytest
import torch

import peirce
from peirce import Spec
from peirce.parts import Tokens
from peirce_hadamard import Depth
from peirce_hadamard.depth import DepthOptions

SPEC = """
format = 1
[model]
name = "conjunctions"
architecture = "folnet"
[model.dims]
layers = 2
unary = 16
binary = 8
heads = 2
head_size = 8
[model.input]
vocabulary = 20
[model.operators]
layer = "jmc.atph"
[[model.positions]]
use = "distance"
clip = 4
[[model.positions]]
use = "depth"
opening = 2
closing = 3
[[model.heads]]
use = "classification"
"""


def depths(ids: list[int], real: list[bool] | None = None) -> list[int]:
    spec = Spec.from_toml(SPEC)
    dims = peirce.build(spec).plan.dims
    position = Depth(DepthOptions(opening=2, closing=3, deepest=2), dims)
    row = torch.tensor([ids])
    mask = None if real is None else torch.tensor([real])
    index = torch.arange(len(ids)).unsqueeze(0)
    return position.depths(Tokens({"input_ids": row}, mask, index, len(ids)))[0].tolist()


def test_a_bracket_is_as_deep_as_what_it_encloses() -> None:
    #             p  (  q  (  r  )  )  s
    assert depths([7, 2, 7, 2, 7, 3, 3, 7]) == [0, 1, 1, 2, 2, 2, 1, 0]


def test_depth_stops_at_the_deepest_and_at_zero() -> None:
    assert depths([2, 2, 2, 2]) == [1, 2, 2, 2]
    assert depths([3, 3, 7]) == [0, 0, 0]


def test_padding_is_no_bracket() -> None:
    assert depths([2, 2, 7], [False, True, True]) == [0, 1, 1]


def test_the_letter_h_writes_relations() -> None:
    model = peirce.build(Spec.from_toml(SPEC))
    names = list(model.state_dict())
    assert [n for n in names if "hadamard.kernel.weight" in n] == [
        f"network.layers.{layer}.operators.6.hadamard.kernel.weight" for layer in (0, 1)
    ]
    with pytest.raises(peirce.PlanError, match="hadamard"):
        peirce.build(Spec.from_toml(SPEC.replace("jmc.atph", "jmch.atp")))


def test_brackets_that_cannot_be_are_refused() -> None:
    with pytest.raises(peirce.PlanError, match="two different token ids"):
        peirce.build(Spec.from_toml(SPEC.replace("closing = 3", "closing = 2")))
    with pytest.raises(peirce.PlanError, match="vocabulary = 20"):
        peirce.build(Spec.from_toml(SPEC.replace("closing = 3", "closing = 20")))

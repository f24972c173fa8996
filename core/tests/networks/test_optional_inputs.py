"""Inputs of parts that a caller may leave out: what stands for them, in a pass, in generation and in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_specs import DECODER
from torch import Tensor, nn

import peirce
from peirce import hookimpl
from peirce.parts import Dims, NoOptions, TensorSpec, Tokens, UnaryPosition
from peirce.registry import Registry

IDS = torch.randint(1, 40, (2, 6), generator=torch.Generator().manual_seed(0))


class Confidence(UnaryPosition):
    """How sure a transcription is of a token, a number that is 1 where nobody says it."""

    name = "confidence"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.direction = nn.Parameter(torch.linspace(-1, 1, dims.unary))

    def inputs(self) -> tuple[TensorSpec, ...]:
        return (
            TensorSpec(
                name="confidence", dtype="float", dims=("batch", "length"), required=False, default=1.0
            ),
        )

    def unary(self, tokens: Tokens) -> Tensor:
        known = tokens.inputs.get("confidence")
        values = (
            torch.ones_like(tokens.inputs["input_ids"], dtype=self.direction.dtype)
            if known is None
            else known
        )
        return tokens.rows(values).unsqueeze(-1) * self.direction

    @classmethod
    @hookimpl
    def register_positions(cls) -> list[type[UnaryPosition]]:
        return [cls]


class Mood(UnaryPosition):
    """A number for the whole text, which turns its atoms."""

    name = "mood"

    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec(name="mood", dtype="float", dims=("batch",)),)

    def unary(self, tokens: Tokens) -> Tensor:
        angles = tokens.inputs["mood"][:, None] * torch.arange(16.0)
        return 10 * tokens.rows(angles.cos().unsqueeze(1).expand(-1, tokens.length, -1))

    @classmethod
    @hookimpl
    def register_positions(cls) -> list[type[UnaryPosition]]:
        return [cls]


def test_what_is_known_of_a_whole_text_is_cached_with_it() -> None:
    registry = Registry.of("peirce_basics.plugin", "peirce_folnet.plugin", Mood)
    spec = DECODER.replace({"model.positions": [{"use": "mood"}], "model.dims.unary": 16})
    model = peirce.build(spec, seed=1, registry=registry).eval()
    given = {"input_ids": IDS, "mood": torch.tensor([0.5, 3.0])}
    one, other = (model.generate(given, max_new=4, cache=cache) for cache in (True, False))
    assert [text.tokens for text in one] == [text.tokens for text in other]
    _, cached = model.advance(given, {})
    after, _ = model.advance({"input_ids": IDS[:, :1]}, cached)
    whole = model(**given | {"input_ids": torch.cat([IDS, IDS[:, :1]], 1)})
    (name,) = after
    torch.testing.assert_close(after[name][:, 0], whole[name][:, -1])


@pytest.fixture(scope="module")
def model() -> peirce.Model:
    registry = Registry.of("peirce_basics.plugin", "peirce_folnet.plugin", Confidence)
    spec = DECODER.replace({"model.positions": [{"use": "distance", "clip": 4}, {"use": "confidence"}]})
    return peirce.build(spec, seed=1, registry=registry).eval()


def test_a_floating_input_has_a_default_in_the_models_dtype(model: peirce.Model) -> None:
    filled = {"input_ids": IDS, "confidence": torch.ones(2, 6)}
    for name, value in model(input_ids=IDS).items():
        assert torch.equal(value, model(**filled)[name])
        assert not torch.equal(value, model(input_ids=IDS, confidence=torch.full((2, 6), 0.5))[name])
    whole = model.generate({"input_ids": IDS}, max_new=3, cache=False)
    assert [text.tokens for text in model.generate({"input_ids": IDS}, max_new=3)] == [
        t.tokens for t in whole
    ]
    given = {"input_ids": IDS, "confidence": torch.full((2, 6), 0.5)}
    one, other = (model.generate(given, max_new=3, cache=cache) for cache in (True, False))
    assert [text.tokens for text in one] == [text.tokens for text in other]
    half = model.to(torch.bfloat16)
    assert len(half.generate({"input_ids": IDS}, max_new=2)) == 2
    model.to(torch.float32)


@pytest.mark.thorough
def test_a_session_fills_it(model: peirce.Model, tmp_path: Path) -> None:
    peirce.export(model, path=tmp_path / "model.onnx")
    with peirce.Session(tmp_path / "model.onnx") as session:
        for name, value in session.run({"input_ids": IDS.numpy()}).items():
            assert torch.allclose(torch.from_numpy(value), model(input_ids=IDS)[name], atol=1e-5)

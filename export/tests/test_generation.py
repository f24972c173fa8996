"""A model that generates, as two graphs: token for token what torch gives, in ONNX Runtime and without torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_specs import DECODER, ENCODER_DECODER, FOLNET, RECURRENT, TRANSFORMER
from thorough import often

import peirce
from peirce import Session
from peirce.compose import build
from peirce.errors import InputError, ModelFileError
from peirce.model import PREFILL, Model
from peirce.registry import Registry
from peirce_export.onnx.exporter import trace
from peirce_export.roles import exportable_for

CHOICES: list[dict[str, Any]] = [
    {"max_new": 7},
    {"max_new": 7, "beams": 3, "eos_id": 5},
    {"max_new": 7, "sample": True, "temperature": 0.8, "top_k": 12, "top_p": 0.9, "seed": 3},
]
SMALL = {"model.dims.layers": 1, "model.regularisation.init_std": 0.5}


def exported(spec: Any, folder: Path, registry: Registry) -> tuple[Model, Path]:
    model = build(spec, seed=2, registry=registry).eval()
    path = folder / "model.onnx"
    report = peirce.export(model, path=path, to="onnx", generate=True)
    assert report.passed
    assert any(line.output.startswith("model.step.onnx: ") for line in report.lines)
    return model, path


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> tuple[Model, Path]:
    return exported(SHORT, tmp_path_factory.mktemp("decoder"), registry)


@pytest.fixture(scope="module")
def two_stacks(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> tuple[Model, Path]:
    return exported(ENCODER_DECODER.replace(SMALL), tmp_path_factory.mktemp("two-stacks"), registry)


SHORT = DECODER.replace({**SMALL, "model.operators": {"layer": "jm.at"}})
CAUSAL = {"model.scope.kind": "causal", "model.heads": [{"use": "causal_lm"}]}
RECURRENCES = {
    "beside attention": (
        TRANSFORMER.replace(
            {**CAUSAL, "model.operators": {"layers": [{"layer": "gru"}, {"layer": "attention"}]}}
        ),
        {"model.dims.layers": 2},
    ),
    "lstm": (RECURRENT.replace({"model.operators.layer": "lstm"}), SMALL),
    "gru": (RECURRENT.replace({"model.operators.layer": "gru"}), SMALL),
    "in folnet": (
        FOLNET.replace({**CAUSAL, "model.operators": {"layers": [{"layer": "jm.at"}, {"layer": "lstm"}]}}),
        {"model.dims.layers": 2},
    ),
}


@pytest.fixture(scope="module", params=often(RECURRENCES, ["beside attention"]))
def recurrent(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, registry: Registry
) -> tuple[Model, Path]:
    spec, small = RECURRENCES[request.param]
    return exported(spec.replace({**SMALL, **small}), tmp_path_factory.mktemp("recurrent"), registry)


def prompts() -> dict[str, torch.Tensor]:
    """Prompts of different lengths, padded right and left."""
    ids = torch.randint(0, 40, (4, 6), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[0, 4:] = mask[1, :3] = mask[2, 1:] = False
    return {"input_ids": ids, "attention_mask": mask}


def hold_equal(model: Model, path: Path, inputs: dict[str, torch.Tensor], how: dict[str, Any]) -> None:
    """Hold what torch generates against itself without a cache, and against the exported graphs."""
    wanted = model.generate(inputs, **how)
    assert wanted == model.generate(inputs, **how)
    uncached = model.generate(inputs, cache=False, **how)
    assert [text.tokens for text in uncached] == [text.tokens for text in wanted]
    assert len({text.score for text in wanted}) > 1  # prompts matter
    with Session(path) as session:
        found = session.generate({name: value.numpy() for name, value in inputs.items()}, **how)
    assert [text.tokens for text in found] == [text.tokens for text in wanted]
    assert [text.score for text in found] == pytest.approx([text.score for text in wanted], rel=1e-4)


@pytest.mark.parametrize("how", CHOICES, ids=["greedy", "beams", "drawn"])
@pytest.mark.parametrize("which", ["decoder", pytest.param("two_stacks", marks=pytest.mark.thorough)])
def test_it_equals_torch(how: dict[str, Any], which: str, request: pytest.FixtureRequest) -> None:
    inputs = prompts()
    if which == "two_stacks":
        inputs["decoder_input_ids"] = torch.full((4, 1), 3)
    hold_equal(*request.getfixturevalue(which), inputs, how)


@pytest.mark.parametrize("how", CHOICES, ids=["greedy", "beams", "drawn"])
def test_a_recurrence_goes_on_from_its_state(how: dict[str, Any], recurrent: tuple[Model, Path]) -> None:
    hold_equal(*recurrent, prompts(), how)


def test_torch_is_not_needed(decoder: tuple[Model, Path]) -> None:
    model, path = decoder
    script = f"""
import sys
class Refuse:
    def find_spec(self, name, *rest):
        if name.partition('.')[0] == 'torch':
            raise ImportError('torch is refused')
sys.meta_path.insert(0, Refuse())
import numpy, peirce
with peirce.Session({str(path)!r}) as session:
    print(session.generate({{'input_ids': numpy.array([[3, 4, 5]])}}, max_new=5)[0].tokens)
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = model.generate({"input_ids": torch.tensor([[3, 4, 5]])}, max_new=5)[0].tokens
    assert peirce.verify(path.with_name("model.step.onnx"), model).passed
    assert done.stdout.strip() == str(wanted)


def test_what_is_missing_is_named(
    decoder: tuple[Model, Path], recurrent: tuple[Model, Path], tmp_path: Path
) -> None:
    ids = {"input_ids": np.array([[1, 2]])}
    alone = tmp_path / "alone.onnx"
    shutil.copy(decoder[1], alone)
    with (
        Session(alone) as session,
        pytest.raises(ModelFileError, match=r"alone\.step\.onnx cannot be read: it is not there"),
    ):
        session.generate(ids)
    shutil.copy(recurrent[1].with_name("model.step.onnx"), tmp_path / "alone.step.onnx")
    with pytest.raises(ModelFileError, match="is not what was exported with"):
        Session(alone)
    with (
        Session(alone, digests=False) as session,
        pytest.raises(ModelFileError, match="belongs to another model"),
    ):
        session.generate(ids)
    with (
        Session(decoder[1].with_name("model.step.onnx")) as session,
        pytest.raises(InputError, match="was not exported to generate"),
    ):
        session.generate({**ids})
    with Session(decoder[1]) as session, pytest.raises(InputError, match="no real token"):
        session.generate({**ids, "attention_mask": np.zeros((1, 2), np.bool_)})


def test_a_model_that_does_not_generate_is_refused(tmp_path: Path, registry: Registry) -> None:
    model = build(FOLNET, registry=registry)
    with pytest.raises(InputError, match="causal_lm"):
        peirce.export(model, path=tmp_path / "model.onnx", to="onnx", generate=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_a_graph_does_not_grow_with_the_width_of_a_kernel(
    decoder: tuple[Model, Path], registry: Registry
) -> None:
    model, _ = decoder
    width = model.spec.dims["head_size"]
    wider = build(model.spec.replace({"model.dims.head_size": 4 * width}), registry=registry).eval()
    graphs = [trace(exportable_for(PREFILL, each), 20, "float32") for each in (model, wider)]
    assert len({sum(1 for _ in each.graph.all_nodes()) for each in graphs}) == 1


def test_what_stays_on_the_device_goes_into_the_next_session(decoder: tuple[Model, Path]) -> None:
    _, path = decoder
    ids = np.random.default_rng(0).integers(0, 40, (2, 5))
    new = np.array([[3], [7]])
    with Session(path) as prefill, Session(path.with_name("model.step.onnx")) as step:
        token, *cached = (spec.name for spec in step.signature.inputs)
        begun = prefill.run_on_device({"input_ids": ids}, cached)
        found = step.run_on_device({token: new, **begun})
        expected = step.run({token: new, **begun})
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name].numpy(), array)
        cut = {**begun, cached[0]: begun[cached[0]].numpy()[:, :-1]}
        with pytest.raises(InputError, match=r"must be .: that is the 'past' of"):
            step.run_on_device({token: new, **cut})

"""Operators of any number of readings are planned, fused, blocked, cached and exported as those of two are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import many_readings
import pytest
import torch
from many_readings import Bend, Edges
from small_specs import DECODER, ENCODER_DECODER, FOLNET

import peirce
from peirce import Session
from peirce.compose import build, load, resolve, summarise
from peirce.errors import SpecError
from peirce.kernels import sizes
from peirce.model import Model
from peirce.parts import Reader, SharedReader, Writer
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_export.onnx.exporter import OnnxExporter, OnnxOptions

LAYER: list[dict[str, Any]] = [
    {"use": "edges", "activation": "modus_ponens"}, {"use": "difference"}, {"use": "bend"}, {"use": "retention"},
    {"use": "attention", "kv_heads": 1}, {"use": "join"},
]  # fmt: skip
IDS = torch.randint(1, 40, (2, 9), generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[True] * 9, [False] * 3 + [True] * 6])
INPUTS = {"input_ids": IDS, "attention_mask": MASK}


@pytest.fixture(scope="module")
def readings() -> Registry:
    return Registry.of("peirce_basics.plugin", "peirce_folnet.plugin", many_readings)


def made(spec: Spec, registry: Registry, *, fuse: bool = True, **changes: Any) -> Model:
    layered = {"model.operators": {"layer": LAYER}, "model.regularisation.init_std": 0.4, **changes}
    model = build(spec.replace(layered), seed=1, dtype=torch.float64, registry=registry, fuse=fuse)
    return model.eval()


def close(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> None:
    for name, value in one.items():
        assert (value - other[name]).abs().max() <= 1e-10 * value.abs().max(), name


def test_projections_and_summaries_have_the_names_of_the_readings(readings: Registry) -> None:
    spec = FOLNET.replace({"model.operators": {"layer": LAYER}})
    names = [
        name.split("operators.0.")[1]
        for name in build(spec, registry=readings).state_dict()
        if "edges" in name
    ]
    assert names[: len(names) // 2] == [
        "edges.query.weight", "edges.query.bias", "edges.key.weight", "edges.key.bias", "edges.left.weight",
        "edges.right.weight", "edges.output.weight", "edges.output.bias",
    ]  # fmt: skip
    row, *_ = summarise(spec, length=4, registry=readings).operators
    assert row["reads"] == dict.fromkeys(["query", "key", "left", "right"], "B: h=3 s=4")


def test_a_weight_stands_beside_the_projections_and_learns(readings: Registry) -> None:
    model = made(FOLNET, readings)
    gains = {name: value for name, value in model.named_parameters() if name.endswith("retention.gain")}
    assert len(gains) == FOLNET.dims["layers"]
    assert all((value == 1).all() and value.shape == (3, 4) for value in gains.values())
    sum(value.square().sum() for value in model(**INPUTS).values()).backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in gains.values())
    before = model(**INPUTS)
    with torch.no_grad():
        next(iter(gains.values())).fill_(0.5)
    assert any((value != before[name]).any() for name, value in model(**INPUTS).items())


def test_fusion_and_blocks_change_nothing(readings: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    model, apart = made(FOLNET, readings), made(FOLNET, readings, fuse=False)
    apart.load_state_dict(model.state_dict())
    whole = model(**INPUTS)
    close(whole, apart(**INPUTS))
    for size in (1, 2_000):
        monkeypatch.setattr(sizes, "BLOCK_BYTES", size)
        with torch.no_grad():
            close(whole, model(**INPUTS))


@pytest.mark.parametrize("spec", [FOLNET, DECODER, ENCODER_DECODER], ids=lambda s: s.name)
def test_blocks_change_no_gradient(spec: Spec, readings: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    further = {"decoder_input_ids": IDS[:, :4]} if spec is ENCODER_DECODER else {}
    found = []
    for size in (1 << 30, 1):
        monkeypatch.setattr(sizes, "BLOCK_BYTES", size)
        model = made(spec, readings, **{"model.regularisation.dropout": 0.0}).train()
        sum(value.square().sum() for value in model(**INPUTS, **further).values()).backward()
        found.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, grad in found[0].items():
        assert torch.allclose(grad, found[1][name], rtol=1e-9, atol=1e-10), name


def test_weights_that_an_operator_makes_are_dropped_by_it_in_training(readings: Registry) -> None:
    changes = {"model.operators": {"layer": LAYER[:1]}, "model.regularisation.dropout": 0.4}
    model = build(FOLNET.replace(changes), registry=readings).train()
    rates = []
    inferred = Edges.infer

    def infer(self: Edges, *given: Any) -> torch.Tensor:
        rates.append(given[-1].dropout)
        return inferred(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Edges, "infer", infer)
        model(**INPUTS)
        model.eval()(**INPUTS)
    assert rates == [0.4, 0.4, 0.0, 0.0]


@pytest.mark.parametrize("kind", ["causal", "prefix"])
def test_tokens_one_by_one_are_those_of_one_pass(kind: str, readings: Registry) -> None:
    model = made(DECODER, readings, **{"model.scope.kind": kind})
    extra = {"prefix_length": torch.tensor([3, 1])} if kind == "prefix" else {}
    with torch.no_grad():
        whole = model(**INPUTS, **extra)["lm_logits"]
        outputs, cache = model.advance({**{n: v[:, :4] for n, v in INPUTS.items()}, **extra}, {})
        pieces = [outputs["lm_logits"]]
        for at in range(4, 9):
            outputs, cache = model.advance({n: v[:, at : at + 1] for n, v in INPUTS.items()}, cache)
            pieces.append(outputs["lm_logits"])
    close({"lm_logits": whole}, {"lm_logits": torch.cat(pieces, 1)})
    assert [name.removeprefix("memory_0_") for name in cache if name.startswith("memory_0_")] == [
        "0_edges_key", "0_edges_right", "1_difference_values", "3_retention_values",
        "4_attention_key", "4_attention_value", "5_join_premise",
    ]  # fmt: skip


def test_a_decoder_reads_its_source_by_every_attended_reading(readings: Registry) -> None:
    model = made(ENCODER_DECODER, readings)
    target = IDS[:, :5]
    with torch.no_grad():
        whole = model(**INPUTS, decoder_input_ids=target)["lm_logits"]
        outputs, cache = model.advance({**INPUTS, "decoder_input_ids": target[:, :2]}, {})
        pieces = [outputs["lm_logits"]]
        for at in range(2, 5):
            outputs, cache = model.advance({"decoder_input_ids": target[:, at : at + 1]}, cache)
            pieces.append(outputs["lm_logits"])
    close({"lm_logits": whole}, {"lm_logits": torch.cat(pieces, 1)})
    sources = {name.split(".")[-2] for name in model.state_dict() if ".source_" in name}
    assert sources == {"source_key", "source_right", "source_values", "source_value", "source_premise"}


@pytest.mark.thorough
def test_they_are_exported_and_saved(readings: Registry, tmp_path: Path) -> None:
    changes = {"model.operators": {"layer": LAYER}, "model.dims.layers": 1}
    model = build(FOLNET.replace(changes), registry=readings, seed=0)
    assert OnnxExporter(OnnxOptions()).export(model, tmp_path / "model.onnx").passed
    model.save(tmp_path / "saved")
    again = load(tmp_path / "saved", registry=readings).eval()
    for name, value in model.eval()(**INPUTS).items():
        assert torch.equal(value, again(**INPUTS)[name])


@pytest.mark.thorough
def test_they_generate_as_two_graphs(readings: Registry, tmp_path: Path) -> None:
    changes = {
        "model.operators": {"layer": LAYER},
        "model.dims.layers": 1,
        "model.regularisation.init_std": 0.5,
    }
    model = build(DECODER.replace(changes), seed=2, registry=readings).eval()
    report = OnnxExporter(OnnxOptions(generate=True)).export(model, tmp_path / "model.onnx")
    assert report.passed
    wanted = model.generate(INPUTS, max_new=5)
    with Session(tmp_path / "model.onnx") as session:
        found = session.generate({name: value.numpy() for name, value in INPUTS.items()}, max_new=5)
    assert [text.tokens for text in found] == [text.tokens for text in wanted]
    assert len({text.score for text in wanted}) > 1


class FewerThanTyped(Edges):
    name = "fewer_than_typed"

    def readings(self) -> Mapping[str, Reader]:
        return {name: reader for name, reader in super().readings().items() if name != "left"}


class OtherBranch(Bend):
    name = "other_branch"
    typing = "U <- B"


class CalledOutput(Bend):
    name = "called_output"

    def readings(self) -> Mapping[str, Reader]:
        return {"output": Reader(branch="U", shape={"d": self.dims.unary})}


class CalledAsTorchDoes(Bend):
    name = "called_as_torch_does"

    def readings(self) -> Mapping[str, Reader]:
        return {"half": Reader(branch="U", shape={"d": self.dims.unary})}


class ReadsByAWriter(Bend):
    name = "reads_by_a_writer"

    def readings(self) -> Any:
        return {"atoms": self.output()}


class ReadsNothing(Bend):
    name = "reads_nothing"

    def readings(self) -> Mapping[str, Reader]:
        return {}


class Uneven(Edges):
    name = "uneven"

    def readings(self) -> Mapping[str, Reader]:
        return {**super().readings(), "key": Reader(branch="B", shape={"h": 5, "s": 4})}


class TakesNoScope(Edges):
    name = "takes_no_scope"

    def infer(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return query


class SharesAnother(Edges):
    name = "shares_another"

    def readings(self) -> Mapping[str, Reader]:
        shape = {"h": 3, "s": 4}
        return {**super().readings(), "right": SharedReader(branch="B", shape=shape, shares="quer")}


class HasNoOptions(Bend):
    name = "has_no_options"

    def output(self) -> Writer:
        return Writer(branch="U", shape={"d": self.dims.unary}, bias=self.options.bias)


class Misread:
    @peirce.hookimpl
    def register_operators(self) -> list[type[Any]]:
        return [
            FewerThanTyped,
            OtherBranch,
            CalledOutput,
            CalledAsTorchDoes,
            ReadsByAWriter,
            ReadsNothing,
            Uneven,
            TakesNoScope,
            HasNoOptions,
            SharesAnother,
        ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "fewer_than_typed",
            "declares the typing 'B <- B x B x B x B', but its readings (query of B, key of B, right of B) and its "
            "output of B make 'B <- B x B x B'",
        ),
        ("other_branch", "typing 'U <- B', but its readings (atoms of U) and its output of U make 'U <- U'"),
        ("called_output", "its reading 'output' needs another name: a lower-case word, neither 'output' nor"),
        ("called_as_torch_does", "its reading 'half' needs another name"),
        ("reads_by_a_writer", "its atoms must be a Reader, not Writer(branch='U', shape={'d': 24}, bias=True)"),
        ("reads_nothing", "typing 'U <- U', but its readings (none) and its output of U make 'U <- '"),
        (
            "takes_no_scope",
            "its infer takes (query, key), and is called with (query, key, left, right, scope), its readings, its "
            "weights and the scope",
        ),
        ("shares_another", "shares the map of the reading 'quer'; of that branch, shape and bias there is query, key"),
        ("has_no_options", "no option 'bias': the part has no line `Options =`"),
        ("uneven", "its infer fails on query [2, 3, 3, 3, 4] and key [2, 3, 3, 5, 4] and left"),
    ],
)  # fmt: skip
def test_readings_that_do_not_fit_are_refused_by_name(name: str, said: str) -> None:
    registry = Registry.of("peirce_folnet.plugin", Misread())
    spec = FOLNET.replace(
        {"model.operators": {"layer": [{"use": name}]}, "model.positions": [], "model.heads": []}
    )
    with pytest.raises(SpecError) as caught:
        resolve(spec, registry)
    assert said in str(caught.value)
    assert f"model.operators: operator {name!r} cannot be used here" in str(caught.value)

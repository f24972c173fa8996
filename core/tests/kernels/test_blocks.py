"""Inference by blocks of rows gives what one pass over all rows gives, whatever the scope and the block's size."""

from __future__ import annotations

import pytest
import torch
from small_specs import DECODER, ENCODER_DECODER, FOLNET, PAPER_CJOIN

import peirce
from peirce.algebra import between_tokens
from peirce.kernels import sizes
from peirce.registry import Registry
from peirce.spec import Spec

IDS = torch.randint(1, 40, (4, 9), generator=torch.Generator().manual_seed(0))
REAL, PADDING = [True], [False]
MASK = torch.tensor([REAL * 4 + PADDING * 5, PADDING * 3 + REAL * 6, PADDING * 9, REAL * 9])


@pytest.mark.parametrize(
    ("layer", "kind", "size", "activation"),
    [
        *(("jmc.atp", kind, 1, "gelu") for kind in ("bidirectional", "causal", "prefix", "relation")),
        *((layer, "bidirectional", 2_000, "reglu") for layer in ("j.", "c.", "m.t", ".p", "jmc.atp")),
    ],
)
def test_blocks_and_portions_change_nothing(
    layer: str, kind: str, size: int, activation: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = [{"use": "distance", "clip": 4}, {"use": "absolute"}]
    if "j" in layer:
        positions.append({"use": "shaw", "clip": 3})
    changes = {"model.operators.layer": layer, "model.positions": positions, "model.scope.kind": kind}
    changes["model.operators.options.bool"] = {"activation": activation}
    spec = FOLNET.replace(changes | (PAPER_CJOIN if size == 1 else {}))
    model = peirce.build(spec, registry=registry, dtype=torch.float64).eval()
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    if kind == "prefix":
        inputs["prefix_length"] = torch.tensor([3, 0, 2, 1])
    if kind == "relation":
        inputs["relation"] = torch.rand(4, 9, 9, generator=torch.Generator().manual_seed(1)) > 0.4
    whole = model(**inputs)
    monkeypatch.setattr(sizes, "BLOCK_BYTES", size)
    monkeypatch.setattr(sizes, "PORTION_BYTES", 1 if size > 1 else sizes.PORTION_BYTES)
    with torch.no_grad():
        apart = model(**inputs)
    for name, value in whole.items():
        assert (value - apart[name]).abs().max() <= 1e-12 * value.abs().max(), name


@pytest.mark.parametrize("spec", [FOLNET, DECODER, ENCODER_DECODER], ids=lambda s: s.name)
@pytest.mark.parametrize(("size", "activation"), [(1, "gelu"), (1_000, "reglu")])
def test_blocks_and_portions_change_no_gradient(
    size: int, activation: str, spec: Spec, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec.replace(
        {"model.operators.options.bool": {"activation": activation}, "model.regularisation.dropout": 0.0}
    )
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    if spec.name == ENCODER_DECODER.name:
        inputs["decoder_input_ids"] = IDS[:, :4]
    models = [peirce.build(spec, registry=registry, dtype=torch.float64).train() for _ in range(2)]
    for model in models:
        outputs = model(**inputs)
        sum(value.square().sum() for value in outputs.values()).backward()
        monkeypatch.setattr(sizes, "BLOCK_BYTES", size)
        monkeypatch.setattr(sizes, "PORTION_BYTES", size)
    for (name, one), other in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        mine, whole = (torch.zeros_like(p) if p.grad is None else p.grad for p in (other, one))
        assert torch.allclose(mine, whole, rtol=1e-10, atol=1e-12), name


def test_padding_that_counts_is_read(registry: Registry) -> None:
    spec = FOLNET.replace({"model.scope.mask_padding": False})
    model = peirce.build(spec, registry=registry, dtype=torch.float64).eval()
    whole = model(input_ids=IDS, attention_mask=MASK)
    for row in range(len(IDS)):
        alone = model(input_ids=IDS[row : row + 1], attention_mask=MASK[row : row + 1])
        for name, value in alone.items():
            assert torch.allclose(value[0], whole[name][row], rtol=1e-10, atol=1e-12), name


def test_what_reads_all_texts_gets_all_of_them(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "PORTION_BYTES", 1)
    model = peirce.build(FOLNET, registry=registry).eval()
    found: list[torch.Size] = []
    with torch.no_grad(), between_tokens(model, lambda each: found.append(each.values.shape[:3])):
        model(input_ids=IDS, attention_mask=MASK)
    assert set(found) == {(4, 9, 9)}


def test_the_loss_has_a_term_of_all_texts(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = FOLNET.replace(
        {"model.operators.state": ["bool", {"use": "experts"}], "model.regularisation.dropout": 0.0}
    )
    model = peirce.build(spec, registry=registry, dtype=torch.float64).train()

    def terms() -> dict[str, torch.Tensor]:
        model(input_ids=IDS, attention_mask=MASK)
        return {name: term.detach() for name, term in model.terms().items()}

    whole = terms()
    monkeypatch.setattr(sizes, "PORTION_BYTES", 1)
    assert whole
    assert terms() == whole


@pytest.mark.parametrize("layer", ["j.", "c.", "m.t", ".p", "jmc.atp"])
def test_recomputed_blocks_drop_the_same(
    layer: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = FOLNET.replace({"model.operators.layer": layer, "model.regularisation.dropout": 0.3})
    model = peirce.build(spec, registry=registry, dtype=torch.float64).train()
    monkeypatch.setattr(sizes, "BLOCK_BYTES", 2_000)
    parameters = [*model.parameters()]
    draw = torch.Generator().manual_seed(2)
    ways = [torch.randn(p.shape, generator=draw, dtype=torch.float64) for p in parameters]

    def loss() -> torch.Tensor:
        torch.manual_seed(3)
        return sum(v.square().mean() for v in model(input_ids=IDS, attention_mask=MASK).values())

    def moved(step: float) -> float:
        with torch.no_grad():
            torch._foreach_add_(parameters, ways, alpha=step)
        result = loss().item()
        with torch.no_grad():
            torch._foreach_sub_(parameters, ways, alpha=step)
        return result

    slope = (moved(1e-6) - moved(-1e-6)) / 2e-6
    loss().backward()
    found = sum((p.grad * way).sum() for p, way in zip(parameters, ways, strict=True) if p.grad is not None)
    assert found == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("spec", [DECODER, ENCODER_DECODER], ids=lambda s: s.name)
def test_blocks_change_nothing_of_what_follows_others(
    spec: Spec, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = peirce.build(spec, registry=registry, dtype=torch.float64).eval()
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    new = torch.tensor([[5, 6], [7, 8], [9, 1], [2, 3]])
    if spec is ENCODER_DECODER:
        inputs["decoder_input_ids"] = IDS[:, :4]
    name, _ = model.generation_names()

    def scores() -> list[torch.Tensor]:
        with torch.no_grad():
            first, cache = model.advance(inputs, {})
            second, _ = model.advance({name: new}, cache)
        return [*first.values(), *second.values()]

    monkeypatch.setattr(sizes, "BLOCK_BYTES", 1 << 30)
    whole = scores()
    monkeypatch.setattr(sizes, "BLOCK_BYTES", 1)
    for one, other in zip(whole, scores(), strict=True):
        assert (one - other).abs().max() <= 1e-12 * one.abs().max()


def test_blocks_leave_the_atoms_of_each_layer(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    model = peirce.build(FOLNET, registry=registry).eval()
    monkeypatch.setattr(sizes, "BLOCK_BYTES", 1)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    for layer in model.network.layers:
        layer.register_forward_hook(lambda _, given, result: seen.append((given[0].binary, result[0].binary)))
        layer.register_forward_pre_hook(
            lambda _, given: seen.append((given[0].binary, given[0].binary.clone()))
        )
    with torch.no_grad():
        model(input_ids=IDS)
    (first, before), (_, after), (second, between), _ = seen
    assert torch.equal(first, before)
    assert torch.equal(second, between)
    assert torch.equal(after, between)
    assert not torch.equal(before, between)

"""For every operator set, tokens inferred from a cached state are those of one pass; nothing of the future enters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_specs import DECODER, ENCODER_DECODER, FOLNET
from torch import Tensor

from peirce.compose import build
from peirce.errors import InputError
from peirce.model import Model
from peirce.registry import Registry
from peirce.spec import Spec

BATCH, LENGTH = 3, 8
UNARY, BINARY = ("join", "mu", "cjoin"), ("assoc", "prod", "trans")


@st.composite
def layers(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Some of the mixing operators, in any order, and bool sometimes."""
    names = draw(st.permutations([*UNARY, *BINARY]).map(lambda order: order[: len(order)]))
    kept = names[: draw(st.integers(1, len(names)))]
    tables: list[dict[str, Any]] = [{"use": name} for name in kept]
    for table in tables:
        if table["use"] == "cjoin":
            table |= {"premise": "paper", "batch_over": draw(st.sampled_from(["size", "heads"]))}
        table["activation"] = draw(st.sampled_from(["none", "modus_ponens", "shifted_relu"]))
    if draw(st.booleans()):
        tables.append({"use": "bool", "activation": draw(st.sampled_from(["gelu", "reglu"]))})
    return tables


def made(base: Spec, layer: list[dict[str, Any]], registry: Registry, **changes: Any) -> Model:
    """A model with weights large enough that nothing hides behind a small start."""
    settled = {
        "model.operators.layer": layer,
        "model.operators.options": {},
        "model.regularisation.init_std": 0.4,
        **changes,
    }
    return build(base.replace(settled), seed=1, dtype=torch.float64, registry=registry).eval()


def prompts(seed: int) -> tuple[Tensor, Tensor]:
    """Ids and a mask with padding on the left, on the right and inside."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 40, (BATCH, LENGTH), generator=generator)
    mask = torch.rand(BATCH, LENGTH, generator=generator) < 0.8
    mask[:, 2] = mask[:, -1] = True
    return ids, mask


@settings(max_examples=12, deadline=None)
@given(layer=layers(), kind=st.sampled_from(["causal", "prefix"]), seed=st.integers(0, 99), data=st.data())
def test_one_by_one_is_one_pass(
    layer: list[dict[str, Any]], kind: str, seed: int, data: st.DataObject, registry: Registry
) -> None:
    model = made(DECODER, layer, registry, **{"model.scope.kind": kind})
    ids, mask = prompts(seed)
    first = data.draw(st.integers(3, LENGTH - 1))
    inputs = {"input_ids": ids, "attention_mask": mask}
    real = mask[:, :first].sum(1)  # A prefix is counted over real tokens, and the first call has all of it
    extra = {"prefix_length": torch.tensor([1, 2, 3]).minimum(real)} if kind == "prefix" else {}
    with torch.no_grad():
        whole = model(**inputs, **extra)["lm_logits"]
        begun = {name: value[:, :first] for name, value in inputs.items()}
        outputs, cache = model.advance({**begun, **extra}, {})
        pieces = [outputs["lm_logits"]]
        for at in range(first, LENGTH):
            new = {name: value[:, at : at + 1] for name, value in inputs.items()}
            outputs, cache = model.advance(new, cache)
            pieces.append(outputs["lm_logits"])
    assert whole[mask].abs().max() > 1e-3
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-10 * float(whole.abs().max()))


@settings(max_examples=12, deadline=None)
@given(layer=layers(), kind=st.sampled_from(["causal", "prefix"]), seed=st.integers(0, 99), data=st.data())
def test_nothing_of_the_future_enters(
    layer: list[dict[str, Any]], kind: str, seed: int, data: st.DataObject, registry: Registry
) -> None:
    model = made(DECODER, layer, registry, **{"model.scope.kind": kind})
    ids, mask = prompts(seed)
    at = data.draw(st.integers(1, LENGTH - 1))
    real = mask[:, :at].sum(1)  # A prefix is counted over real tokens
    extra = {"prefix_length": real.clamp_max(data.draw(st.integers(0, at)))} if kind == "prefix" else {}
    changed = ids.clone()
    changed[:, at:] = (changed[:, at:] + 7) % 40
    with torch.no_grad():
        before = model(input_ids=ids, attention_mask=mask, **extra)
        after = model(input_ids=changed, attention_mask=mask, **extra)
    assert torch.equal(before["lm_logits"][:, :at], after["lm_logits"][:, :at])
    assert torch.equal(before["binary"][:, :at, :at], after["binary"][:, :at, :at])
    assert not torch.equal(
        before["lm_logits"][:, at:][mask[:, at:]], after["lm_logits"][:, at:][mask[:, at:]]
    )
    if kind == "causal":
        future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        assert not before["binary"][:, future].any()


@settings(max_examples=8, deadline=None)
@given(layer=layers(), seed=st.integers(0, 99), masked=st.booleans())
def test_a_decoder_sees_its_source_and_its_past(
    layer: list[dict[str, Any]], seed: int, masked: bool, registry: Registry
) -> None:
    model = made(ENCODER_DECODER, layer, registry, **{"model.scope.mask_padding": masked})
    source, mask = prompts(seed)
    target = prompts(seed + 100)[0][:, :5]
    inputs = {"input_ids": source, "attention_mask": mask}
    with torch.no_grad():
        whole = model(**inputs, decoder_input_ids=target)["lm_logits"]
        outputs, cache = model.advance({**inputs, "decoder_input_ids": target[:, :1]}, {})
        pieces = [outputs["lm_logits"]]
        for at in range(1, 5):
            outputs, cache = model.advance({"decoder_input_ids": target[:, at : at + 1]}, cache)
            pieces.append(outputs["lm_logits"])
        torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-10 * float(whole.abs().max()))
        changed = target.clone()
        changed[:, 3:] = (changed[:, 3:] + 7) % 40
        later = model(**inputs, decoder_input_ids=changed)["lm_logits"]
        assert torch.equal(later[:, :3], whole[:, :3])
        garbage = torch.where(mask, source, (source + 7) % 40)
        padded = model(input_ids=garbage, attention_mask=mask, decoder_input_ids=target)["lm_logits"]
        assert torch.equal(padded, whole) == (masked or bool(mask.all()))


def test_the_source_reaches_the_decoder_by_every_operator_that_looks(registry: Registry) -> None:
    ids, mask = prompts(0)
    target = ids[:, :4]
    for reading in (
        [{"use": "join"}, {"use": "assoc"}],
        [{"use": "cjoin", "premise": "paper"}],
        [{"use": "mu"}, {"use": "prod"}],
    ):
        # prod puts what the encoder knows of a token into its relations; only trans carries those to the decoder.
        layer = [*reading, {"use": "trans"}, {"use": "bool"}]
        model = made(ENCODER_DECODER, layer, registry)
        other = ids.clone()
        other[:, 2] = (other[:, 2] + 7) % 40
        with torch.no_grad():
            one = model(input_ids=ids, attention_mask=mask, decoder_input_ids=target)["lm_logits"]
            two = model(input_ids=other, attention_mask=mask, decoder_input_ids=target)["lm_logits"]
        assert not torch.equal(one, two), reading


def test_a_targets_relations_are_with_the_source_and_what_came_before(registry: Registry) -> None:
    model = build(ENCODER_DECODER, registry=registry).eval()
    source, target = 5, 3
    mask = torch.ones(1, source, dtype=torch.bool)
    mask[0, 0] = False
    ids = {"input_ids": torch.ones(1, source, dtype=torch.int64), "attention_mask": mask}
    found = model(**ids, decoder_input_ids=torch.ones(1, target, dtype=torch.int64))["binary"]
    assert found.shape[:3] == (1, target, source + target)
    seen = torch.cat([mask.expand(target, -1), torch.ones(target, target, dtype=torch.bool).tril()], 1)
    assert torch.equal(found[0].ne(0).any(2), seen)


def test_what_cannot_generate_says_so(registry: Registry) -> None:
    ids, mask = prompts(0)
    model = build(FOLNET, registry=registry)
    with pytest.raises(InputError, match="causal_lm"):
        model.generate({"input_ids": ids})
    decoder = build(DECODER, registry=registry)
    with pytest.raises(InputError, match="no real token"):
        decoder.generate({"input_ids": ids, "attention_mask": torch.zeros_like(mask)})
    with pytest.raises(InputError, match="max_new"):
        decoder.generate({"input_ids": ids}, max_now=3)
    with pytest.raises(InputError, match="sample"):
        decoder.generate({"input_ids": ids}, top_k=3)
    for how in (
        {"max_new": 2.5}, {"max_new": "3"}, {"max_new": 0}, {"beams": True}, {"eos_id": -1}, {"seed": None},
        {"top_k": 1.5, "sample": True}, {"temperature": float("inf"), "sample": True}, {"sample": 2},
        {"length_penalty": float("nan")}, {"beams": 10**9},
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"generation: '?{next(iter(how))}"):
            decoder.generate({"input_ids": ids}, **how)

"""Tokenizers, pipelines and generation, from files that `AutoTokenizer` and `pipeline` read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_specs import PAPER_CJOIN
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

import peirce
from peirce.errors import InputError
from peirce.spec import Spec
from peirce_hf import (
    PeirceConfig,
    PeirceForCausalLM,
    PeirceForConditionalGeneration,
    PeirceForMaskedLM,
    PeirceForSequenceClassification,
    PeirceForTokenClassification,
    PeirceModel,
    tokenizer_for,
)
from peirce_text import Tokenizer

CAUSAL = {"model.scope.kind": "causal", **PAPER_CJOIN}
TEXTS = ["the cat sat", "the dog sat on the log"]


def saved(model: Any, tokenizer: Tokenizer, folder: Path) -> str:
    model.save_pretrained(folder)
    tokenizer_for(tokenizer, model.config).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("pair", [("The cat", None), ("the cat", "a dog sat")])
def test_a_tokenizer_gives_what_peirce_s_gives(
    pair: tuple[str, str | None], tokenizer: Tokenizer, spec: Spec, tmp_path: Path
) -> None:
    made = tokenizer_for(tokenizer, PeirceConfig(spec=spec))
    made.save_pretrained(tmp_path / "hf")
    model = peirce.build(spec)
    model.save(tmp_path / "model", assets={"tokenizer.json": tokenizer.content})
    wanted = tokenizer.encode(*pair, length=32)
    for each in (made, AutoTokenizer.from_pretrained(tmp_path / "hf"), tokenizer_for(tmp_path / "model")):
        found = each(*pair)
        assert tuple(found["input_ids"]) == wanted.ids
        assert tuple(found["token_type_ids"]) == wanted.types
        assert (each.pad_token_id, each.mask_token_id) == (tokenizer.pad_id, tokenizer.mask_id)
        assert (each.cls_token_id, each.sep_token_id) == (tokenizer.cls_id, tokenizer.sep_id)
        assert each.unk_token_id == tokenizer.unknown_id
    assert made.model_max_length == 32
    assert len(made(["the cat"] * 2, padding="max_length", max_length=9)["input_ids"][0]) == 9


def test_a_tokenizer_follows_the_configuration(tokenizer: Tokenizer, spec: Spec) -> None:
    untyped = PeirceConfig(spec=spec.replace({"model.input.token_types": 0}))
    made = tokenizer_for(tokenizer.content, untyped)
    assert set(made("a cat", "a dog")) == {"input_ids", "attention_mask"}
    with torch.no_grad():
        PeirceModel(untyped)(**made("a cat", "a dog", return_tensors="pt"))
    small = PeirceConfig(spec=spec.replace({"model.input.vocabulary": 9}))
    with pytest.raises(InputError, match="resize_token_embeddings"):
        tokenizer_for(tokenizer, small)


def test_fill_mask(tokenizer: Tokenizer, spec: Spec, tmp_path: Path) -> None:
    model = PeirceForMaskedLM(PeirceConfig(spec=spec)).eval()
    fill = pipeline("fill-mask", model=saved(model, tokenizer, tmp_path))
    best, *_ = fill("the [MASK] sat")
    encoding = tokenizer.encode("the [MASK] sat", length=32)
    with torch.no_grad():
        logits = model.to_peirce()(input_ids=torch.tensor([encoding.ids]))["mlm_logits"][0]
    place = encoding.ids.index(tokenizer.mask_id)
    assert best["token"] == int(logits[place].argmax())
    assert best["score"] == pytest.approx(float(logits[place].softmax(-1).max()), rel=1e-5)


def test_text_classification(tokenizer: Tokenizer, spec: Spec, tmp_path: Path) -> None:
    config = PeirceConfig(spec=spec, id2label={0: "bad", 1: "good", 2: "neither"})
    model = PeirceForSequenceClassification(config).eval()
    classify = pipeline("text-classification", model=saved(model, tokenizer, tmp_path), top_k=None)
    for batch_size in (1, 2):  # the shorter text is padded in a batch of two, which changes nothing
        for text, scores in zip(TEXTS, classify(TEXTS, batch_size=batch_size), strict=True):
            ids = torch.tensor([tokenizer.encode(text, length=32).ids])
            with torch.no_grad():
                wanted = model.to_peirce()(input_ids=ids)["classification_logits"][0].softmax(-1)
            found = {entry["label"]: entry["score"] for entry in scores}
            for label, score in zip(("bad", "good", "neither"), wanted.tolist(), strict=True):
                assert found[label] == pytest.approx(score, rel=1e-4)


def test_other_pipelines(tokenizer: Tokenizer, spec: Spec, tmp_path: Path) -> None:
    config = PeirceConfig(spec=spec)
    tagger = saved(PeirceForTokenClassification(config), tokenizer, tmp_path / "tags")
    assert {entry["word"] for entry in pipeline("token-classification", model=tagger)("the cat")} == {
        "the",
        "cat",
    }
    features = saved(PeirceModel(config), tokenizer, tmp_path / "features")
    (vectors,) = pipeline("feature-extraction", model=features)("the cat")
    assert (len(vectors), len(vectors[0])) == (4, 24)


def causal(spec: Spec, head: str = "causal_lm", **changes: Any) -> PeirceForCausalLM:
    torch.manual_seed(0)
    heads = {"model.heads": [{"use": head, "as": "next"}]}
    return PeirceForCausalLM(PeirceConfig(spec=spec.replace({**CAUSAL, **heads, **changes}))).eval()


def by_hand(model: PeirceForCausalLM, ids: list[int], count: int, **inputs: Any) -> list[int]:
    own, new = model.to_peirce(), []
    for _ in range(count):
        with torch.no_grad():
            logits = own(input_ids=torch.tensor([ids + new]), **inputs)["next_logits"]
        new.append(int(logits[0, -1].argmax()))
    return new


@pytest.mark.parametrize(("head", "use_cache"), [("causal_lm", None), ("causal_lm", False), ("mlm", True)])
def test_greedy_generation(
    use_cache: bool | None, head: str, tokenizer: Tokenizer, spec: Spec, tmp_path: Path
) -> None:
    """Prompts of different lengths, padded on the left, are continued as each is alone; a cache changes nothing."""
    model = causal(spec, head)
    saved(model, tokenizer, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    hf = AutoTokenizer.from_pretrained(tmp_path, padding_side="left")
    inputs = hf(TEXTS, padding=True, add_special_tokens=False, return_tensors="pt")
    options = {} if use_cache is None else {"use_cache": use_cache}
    seen: list[int] = []
    embed = loaded.get_input_embeddings().register_forward_hook(lambda m, i, o: seen.append(o.shape[1]))
    found = loaded.generate(**inputs, max_new_tokens=6, do_sample=False, **options)
    embed.remove()
    for text, row in zip(TEXTS, found, strict=True):
        assert row[-6:].tolist() == by_hand(model, tokenizer.pieces(text), 6)
    first = inputs["input_ids"].shape[1]
    alone = head == "causal_lm" and use_cache is not False
    assert seen == ([first, *[1] * 5] if alone else [first + i for i in range(6)])


def test_generation_in_other_ways(tokenizer: Tokenizer, spec: Spec, tmp_path: Path) -> None:
    model = causal(spec)
    prompt = torch.tensor([tokenizer.pieces("the cat sat")])
    beams = {
        use: model.generate(
            input_ids=prompt.expand(2, -1), max_new_tokens=5, num_beams=4, do_sample=False, use_cache=use
        )
        for use in (True, False)
    }
    assert beams[True].shape == (2, prompt.shape[1] + 5)
    assert torch.equal(beams[True], beams[False])
    torch.manual_seed(0)
    sampled = model.generate(
        input_ids=prompt, max_new_tokens=4, do_sample=True, top_k=5, num_return_sequences=3
    )
    assert sampled.shape == (3, prompt.shape[1] + 4)
    write = pipeline("text-generation", model=saved(model, tokenizer, tmp_path))
    (written,) = write("the cat", max_new_tokens=4, do_sample=False)
    assert written["generated_text"].startswith("the cat")


@pytest.mark.parametrize("head", ["causal_lm", "mlm"])
def test_a_prefix_is_passed_on(head: str, tokenizer: Tokenizer, spec: Spec) -> None:
    model = causal(spec, head, **{"model.scope.kind": "prefix"})
    ids = tokenizer.pieces("the cat sat on the")
    prefix = torch.tensor([3])
    found = model.generate(
        input_ids=torch.tensor([ids]), prefix_length=prefix, max_new_tokens=4, do_sample=False
    )
    assert found[0, len(ids) :].tolist() == by_hand(model, ids, 4, prefix_length=prefix)


@pytest.mark.parametrize("use_cache", [None, False])
def test_a_target_from_its_source(
    use_cache: bool | None, tokenizer: Tokenizer, spec: Spec, tmp_path: Path
) -> None:
    """Sources of different lengths give what each gives alone; the source is encoded once, or in every step."""
    torch.manual_seed(0)
    config = PeirceConfig(
        spec=spec.replace(
            {
                **{key: value for key, value in CAUSAL.items() if key != "model.scope.kind"},
                "model.architecture": "folnet_encoder_decoder",
                "model.heads": [{"use": "causal_lm"}],
                "model.regularisation.init_std": 0.4,
            }
        ),
        decoder_start_token_id=tokenizer.cls_id,
    )
    model = PeirceForConditionalGeneration(config).eval()
    saved(model, tokenizer, tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    inputs = AutoTokenizer.from_pretrained(tmp_path)(TEXTS, padding=True, return_tensors="pt")
    seen: list[int] = []
    loaded.peirce.network.encoder.register_forward_hook(lambda *_: seen.append(1))
    options: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False}
    if use_cache is not None:
        options["use_cache"] = use_cache
    found = loaded.generate(**inputs, **options)
    assert len(seen) == (1 if use_cache is None else 5)
    own = loaded.to_peirce()
    for text, row in zip(TEXTS, found, strict=True):
        source = torch.tensor([tokenizer.encode(text, length=32).ids])
        target = [tokenizer.cls_id]
        for _ in range(5):
            with torch.no_grad():
                logits = own(input_ids=source, decoder_input_ids=torch.tensor([target]))["causal_lm_logits"]
            target.append(int(logits[0, -1].argmax()))
        assert row.tolist() == target
    assert len(set(found.flatten().tolist())) > 2
    beams = loaded.generate(**inputs, **options, num_beams=3)
    assert torch.equal(beams, loaded.generate(**inputs, **{**options, "use_cache": False}, num_beams=3))

"""Models of `transformers` as architectures: equal to the original, augmented, saved whole, exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from thorough import often
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

import peirce
from peirce.compose import summarise
from peirce.errors import InputError, PlanError, SpecError
from peirce.spec import Spec
from peirce_hf import PeirceForMaskedLM, from_peirce
from peirce_hf.pretrained.configuration import configuration

PLAIN = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 12}
BERT = {**PLAIN, "model_type": "bert", "vocab_size": 20}
SMALL = {**PLAIN, "vocab_size": 20, "max_position_embeddings": 16, "pad_token_id": 1}
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"max_position_embeddings": 18},
    "albert": {"embedding_size": 4},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_biased_input": False,
    },
    "electra": {"embedding_size": 4},
    "longformer": {"attention_window": 4, "max_position_embeddings": 18},
}
ENCODER_DECODERS: dict[str, dict[str, Any]] = {
    "bart": {
        "vocab_size": 20, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 16,
        "scale_embedding": True,
    },
    "t5": {"vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2},
    "led": {
        "vocab_size": 20, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "attention_window": 4,
        "max_encoder_position_embeddings": 16, "max_decoder_position_embeddings": 16,
    },
}  # fmt: skip


HEADS: dict[str, Any] = {
    "mlm": AutoModelForMaskedLM,
    "classification": AutoModelForSequenceClassification,
    "token_classification": AutoModelForTokenClassification,
}


def original(folder: Path, kind: str, auto: Any = AutoModel, **settings: Any) -> Any:
    """A small model of `transformers` with random weights, in a folder."""
    torch.manual_seed(0)
    made = auto.from_config(configuration({"model_type": kind, **settings}))
    with torch.no_grad():
        for value in made.parameters():
            value.normal_(std=0.3)
        for module in made.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    made.save_pretrained(folder)
    return made.double().eval()


def spec_of(folder: Path, architecture: str = "pretrained", **more: Any) -> Spec:
    return Spec(name="small", architecture=architecture, dims={}, options={"source": str(folder), **more})


def ids(*lengths: int) -> tuple[Tensor, Tensor]:
    """Random ids, padded at the end with 1, and which are real."""
    longest = max(lengths)
    real = torch.arange(longest)[None] < torch.tensor(lengths)[:, None]
    return torch.randint(3, 20, real.shape).where(real, 1), real


@pytest.mark.parametrize("kind", often(ENCODERS, ("roberta", "deberta-v2")))
def test_an_encoder_gives_what_the_original_gives(kind: str, tmp_path: Path) -> None:
    theirs = original(tmp_path / "hub", kind, **SMALL | ENCODERS[kind])
    model = peirce.build(spec_of(tmp_path / "hub"), seed=1, dtype=torch.float64).eval()
    assert model.plan.dims.max_length == 16
    words, real = ids(5, 3)
    given: dict[str, Tensor] = {"input_ids": words}
    if model.plan.dims.token_types > 1:
        given["token_type_ids"] = (torch.arange(5) > 2).long().expand(2, 5)
    with torch.no_grad():
        ours = model(**given, attention_mask=real)
        wanted = theirs(**given, attention_mask=real.long())
    torch.testing.assert_close(ours["unary"][real], wanted.last_hidden_state[real], atol=1e-6, rtol=0)
    assert not ours["unary"][~real].any()
    if getattr(wanted, "pooler_output", None) is not None:
        torch.testing.assert_close(ours["pooled"], wanted.pooler_output, atol=1e-6, rtol=0)
    model.save(tmp_path / "saved")
    (tmp_path / "hub").rename(tmp_path / "gone")  # what is saved is whole
    again = peirce.load(tmp_path / "saved").eval()
    with torch.no_grad():
        torch.testing.assert_close(again(**given, attention_mask=real), ours, atol=0, rtol=0)


def test_a_mean_of_atoms_is_over_real_tokens(tmp_path: Path) -> None:
    original(tmp_path, "bert", **SMALL | ENCODERS["bert"])
    spec = spec_of(tmp_path).replace({"model.options": {"source": str(tmp_path), "pool": "mean"}})
    model = peirce.build(spec, seed=1, dtype=torch.float64).eval()
    assert not any("pooler" in name for name in model.state_dict())
    words, real = ids(5, 3)
    with torch.no_grad():
        found = model(input_ids=words, attention_mask=real)
    for row, length in enumerate((5, 3)):
        torch.testing.assert_close(found["pooled"][row], found["unary"][row, :length].mean(0))


@pytest.mark.parametrize(
    ("head", "kind"),
    often(
        [
            *(("mlm", kind) for kind in (*ENCODERS, "deberta, new", "bert, untied")),
            *(("classification", kind) for kind in ENCODERS if kind != "longformer"),  # its head needs ids
            ("token_classification", "bert"),
        ],
        [("mlm", "albert"), ("mlm", "deberta"), ("mlm", "bert, untied"), ("classification", "roberta")],
    ),
)
def test_an_original_head_gives_what_the_original_gives(head: str, kind: str, tmp_path: Path) -> None:
    """With its weights, also saved and away from them; where it ties, it ties to the words of the architecture."""
    kind, _, way = kind.partition(", ")
    changes = {"new": {"legacy": False}, "untied": {"tie_word_embeddings": False}}.get(way, {})
    labels = {} if head == "mlm" else {"num_labels": 3}
    theirs = original(tmp_path / "hub", kind, HEADS[head], **SMALL | ENCODERS[kind] | changes | labels)
    spec = spec_of(tmp_path / "hub", original_heads=[head]).replace(
        {"model.heads": [{"use": head, **({} if head == "mlm" else {"classes": 3})}]}
    )
    model = peirce.build(spec, dtype=torch.float64).eval()
    words, real = ids(5, 3)
    with torch.no_grad():
        ours = model(input_ids=words, attention_mask=real)
        wanted = theirs(input_ids=words, attention_mask=real.long()).logits
    found = ours[f"{head}_logits"]
    rows = slice(None) if head == "classification" else real
    torch.testing.assert_close(found[rows], wanted[rows], atol=1e-6, rtol=0)
    assert head == "classification" or not found[~real].any()
    model.save(tmp_path / "saved")
    (tmp_path / "hub").rename(tmp_path / "gone")
    with torch.no_grad():
        again = peirce.load(tmp_path / "saved").eval()(input_ids=words, attention_mask=real)
    torch.testing.assert_close(again, ours, atol=1e-12, rtol=0)
    if head == "mlm":
        model.loss("mlm", model(input_ids=words), words).backward()
        unused = next(i for i in range(3, 20) if i not in words)
        gradient = model.network.input.embedding.weight.grad
        assert bool(gradient[unused].any()) is (way != "untied")


@pytest.mark.parametrize("kind", often([*ENCODERS, *ENCODER_DECODERS], ("deberta", "t5")))
def test_a_summary_needs_no_values(kind: str, tmp_path: Path) -> None:
    settings = SMALL | ENCODERS[kind] if kind in ENCODERS else ENCODER_DECODERS[kind]
    original(tmp_path, kind, **settings)
    spec = spec_of(tmp_path, "pretrained" if kind in ENCODERS else "pretrained_encoder_decoder")
    found, model = summarise(spec, length=5), peirce.build(spec)
    assert found.parameters == sum(each.numel() for each in model.parameters())
    names = {each.name for each in model.signature.inputs}
    inputs = {name: torch.ones(1, 5).long() for name in names if name.endswith("ids")}
    inputs |= {name: torch.tensor([[True] * 4 + [False]]) for name in names if name.endswith("mask")}
    # The products of attention count where they are products.
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        model.eval().requires_grad_(False)(**inputs)
    assert found.flops == counter.get_total_flops()


def test_an_original_head_goes_to_transformers_and_back(tmp_path: Path) -> None:
    original(tmp_path / "hub", "albert", AutoModelForMaskedLM, **SMALL | ENCODERS["albert"])
    spec = spec_of(tmp_path / "hub", original_heads=["mlm"]).replace({"model.heads": [{"use": "mlm"}]})
    model = peirce.build(spec).eval()
    from_peirce(model).save_pretrained(tmp_path / "saved")
    again = PeirceForMaskedLM.from_pretrained(tmp_path / "saved").eval()
    words, _ = ids(4)
    wanted = model(input_ids=words)["mlm_logits"]
    torch.testing.assert_close(again(words).logits, wanted, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        again.to_peirce().eval()(input_ids=words)["mlm_logits"], wanted, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(
    ("kind", "heads", "original_heads", "said"),
    [
        ("bert", ["mlm"], ["mlm"], "lacks weights of its head 'mlm': cls.predictions.*'original_heads'"),
        ("bert", [], ["mlm"], "original_heads names 'mlm', and the model has no such head; add"),
        ("bert", ["pair"], ["pair"], "no head 'pair' to take from the original; it may be one of mlm, classification"),
        ("dpr", ["mlm"], ["mlm"], "a model of type 'dpr' has no head 'mlm' of its own; take it out"),
    ],
)  # fmt: skip
def test_an_original_head_that_is_not_there(
    kind: str, heads: list[str], original_heads: list[str], said: str, tmp_path: Path
) -> None:
    original(tmp_path / "hub", kind, **SMALL)
    spec = spec_of(tmp_path / "hub", original_heads=original_heads)
    with pytest.raises(PlanError, match=said):
        peirce.build(spec.replace({"model.heads": [{"use": head} for head in heads]}))


def test_an_original_head_of_other_classes(tmp_path: Path) -> None:
    original(tmp_path / "hub", "roberta", HEADS["classification"], **SMALL, num_labels=3)
    spec = spec_of(tmp_path / "hub", original_heads=["classification"])
    with pytest.raises(PlanError, match=r"other sizes: classifier.out_proj.\w+ \[3.*classes"):
        peirce.build(spec.replace({"model.heads": [{"use": "classification", "classes": 2}]}))


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
def test_an_encoder_decoder_gives_what_the_original_gives(kind: str, tmp_path: Path) -> None:
    theirs = original(tmp_path / "hub", kind, **ENCODER_DECODERS[kind])
    model = peirce.build(spec_of(tmp_path / "hub", "pretrained_encoder_decoder"), dtype=torch.float64).eval()
    (words, real), (target, seen) = ids(5, 3), ids(2, 4)
    with torch.no_grad():
        ours = model(
            input_ids=words, attention_mask=real, decoder_input_ids=target, decoder_attention_mask=seen
        )
        wanted = theirs(
            input_ids=words, attention_mask=real.long(), decoder_input_ids=target,
            decoder_attention_mask=seen.long(),
        ).last_hidden_state  # fmt: skip
    torch.testing.assert_close(ours["unary"][seen], wanted[seen], atol=1e-6, rtol=0)
    with pytest.raises(PlanError, match='write architecture = "pretrained_encoder_decoder"'):
        peirce.build(spec_of(tmp_path / "hub"))


@pytest.mark.parametrize(
    ("kind", "exported"),
    often([*((kind, False) for kind in ENCODER_DECODERS), ("bart", True)], [("bart", False)]),
)
def test_an_encoder_decoder_writes_what_the_original_writes(
    kind: str, exported: bool, tmp_path: Path
) -> None:
    """With its own language model, greedily and with beams, from the cached state and without; and as a file."""
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1, "decoder_start_token_id": 2}
    settings = ENCODER_DECODERS[kind] | special | {"forced_eos_token_id": None}
    theirs = AutoModelForSeq2SeqLM.from_config(configuration({"model_type": kind, **settings})).eval()
    with torch.no_grad():
        for value in theirs.parameters():
            value.normal_(std=0.5)
        if kind == "bart":
            theirs.final_logits_bias.normal_(std=2)
    theirs.save_pretrained(tmp_path / "hub")
    spec = spec_of(tmp_path / "hub", "pretrained_encoder_decoder")
    model = peirce.build(spec.replace({"model.heads": [{"use": "causal_lm"}]})).eval()
    words, real = ids(5, 3)
    given = {"input_ids": words, "attention_mask": real, "decoder_input_ids": torch.full((2, 1), 2)}
    for beams in (1, 3):
        told = theirs.generate(
            input_ids=words, attention_mask=real.long(), num_beams=beams, max_new_tokens=6, do_sample=False,
            early_stopping="never",
        )  # fmt: skip
        wanted = [[t for t in row[1:].tolist() if t != 0] for row in told]
        for cache in (True, False):
            found = model.generate(given, max_new=6, eos_id=1, beams=beams, cache=cache)
            assert [[t for t in each.tokens if t != 0] for each in found] == wanted
    if exported:
        file = tmp_path / "model.onnx"
        peirce.export(model, path=file, to="onnx", generate=True)
        arrays = {name: value.numpy() for name, value in given.items()}
        with peirce.Session(file) as session:
            for beams in (1, 3):
                again = session.generate(arrays, max_new=6, eos_id=1, beams=beams)
                wanted = model.generate(given, max_new=6, eos_id=1, beams=beams)
                assert [each.tokens for each in again] == [each.tokens for each in wanted]


def writer(config: dict[str, Any]) -> peirce.Model:
    """A new encoder-decoder that generates, in float64."""
    options = {"config": config}
    spec = Spec(
        name="small", architecture="pretrained_encoder_decoder", dims={}, options=options,
        heads=[{"use": "causal_lm"}],
    )  # fmt: skip
    return peirce.build(spec, dtype=torch.float64).eval()


def test_a_head_that_is_not_tied_to_the_words_is_not_taken_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bart = {"model_type": "bart", **ENCODER_DECODERS["bart"]}
    writer(bart)
    assert not caplog.messages
    writer({**bart, "tie_word_embeddings": False})
    assert "bart has a head of its own, lm_head, which is not tied to its words" in caplog.text


@pytest.mark.parametrize("kind", ["bart", "t5", "m2m_100"])
def test_a_target_s_keys_and_values_are_kept(kind: str) -> None:
    """Targets of other lengths are counted each by itself, wherever their padding is, and no token is read again."""
    model = writer({"model_type": kind, **ENCODER_DECODERS[kind if kind == "t5" else "bart"]})
    source, read = ids(5, 3, 4)
    target, _ = ids(6, 6, 6)
    real = torch.tensor([[True] * 6, [False] * 2 + [True] * 4, [True, True, False, True, False, True]])
    words = {"input_ids": source, "attention_mask": read}
    with torch.no_grad():
        whole = model(**words, decoder_input_ids=target, decoder_attention_mask=real)["causal_lm_logits"]
        kept: dict[str, Tensor] = {}
        for some in (slice(3), slice(3, 5), slice(5, 6)):
            new = {"decoder_input_ids": target[:, some], "decoder_attention_mask": real[:, some]}
            outputs, kept = model.advance({**words, **new} if some.start is None else new, kept)
            torch.testing.assert_close(
                outputs["causal_lm_logits"][real[:, some]], whole[:, some][real[:, some]], atol=1e-12, rtol=0
            )
    assert [kept[f"memory_0_{name}"].shape[2] for name in ("key", "source_key")] == [6, 5]


def test_computed_places_are_counted_in_targets_of_one_length_alone() -> None:
    more = {"block_size": 4, "num_global_tokens": 2}
    model = writer({"model_type": "pegasus_x", **ENCODER_DECODERS["bart"], **more})
    words, real = ids(4, 2)
    given = {"input_ids": words, "attention_mask": real, "decoder_input_ids": words}
    alike = [model.generate(given, max_new=3, cache=cache) for cache in (True, False)]
    assert [each.tokens for each in alike[0]] == [each.tokens for each in alike[1]]
    with pytest.raises(InputError, match="cached targets must have one length"):
        model.generate({**given, "decoder_attention_mask": real}, max_new=3)


DECODERS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16},
    "llama": {**SMALL, "num_key_value_heads": 1, "tie_word_embeddings": False},
    "opt": {**SMALL, "ffn_dim": 12, "word_embed_proj_dim": 4},
    "gemma2": {**SMALL, "num_key_value_heads": 1, "head_dim": 4, "sliding_window": 3},
}


@pytest.mark.parametrize(
    ("kind", "exported"),
    often([*((kind, False) for kind in DECODERS), ("llama", True)], [("gpt2", False), ("llama", False)]),
)
def test_a_decoder_writes_what_the_original_writes(kind: str, exported: bool, tmp_path: Path) -> None:
    """With its own language model, from prompts of two lengths, with its keys and values and without; and as a file."""
    special = {"vocab_size": 20, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1}
    theirs = original(tmp_path / "hub", kind, AutoModelForCausalLM, **DECODERS[kind] | special)
    spec = spec_of(tmp_path / "hub", "pretrained_decoder", original_heads=["causal_lm"]).replace(
        {"model.scope.kind": "causal", "model.heads": [{"use": "causal_lm"}]}
    )
    model = peirce.build(spec, dtype=None if exported else torch.float64).eval()
    assert model.plan.dims.max_length == 16
    real = torch.tensor([[True] * 5, [False] * 2 + [True] * 3])
    words = torch.randint(3, 20, (2, 5)).where(real, 0)
    given = {"input_ids": words, "attention_mask": real}
    with torch.no_grad():
        places = (real.long().cumsum(1) - 1).clamp_min(0)
        wanted = theirs(input_ids=words, attention_mask=real.long(), position_ids=places).logits
        logits = model(**given)["causal_lm_logits"]
    torch.testing.assert_close(logits[real].double(), wanted[real], atol=1e-5 if exported else 1e-9, rtol=0)
    told = theirs.generate(
        input_ids=words, attention_mask=real.long(), max_new_tokens=6, do_sample=False
    )  # with a cache of its own
    texts = [[t for t in row[5:].tolist() if t != 0] for row in told]
    for cache in (True, False):
        found = model.generate(given, max_new=6, eos_id=1, cache=cache)
        assert [list(each.tokens) for each in found] == texts
    if exported:
        file = tmp_path / "model.onnx"
        peirce.export(model, path=file, to="onnx", generate=True)
        with peirce.Session(file) as session:
            again = session.generate({n: v.numpy() for n, v in given.items()}, max_new=6, eos_id=1)
        assert [list(each.tokens) for each in again] == texts
    else:
        ours = from_peirce(model).generate(
            input_ids=words, attention_mask=real.long(), max_new_tokens=6, do_sample=False, eos_token_id=1
        )
        assert torch.equal(ours, told)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "mamba", "hidden_size": 8, "num_hidden_layers": 1}, "does not cache keys and values"),
        (BERT, 'reads both ways; write architecture = "pretrained"'),
        (
            {**BERT, "model_type": "bart"},
            'an encoder-decoder; write architecture = "pretrained_encoder_decoder"',
        ),
        ({**BERT, "model_type": "llama", "num_attention_heads": 3}, "config: .*not a multiple"),
    ],
)
def test_what_is_no_decoder_is_refused(config: dict[str, Any], said: str) -> None:
    spec = Spec(name="small", architecture="pretrained_decoder", dims={}, options={"config": config})
    with pytest.raises(PlanError, match=said):
        peirce.build(spec.replace({"model.scope.kind": "causal"}))


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_augmenters_change_what_enters_it(kind: str, tmp_path: Path) -> None:
    """With a head that ties to the words, in training; the augmenter has the width of the words."""
    original(tmp_path / "hub", kind, **SMALL | ENCODERS[kind])
    spec = spec_of(tmp_path / "hub").replace(
        {"model.augmenters": [{"use": "logical", "depth": 2}], "model.heads": [{"use": "mlm"}]}
    )
    model = peirce.build(spec)
    words, real = ids(4, 3)
    logical = torch.randint(35, (2, 2, 4))
    outputs = model(input_ids=words, attention_mask=real, logical_ids=logical)
    assert outputs["mlm_logits"].shape == (2, 4, 20)
    model.loss("mlm", outputs, words.where(real, -100)).backward()
    augmenter = model.network.input.augmenters[0]
    assert augmenter.embedding.weight.shape[1] == model.network.input.embedding.weight.shape[1]
    assert augmenter.embedding.weight.grad.abs().max() > 0
    assert model.network.input.embedding.weight.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give a 'source', or a 'config' with its 'model_type'"),
        ({"config": {"model_type": "burt"}}, "burt"),
        ({"source": "/no/such/folder"}, "no/such/folder"),
        ({"config": BERT | {"num_attention_heads": 0}}, "cannot be used here: .*ZeroDivisionError"),
        (
            {"config": BERT | {"num_hidden_layers": 10**8}},
            "num_hidden_layers is 100000000; give at most 1000",
        ),
    ],
)
def test_what_is_no_model_is_refused(options: dict[str, Any], said: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SpecError, match=said):
        peirce.build(Spec(name="small", architecture="pretrained", dims={}, options=options))


def test_weights_that_are_missing_are_named(tmp_path: Path) -> None:
    original(tmp_path / "hub", "bert", **SMALL)
    with pytest.raises(PlanError, match=r"lacks weights of the network: encoder\.layer\.1"):
        peirce.build(spec_of(tmp_path / "hub", config={"num_hidden_layers": 2}))


def test_dropout_is_the_spec_s(tmp_path: Path) -> None:
    config = {"model_type": "bert", **SMALL, "attention_probs_dropout_prob": 0.0}
    spec = Spec(name="small", architecture="pretrained", dims={}, options={"config": config})
    body = peirce.build(spec.replace({"model.regularisation.dropout": 0.3})).network.body
    assert (body.config.hidden_dropout_prob, body.config.attention_probs_dropout_prob) == (0.3, 0.0)


@pytest.mark.parametrize("kind", ["roberta"])
def test_it_exports(kind: str, tmp_path: Path) -> None:
    """Verified by the exporter at other shapes; `logical_ids` stays an input, and a head may be the original's."""
    original(tmp_path / "hub", kind, AutoModelForMaskedLM, **SMALL | ENCODERS[kind])
    spec = spec_of(tmp_path / "hub", original_heads=["mlm"]).replace(
        {
            "model.augmenters": [{"use": "logical", "depth": 1}],
            "model.heads": [{"use": "mlm"}, {"use": "classification", "classes": 2}],
        }
    )
    file = tmp_path / "model.onnx"
    peirce.export(peirce.build(spec).eval(), path=file, to="onnx")
    with peirce.Session(file) as session:
        given = {"input_ids": [[5, 6, 7]], "logical_ids": [[[1, 2, 0]]]}
        scores = session.run({name: torch.tensor(value).numpy() for name, value in given.items()})
    assert scores["classification_logits"].shape == (1, 2)


@pytest.mark.thorough
def test_half_precision_is_exported_where_layers_look_for_infinite_values(tmp_path: Path) -> None:
    original(tmp_path / "hub", "bart", **ENCODER_DECODERS["bart"])
    model = peirce.build(spec_of(tmp_path / "hub", "pretrained_encoder_decoder")).eval()
    file = tmp_path / "model.onnx"
    assert peirce.export(model, path=file, to="onnx", precision="float16").passed
    words = torch.tensor([[5, 6, 7]])
    with peirce.Session(file) as session, torch.no_grad():
        found = session.run({"input_ids": words.numpy(), "decoder_input_ids": words.numpy()})["unary"]
        wanted = model(input_ids=words, decoder_input_ids=words)["unary"]
    torch.testing.assert_close(torch.from_numpy(found).float(), wanted, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize(("name", "width"), [("roberta-large", 1024), ("minilm", 384), ("bart-base", 768)])
def test_ready_specs_and_what_logic_adds_to_their_size(name: str, width: int) -> None:
    """Section 4.4 of Logical Transformers: 0.601 % of RoBERTa large's 355 million."""
    with torch.device("meta"):
        counts = [
            sum(p.numel() for p in peirce.build(each).network.parameters())
            for each in (name, f"logical-{name}")
        ]
    plain, more = counts[0], counts[1] - counts[0]
    assert more == width * 35 + (width + width) * width + width
    if name == "roberta-large":
        assert plain == 355_359_744
        assert round(100 * more / 355e6, 3) == 0.601

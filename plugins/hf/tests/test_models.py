"""Models: the way in, the way back, files, outputs, losses, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import safe_open
from small_specs import FOLNET, PAPER_CJOIN, TRANSFORMER
from thorough import often
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

import peirce
from peirce.compose import ProvenanceWarning
from peirce.errors import InputError, ModelFileError, SpecError
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_hf import (
    PeirceConfig,
    PeirceForCausalLM,
    PeirceForConditionalGeneration,
    PeirceForMaskedLM,
    PeirceForMultipleChoice,
    PeirceForPreTraining,
    PeirceForQuestionAnswering,
    PeirceForSequenceClassification,
    PeirceForTokenClassification,
    PeirceModel,
    from_peirce,
)
from peirce_hf.auto import AUTO_CLASSES

CAUSAL = FOLNET.replace({"model.scope.kind": "causal", **PAPER_CJOIN, "model.heads": [{"use": "causal_lm"}]})
TWO_STACKS = FOLNET.replace(
    {
        "model.architecture": "folnet_encoder_decoder",
        "model.options": {"decoder_layers": 1},
        **PAPER_CJOIN,
        "model.heads": [{"use": "causal_lm"}],
    }
)
HEADS: dict[type, list[dict[str, Any]]] = {
    PeirceModel: [],
    PeirceForMaskedLM: [{"use": "mlm"}],
    PeirceForSequenceClassification: [{"use": "classification", "as": "genre", "classes": 3}],
    PeirceForTokenClassification: [{"use": "token_classification", "classes": 5}],
    PeirceForQuestionAnswering: [{"use": "span"}],
    PeirceForMultipleChoice: [{"use": "multiple_choice", "choices": 3}],
}
SPECS: dict[type, Spec] = {
    PeirceForPreTraining: FOLNET,
    PeirceForCausalLM: CAUSAL,
    PeirceForConditionalGeneration: TWO_STACKS,
    **{cls: FOLNET.replace({"model.heads": heads}) for cls, heads in HEADS.items()},
}
PARTS: list[dict[str, Any]] = [
    {"model.positions": [{"use": "t5"}]},
    {"model.positions": [{"use": "absolute"}], "model.augmenters": [{"use": "tpr"}]},
    {
        "model.positions": [{"use": "shaw", "clip": 3}],
        "model.options": {"diag_link": True, "affine_norm": True},
    },
]


def ids(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(1, 40, shape, generator=torch.Generator().manual_seed(seed))


def equal(one: nn.Module, other: nn.Module) -> None:
    left, right = one.state_dict(), other.state_dict()
    assert list(left) == list(right)
    for name, value in left.items():
        assert torch.equal(value, right[name]), name


@pytest.mark.parametrize("auto", AUTO_CLASSES)
def test_there_and_back_through_files(auto: str, registry: Registry, tmp_path: Path) -> None:
    """Peirce, transformers, sharded files, the Auto class, Peirce: the same to the bit."""
    cls = AUTO_CLASSES[auto]
    model = peirce.build(SPECS[cls], seed=3, registry=registry).eval()
    made = from_peirce(model, registry=registry)
    assert type(made) is cls
    assert not made.training
    made.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert not list(tmp_path.glob("*.bin"))
    loaded, report = getattr(transformers, auto).from_pretrained(tmp_path, output_loading_info=True)
    assert type(loaded) is cls
    assert not any(report.values()), report
    equal(loaded.peirce, model)
    back = loaded.to_peirce()
    assert back.spec == model.spec
    assert back.provenance == model.provenance
    inputs = {"input_ids": ids(2, 6)}
    if cls is PeirceForConditionalGeneration:
        inputs["decoder_input_ids"] = ids(2, 3)
    for name, value in model(**inputs).items():
        assert torch.equal(back(**inputs)[name], value)
    assert back.network is not loaded.peirce.network


def test_names_in_the_file_are_peirce_s(registry: Registry, tmp_path: Path) -> None:
    model = peirce.build(FOLNET, registry=registry)
    from_peirce(model, registry=registry).save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert sorted(file.keys()) == sorted(f"peirce.{name}" for name in model.state_dict())
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("peirce", ["PeirceForPreTraining"])


def test_every_output_is_there(registry: Registry) -> None:
    """int64 masks and token types give what Peirce's own inputs give; so does a call that wants a tuple."""
    model = peirce.build(FOLNET, registry=registry).eval()
    made = from_peirce(model, registry=registry)
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    types = torch.tensor([[0, 0, 0, 1, 1]]).expand(2, -1)
    wanted = model(input_ids=ids(2, 5), attention_mask=mask.bool(), token_type_ids=types)
    found = made(input_ids=ids(2, 5).int(), attention_mask=mask, token_type_ids=types)
    assert found.loss is None
    seen = {
        "unary": found.last_hidden_state, "pooled": found.pooler_output, "binary": found.binary, **found.predictions
    }  # fmt: skip
    assert set(seen) == set(wanted)
    for name, value in seen.items():
        assert torch.equal(value, wanted[name]), name
    assert torch.equal(made(ids(2, 5), mask, types, return_dict=False)[1], wanted["unary"])


@pytest.mark.parametrize("changes", often(PARTS, PARTS[2:]), ids=["t5", "tpr", "shaw-diagonal-affine"])
@pytest.mark.parametrize("base", [FOLNET, TRANSFORMER], ids=["folnet", "transformer"])
def test_a_new_head_on_a_loaded_body(
    base: Spec, changes: dict[str, Any], registry: Registry, tmp_path: Path
) -> None:
    """The body is taken, the heads of the file are left, the new head begins as Peirce's do, and nothing is unset."""
    if base is TRANSFORMER:
        changes = {key: value for key, value in changes.items() if key != "model.options"}
    spec = base.replace({**changes, "model.heads": [{"use": "mlm"}]})
    model = peirce.build(spec, seed=1, registry=registry)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01)
    from_peirce(model, registry=registry).save_pretrained(tmp_path)
    loaded, report = AutoModelForSequenceClassification.from_pretrained(
        tmp_path, num_labels=3, output_loading_info=True
    )
    head = "peirce.heads.classification.dense"
    assert report["missing_keys"] == {f"{head}.weight", f"{head}.bias"}
    assert all(name.startswith("peirce.heads.mlm.") for name in report["unexpected_keys"])
    equal(loaded.peirce.network, model.network)
    dense = loaded.peirce.heads["classification"].dense
    assert dense.bias.eq(0).all()
    assert 0 < dense.weight.std() < 0.04
    buffers = dict(model.network.named_buffers())
    for name, buffer in loaded.peirce.network.named_buffers():
        assert torch.equal(buffer, buffers[name]), name
    # The other way: only the mlm head's bias, which the head holds itself, is missing and must be zero.
    loaded.save_pretrained(tmp_path / "classifier")
    back = AutoModelForMaskedLM.from_pretrained(tmp_path / "classifier")
    assert back.peirce.heads["mlm"].bias.eq(0).all()
    assert back(ids(1, 4)).logits.isfinite().all()


def test_parts_give_the_values_of_what_is_missing_in_the_file(registry: Registry, tmp_path: Path) -> None:
    """Norms, scalars and buffers are no linear maps: where a file lacks them they are as their parts make them."""
    spec = FOLNET.replace({**PARTS[1], "model.options": {"affine_norm": True}})
    made = PeirceModel(PeirceConfig(spec=spec), registry=registry)
    state = made.state_dict()
    own = [name for name in state if "norm" in name or name.endswith((".shift", ".basis"))]
    assert len(own) > 10
    made.save_pretrained(
        tmp_path, state_dict={name: value for name, value in state.items() if name not in own}
    )
    loaded, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert report["missing_keys"] == set(own)
    for name, value in loaded.state_dict().items():
        if not name.endswith(".basis"):  # random
            assert torch.equal(value, state[name]), name
        else:
            assert 0.5 < value.std() < 2


@pytest.mark.parametrize("cls", [cls for cls in SPECS if cls is not PeirceModel])
def test_losses_are_those_of_the_heads(cls: Any, registry: Registry) -> None:
    model = peirce.build(SPECS[cls], registry=registry).eval()
    made = cls.from_peirce(model, registry=registry)
    tokens, mask = ids(2, 6), torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]])
    target = torch.tensor([[0, 5, 8], [0, 7, 0]])
    two = {"decoder_input_ids": target} if cls is PeirceForConditionalGeneration else {}
    own = model(input_ids=tokens, attention_mask=mask.bool(), **two)
    log = torch.log_softmax
    given: dict[str, Any] = {"input_ids": tokens, "attention_mask": mask}
    if cls is PeirceForPreTraining:
        labels = torch.tensor([[-100, 7, -100, -100, 9, -100], [-100] * 6])
        found = made(**given, labels=labels, next_sentence_label=torch.tensor([[0], [1]]))
        wanted = -(log(own["mlm_logits"], -1)[0, 1, 7] + log(own["mlm_logits"], -1)[0, 4, 9]) / 2
        wanted = wanted - (log(own["nsp_logits"], -1)[0, 0] + log(own["nsp_logits"], -1)[1, 1]) / 2
        same = made(**given, labels={"mlm": labels, "nsp": torch.tensor([0, 1])})
        assert torch.equal(same.loss, found.loss)
    elif cls is PeirceForMaskedLM:
        found = made(**given, labels=torch.tensor([[-100] * 6, [-100, 3, -100, -100, -100, -100]]))
        wanted = -log(own["mlm_logits"], -1)[1, 1, 3]
    elif cls is PeirceForCausalLM:
        labels = torch.tensor([[-100, 5, 8, -100, -100, -100], [-100] * 6])
        found = made(**given, labels=labels)
        wanted = -(log(own["causal_lm_logits"], -1)[0, 0, 5] + log(own["causal_lm_logits"], -1)[0, 1, 8]) / 2
    elif cls is PeirceForConditionalGeneration:
        labels = torch.tensor([[5, 8, -100], [7, -100, -100]])
        found = made(
            **given, labels=labels
        )  # the target begins with the padding's id, and goes on as the labels do
        assert torch.equal(made.prepare_decoder_input_ids_from_labels(labels), target)
        logits = log(own["causal_lm_logits"], -1)
        wanted = -(logits[0, 0, 5] + logits[0, 1, 8] + logits[1, 0, 7]) / 3
    elif cls is PeirceForSequenceClassification:
        found = made(**given, labels=torch.tensor([2, 0]))
        wanted = -(log(own["genre_logits"], -1)[0, 2] + log(own["genre_logits"], -1)[1, 0]) / 2
    elif cls is PeirceForTokenClassification:
        labels = torch.tensor([[4, -100, -100, -100, -100, -100], [-100] * 6])
        found = made(**given, labels=labels)
        wanted = -log(own["token_classification_logits"], -1)[0, 0, 4]
    elif cls is PeirceForQuestionAnswering:
        # The end of the second lies outside the input, so it does not count; padding is no possible place.
        found = made(**given, start_positions=torch.tensor([[1], [2]]), end_positions=torch.tensor([3, 6]))
        start, end = own["span_logits"].unbind(-1)
        wanted = -(log(start[0], 0)[1] + log(end[0], 0)[3] + log(start[1, :4], 0)[2]) / 3
        assert torch.equal(found.start_logits, start)
        assert torch.equal(found.end_logits, end)
    else:
        tokens = ids(2, 3, 6)
        own = model(input_ids=tokens.flatten(0, 1))
        logits = own["multiple_choice_logits"].view(2, 3)
        found = made(input_ids=tokens, labels=torch.tensor([2, 0]))
        wanted = -(log(logits, 1)[0, 2] + log(logits, 1)[1, 0]) / 2
        assert torch.equal(found.logits, logits)
    assert torch.allclose(found.loss, wanted, rtol=1e-5, atol=0)


def test_regression(registry: Registry, tmp_path: Path) -> None:
    made = PeirceForSequenceClassification(PeirceConfig(spec=FOLNET, num_labels=1), registry=registry).eval()
    labels = torch.tensor([0.5, -1.0])
    found = made(ids(2, 4), labels=labels)
    assert found.logits.shape == (2, 1)
    assert torch.allclose(found.loss, ((found.logits[:, 0] - labels) ** 2).mean())
    made.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert torch.allclose(again(ids(2, 4)).logits, found.logits, atol=1e-6)
    assert from_peirce(again.to_peirce()).config.problem_type == "regression"


def test_a_class_leaves_out_the_heads_of_others(registry: Registry) -> None:
    made = PeirceForMaskedLM.from_peirce(peirce.build(FOLNET, registry=registry), registry=registry)
    assert list(made.peirce.heads) == ["mlm"]
    pair = FOLNET.replace({"model.heads": [{"use": "relation", "classes": 4}]})
    assert isinstance(from_peirce(peirce.build(pair, registry=registry)), PeirceForPreTraining)


@pytest.mark.parametrize(("count", "mean"), [(33, True), (50, False)])
def test_other_numbers_of_tokens(count: int, mean: bool, registry: Registry, tmp_path: Path) -> None:
    made = PeirceForMaskedLM(PeirceConfig(spec=FOLNET), registry=registry).eval()
    with torch.no_grad():
        made.peirce.heads["mlm"].bias += 1  # type: ignore[operator]
    tokens = ids(2, 5) % 30
    before = made(tokens).logits
    embeddings = made.resize_token_embeddings(count, mean_resizing=mean)
    assert embeddings is made.get_input_embeddings()
    assert made.config.vocab_size == made.peirce.spec.input.vocabulary == len(embeddings.weight) == count
    kept = min(count, 40)
    after = made(tokens).logits
    assert torch.allclose(after[..., :kept], before[..., :kept], atol=1e-6)
    assert after.shape[-1] == count
    made.save_pretrained(tmp_path)
    again = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert torch.allclose(again(tokens + count - 30).logits, made(tokens + count - 30).logits, atol=1e-6)
    assert made.resize_token_embeddings(pad_to_multiple_of=16).num_embeddings % 16 == 0


def test_checkpointing_changes_nothing_but_memory(registry: Registry) -> None:
    made = PeirceForMaskedLM(PeirceConfig(spec=FOLNET), registry=registry).train()
    tokens = ids(2, 6)
    calls: list[int] = []
    layers: Any = made.peirce.network.layers
    for layer in layers:
        layer.mixing.register_forward_hook(lambda *_: calls.append(1))

    def gradients() -> list[Tensor]:
        calls.clear()
        made.zero_grad()
        torch.manual_seed(5)
        made(tokens, labels=tokens).loss.backward()
        return [p.grad.clone() for p in made.parameters() if p.grad is not None]

    plain = gradients()
    assert len(calls) == 2
    enable = getattr(made, "activation_checkpointing_enable", None) or made.gradient_checkpointing_enable
    enable()
    recomputed = gradients()
    assert len(calls) == 4
    assert made.gradient_checkpointing
    assert all(torch.equal(one, other) for one, other in zip(plain, recomputed, strict=True))
    disable = getattr(made, "activation_checkpointing_disable", None) or made.gradient_checkpointing_disable
    disable()
    gradients()
    assert len(calls) == 2


def test_half_precision(registry: Registry, tmp_path: Path) -> None:
    made = PeirceForMaskedLM(PeirceConfig(spec=FOLNET), registry=registry)
    made.to(torch.bfloat16).save_pretrained(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert loaded.dtype == loaded.peirce.dtype == torch.bfloat16
    assert loaded.to_peirce().dtype == torch.bfloat16
    exact = AutoModelForMaskedLM.from_pretrained(tmp_path, dtype=torch.float32)
    equal(exact, made.float())


def test_a_model_made_elsewhere_says_so(registry: Registry, tmp_path: Path) -> None:
    PeirceModel(PeirceConfig(spec=FOLNET), registry=registry).save_pretrained(tmp_path)
    (tmp_path / "peirce.json").unlink()  # the digests, since the configuration is changed
    config = json.loads((tmp_path / "config.json").read_text())
    config["provenance"]["parts"]["operators.trans"]["version"] = "0.0.1"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.warns(ProvenanceWarning, match=r"operators\.trans was from peirce-folnet 0\.0\.1"):
        AutoModel.from_pretrained(tmp_path)
    text = json.dumps(config).replace("trans", "tarski").replace("tarskiformers", "transformers")
    config = json.loads(text)
    config["spec"]["operators"]["layer"] = [{"use": "join"}, {"use": "tarski"}]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFileError, match=r"operators\.tarski from peirce-folnet 0\.0\.1"):
        AutoModel.from_pretrained(tmp_path)


def test_inputs_that_peirce_does_not_have(registry: Registry) -> None:
    made = PeirceForMaskedLM(PeirceConfig(spec=FOLNET), registry=registry)
    tokens = ids(1, 4)
    with pytest.raises(InputError, match="inputs_embeds"):
        made(inputs_embeds=torch.zeros(1, 4, 24))
    with pytest.raises(InputError, match="output_attentions"):
        made(tokens, output_attentions=True)
    with pytest.raises(InputError, match="'position_ids'"):
        made(tokens, position_ids=tokens)
    with pytest.raises(InputError, match="input 'input_ids' is missing"):
        made()
    with pytest.raises(InputError, match="resize_token_embeddings"):
        made.set_input_embeddings(nn.Embedding(3, 24))
    everything = PeirceForPreTraining(PeirceConfig(spec=CAUSAL), registry=registry)
    with pytest.raises(InputError, match=r"'pair'.*it has causal_lm"):
        everything(tokens, next_sentence_label=torch.tensor([0]))
    with pytest.raises(InputError, match="neither decoder_input_ids nor labels"):
        PeirceForConditionalGeneration(PeirceConfig(spec=TWO_STACKS), registry=registry)(tokens)
    choice = PeirceForMultipleChoice(PeirceConfig(spec=FOLNET), registry=registry)
    with pytest.raises(InputError, match=r"\[batch, choices, length\]"):
        choice(tokens)
    with pytest.raises(InputError, match="num_choices=4"):
        choice(ids(2, 4, 3), labels=torch.tensor([0, 1]))


def test_specs_that_do_not_suit_a_class(registry: Registry) -> None:
    with pytest.raises(SpecError, match="bidirectional"):
        PeirceForCausalLM(PeirceConfig(spec=FOLNET), registry=registry)
    with pytest.raises(SpecError, match=r"folnet has none.*PeirceForCausalLM"):
        PeirceForConditionalGeneration(PeirceConfig(spec=CAUSAL), registry=registry)
    with pytest.raises(SpecError, match="PeirceForCausalLM"):
        PeirceForCausalLM(PeirceConfig(spec=TWO_STACKS), registry=registry)
    several = PeirceConfig(spec=FOLNET, problem_type="multi_label_classification")
    with pytest.raises(SpecError, match="multi_label_classification"):
        PeirceForSequenceClassification(several, registry=registry)
    with pytest.raises(SpecError, match=r"'span'.*mlm, pair"):
        PeirceForQuestionAnswering.from_peirce(peirce.build(FOLNET, registry=registry), registry=registry)
    no_pooler = FOLNET.replace({"model.options": {"pooler": False}})
    with pytest.raises(SpecError, match="pooled"):
        PeirceForSequenceClassification(PeirceConfig(spec=no_pooler), registry=registry)


def test_a_map_that_replaces_another_is_used(registry: Registry) -> None:
    """As adapters and quantisation replace linear maps, in models whose products join several."""
    made = PeirceForMaskedLM(PeirceConfig(spec=FOLNET), registry=registry).eval()
    ids = torch.tensor([[1, 2, 3]])
    join: Any = made.peirce.network.get_submodule("layers.0.operators.0.join")
    with torch.no_grad():
        before = made(input_ids=ids).logits
        join.output = nn.Sequential(join.output, nn.Tanh())
        assert not torch.equal(made.train().eval()(input_ids=ids).logits, before)


def test_what_would_be_wrong_in_silence_is_refused(registry: Registry) -> None:
    made = PeirceForMaskedLM(PeirceConfig(spec=FOLNET), registry=registry)
    with pytest.raises(InputError, match="DataParallel"):
        made._replicate_for_data_parallel()

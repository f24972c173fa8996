"""`peirce import transformers`: imported models give the logits and the texts that transformers gives, and go back."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
import transformers
from attrs import frozen
from command_line import exit_code
from safetensors.torch import load_file, save_file
from thorough import often
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import peirce
from peirce.errors import InputError, ModelFileError
from peirce.model import Model
from peirce.registry import Registry, default_catalogue, hookimpl
from peirce_basics import plugin as basics
from peirce_folnet import plugin as folnet
from peirce_hf.checkpoints import cli
from peirce_hf.checkpoints.importing import ASSET, export_transformers, import_transformers, layout_of
from peirce_hf.checks import differing_weights, example_model, largest_difference, layout_agrees
from peirce_hf.hooks import LAYOUTS
from peirce_hf.layouts.bert import Bert
from peirce_hf.layouts.gpt2 import GPT2
from peirce_hf.layouts.llama import SCALINGS
from peirce_testing import BrokenError, Case

LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 6, "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 3.0],
}  # fmt: skip
SCALED: list[dict[str, Any]] = [
    LLAMA3, YARN, {**YARN, "mscale": 1.5, "mscale_all_dim": 0.5}, LONGROPE, {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0}, {"rope_type": "proportional", "partial_rotary_factor": 0.5},
]  # fmt: skip
LENGTHS = (9, 6, 4)


def difference(theirs: Any, ours: Model) -> float:
    """The largest difference of scores, over the largest of them, in the dtype of theirs."""
    return largest_difference(theirs, ours.to(theirs.dtype).eval(), "right")


KINDS = sorted(default_catalogue().names(LAYOUTS))
DECODERS = [
    kind for kind in KINDS if "CausalLM" in (name := layout_of(kind, Path()).example[0]) or "LMHead" in name
]


@pytest.mark.parametrize("kind", often(DECODERS, ["gemma3_text", "gpt2", "gpt_neox", "qwen2"]))
def test_each_family_writes_the_texts_of_transformers(kind: str, tmp_path: Path) -> None:
    """Longer than its window, after padding on the left."""
    theirs = example_model(kind, tmp_path / "theirs")
    ours = import_transformers(tmp_path / "theirs", tmp_path / "ours").to(next(theirs.parameters()).dtype)
    ids = torch.randint(2, 49, (3, 9), generator=torch.Generator().manual_seed(2))
    mask = torch.arange(8, -1, -1) < torch.tensor(LENGTHS).unsqueeze(1)
    wanted = theirs.generate(
        torch.where(mask, ids, 1), attention_mask=mask.long(), max_new_tokens=8, min_new_tokens=8, do_sample=False,
        pad_token_id=1, eos_token_id=None, use_cache=True,
    )[:, 9:]  # fmt: skip
    for cache in (True, False):
        found = ours.generate({"input_ids": ids, "attention_mask": mask}, cache=cache, max_new=8)
        assert [list(each.tokens) for each in found] == wanted.tolist()


@pytest.mark.parametrize("kind", often(KINDS, ["deberta-v2", "mpnet"]))
def test_an_imported_model_exports(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    example_model(kind, tmp_path / "theirs")
    model = import_transformers(tmp_path / "theirs", tmp_path / "ours")
    assert peirce.export(model, path=tmp_path / "model.onnx", to="onnx", generate=kind in DECODERS).passed


@pytest.mark.parametrize("scaling", SCALED, ids=lambda scaling: str(scaling["rope_type"]))
def test_each_scaling_of_rope_is_that_of_transformers(scaling: dict[str, Any], tmp_path: Path) -> None:
    """In texts of which the longest is longer than those of the training."""
    assert (
        {"default", *(each["rope_type"] for each in SCALED)}
        == {"default", *ROPE_INIT_FUNCTIONS}
        == {*SCALINGS}
    )
    longest = {"max_position_embeddings": 6} if scaling["rope_type"] == "dynamic" else {}
    theirs = example_model("llama", tmp_path / "theirs", rope_parameters=scaling, **longest)
    import_transformers(tmp_path / "theirs", tmp_path / "ours")
    ours = peirce.build(peirce.load_spec(tmp_path / "ours/spec.toml", {"model.input.max_length": 64}))
    ours.load_state_dict(peirce.load(tmp_path / "ours").state_dict())
    for side in ("right", "left"):
        assert largest_difference(theirs, ours.to(theirs.dtype).eval(), side) < 1e-5


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_language_model_of_a_multimodal_model_is_taken(
    prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It gives the scores of the whole for texts, and goes back as a model of texts alone."""
    text = {**layout_of("gemma3_text", tmp_path).example[1], "vocab_size": 50, "pad_token_id": 1}
    eyes = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = transformers.Gemma3Config(
        text_config=text, vision_config={**eyes, "image_size": 16, "patch_size": 4}
    )
    theirs = transformers.Gemma3ForConditionalGeneration(config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs/model.safetensors"
    renamed = {k.replace("language_model.model.", prefix): v for k, v in load_file(path).items()}
    save_file(renamed, path, metadata={"format": "pt"})
    ours = import_transformers(tmp_path / "theirs", tmp_path / "ours")
    for side in ("right", "left"):
        assert largest_difference(theirs, ours.eval(), side) < 1e-5
    assert "of this gemma3 the language model is taken" in caplog.text
    assert re.search(r"does not read the tensors .*vision_tower", caplog.text)
    export_transformers(tmp_path / "ours", tmp_path / "again")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    assert isinstance(again, transformers.Gemma3ForCausalLM)
    whole = theirs.model.language_model.state_dict()
    assert all(torch.equal(value, whole[name]) for name, value in again.model.state_dict().items())


@pytest.mark.parametrize("kind", often(["albert", "bert", "distilbert", "electra", "gpt2"], ["bert", "gpt2"]))
def test_padding_counts_as_places_where_that_is_asked_for(kind: str, tmp_path: Path) -> None:
    theirs = example_model(kind, tmp_path / "theirs")
    folder = tmp_path / "ours"
    assert exit_code("import", "transformers", tmp_path / "theirs", "--count-padding", "-o", folder) == 0
    ours = peirce.load(folder).to(theirs.dtype).eval()
    for side in ("left", "right"):
        assert largest_difference(theirs, ours, side, counted=False) < 1e-5
    assert largest_difference(theirs, ours, "left") > 0.1
    export_transformers(folder, tmp_path / "again")
    assert not differing_weights(type(theirs), tmp_path / "theirs", tmp_path / "again")


@pytest.mark.parametrize(
    "settings",
    [
        {"position_biased_input": True, "type_vocab_size": 2, "norm_rel_ebd": "none"},
        {"position_buckets": -1, "max_relative_positions": 3, "pos_att_type": ["p2c"]},
        {"position_buckets": 256, "max_position_embeddings": 512, "pos_att_type": "c2p"},
    ],
)
def test_distances_of_deberta_are_read_as_the_settings_say(settings: dict[str, Any], tmp_path: Path) -> None:
    theirs = example_model("deberta-v2", tmp_path / "theirs", **settings)
    assert difference(theirs, import_transformers(tmp_path / "theirs", tmp_path / "ours")) < 1e-5


def test_a_gemma_that_reads_both_ways_gives_atoms(tmp_path: Path) -> None:
    theirs = example_model("gemma3_text", tmp_path / "theirs", use_bidirectional_attention=True)
    ours = import_transformers(tmp_path / "theirs", tmp_path / "ours")
    assert difference(theirs.base_model, ours) < 1e-5


def test_what_is_no_longer_its_family_does_not_go_back(tmp_path: Path) -> None:
    example_model("llama", tmp_path / "theirs")
    model = import_transformers(tmp_path / "theirs", tmp_path / "ours")
    assert exit_code("import", "transformers", "--back", tmp_path / "ours", "-o", tmp_path / "again") == 0
    written, given = (load_file(tmp_path / folder / "model.safetensors") for folder in ("again", "theirs"))
    assert written.keys() == given.keys()
    assert all(torch.equal(written[key], given[key]) for key in given)
    wider = peirce.build(model.spec.replace({"model.options.score_cap": 5.0}))
    wider.load_state_dict(model.state_dict())
    wider.save(tmp_path / "wider", assets={ASSET: (tmp_path / "ours/assets" / ASSET).read_bytes()})
    with pytest.raises(ModelFileError, match="no longer the llama"):
        export_transformers(tmp_path / "wider", tmp_path / "not")
    model.save(tmp_path / "plain")
    with pytest.raises(ModelFileError, match="was not imported from transformers"):
        export_transformers(tmp_path / "plain", tmp_path / "not")
    assert not (tmp_path / "not").exists()


class Strange(Bert):
    """A family of a stranger, whose table lacks the norms of layers."""

    model_type = "strange"
    tensors: ClassVar = {name: ours for name, ours in Bert.tensors.items() if "norms" not in ours}


def test_a_layout_of_a_plugin_is_held_to_the_models_parameters(tmp_path: Path) -> None:
    plugin = ModuleType("lab")
    plugin.register_layouts = hookimpl(lambda: {"strange": f"{__name__}:Strange"})  # type: ignore[attr-defined]
    example_model("bert", tmp_path / "theirs")
    change_settings(tmp_path / "theirs", model_type="strange")
    with pytest.raises(
        ModelFileError, match=r"layout of a strange has no tensors for network\.layers\.0\.norms"
    ):
        import_transformers(
            tmp_path / "theirs", tmp_path / "ours", registry=Registry.of(basics, folnet, plugin)
        )
    assert not (tmp_path / "ours").exists()


@frozen(kw_only=True)
class Forgetful(GPT2):
    """A family of a stranger, who forgot a setting."""

    model_type = "gpt2"
    example = ("GPT2LMHeadModel", {**GPT2.example[1], "my_factor": 2.0})


def test_a_layout_that_forgets_a_setting_fails_its_check() -> None:
    plugin = ModuleType("lab")
    plugin.register_layouts = hookimpl(lambda: {"gpt2": f"{__name__}:Forgetful"})  # type: ignore[attr-defined]
    registry = Registry.of(basics, folnet, plugin)
    (entry,) = registry.entries(LAYOUTS)
    with pytest.raises(BrokenError, match="does not read the settings my_factor of GPT2LMHeadModel"):
        layout_agrees.function(Case(entry=entry, registry=registry))


@pytest.mark.parametrize(
    ("ready", "kind", "changes"),
    [
        ("bert-base", "bert", {}),
        ("gpt2-base", "gpt2", {"layer_norm_epsilon": 1e-5}),
        ("llama-base", "llama", {"rms_norm_eps": 1e-5, "tie_word_embeddings": True}),
    ],
)
def test_ready_specs_are_these_models(ready: str, kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = example_model(kind, tmp_path / "theirs", **changes)
    imported = import_transformers(tmp_path / "theirs", tmp_path / "ours")
    sizes = {f"model.dims.{name}": size for name, size in imported.spec.dims.items()}
    sizes |= {
        f"model.input.{name}": getattr(imported.spec.input, name) for name in ("vocabulary", "max_length")
    }
    model = peirce.build(peirce.load_spec(ready).replace(sizes))
    state = imported.state_dict()
    if kind == "bert":
        state = {name.replace(".gelu.", ".bool."): value for name, value in state.items()}
    model.load_state_dict(state)
    assert difference(theirs, model) < 1e-5


def split(theirs: Any, folder: Path) -> None:
    """Save a model in several files."""
    (folder / "model.safetensors").unlink()
    theirs.save_pretrained(folder, max_shard_size="20KB")
    assert (folder / "model.safetensors.index.json").exists()


def test_shards_and_the_tokenizer_come_along(tmp_path: Path) -> None:
    theirs = example_model("gpt2", tmp_path / "theirs")
    split(theirs, tmp_path / "theirs")
    (tmp_path / "theirs/tokenizer.json").write_text("{}")
    assert exit_code("import", "transformers", tmp_path / "theirs", "-o", tmp_path / "ours") == 0
    assert difference(theirs, peirce.load(tmp_path / "ours")) < 1e-5
    assert (tmp_path / "ours/assets/tokenizer.json").read_text() == "{}"


def test_the_first_names_of_norms_and_buffers_are_known(tmp_path: Path) -> None:
    theirs = example_model("bert", tmp_path / "theirs")
    path = tmp_path / "theirs/model.safetensors"
    old = {
        re.sub(
            r"LayerNorm\.(weight|bias)$",
            lambda m: f"LayerNorm.{ {'weight': 'gamma', 'bias': 'beta'}[m[1]] }",
            key,
        ): v
        for key, v in load_file(path).items()
    }
    save_file({**old, "bert.embeddings.position_ids": torch.arange(32)[None]}, path)
    assert difference(theirs, import_transformers(tmp_path / "theirs", tmp_path / "ours")) < 1e-5


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("bert", {"model_type": "bart"}, ["model_type 'bart'", "bert, ", "pretrained"]),
        ("bert", {"hidden_act": "quick_gelu"}, ["hidden_act 'quick_gelu'", "gelu"]),
        ("gpt2", {"quantization_config": {"quant_method": "awq"}}, ["quantised", "dequantize()"]),
        ("bert", {"position_embedding_type": "relative_key"}, ["position_embedding_type", "absolute"]),
        ("bert", {"is_decoder": True}, ["is_decoder", "'pretrained'"]),
        ("deberta-v2", {"conv_kernel_size": 3}, ["conv_kernel_size must be 0, not 3", "'pretrained'"]),
        ("deberta-v2", {"share_att_key": False}, ["share_att_key must be True"]),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, ["scale_attn_by_inverse_layer_idx"]),
        ("gpt2", {"n_layer": 0}, ["n_layer"]),
        ("gpt2", {"n_head": 5}, ["heads", "24"]),
        ("llama", {"rope_parameters": {"rope_type": "axial", "factor": 2.0}}, ["rope_type 'axial'", "llama3"]),
        ("llama", {"rope_parameters": {**LONGROPE, "long_factor": [2.0]}}, ["long_factors has 1 numbers", "2 pairs"]),
        ("phi3", {"rope_parameters": {"type": "su", "short_factor": [2.0]}}, ["longrope", "lacks long_factor"]),
        ("llama", {"rope_parameters": {"rope_type": "linear"}}, ["linear", "lacks factor"]),
        ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, ["llama3", "low_freq_factor"]),
        ("llama", {"rope_scaling": {**YARN, "partial_rotary_factor": 0.5}}, ["yarn", "partial_rotary_factor"]),
        ("bert", {"model_type": ["bert"]}, ["model_type", "bert, ", "gpt2"]),
        ("llama", {"num_key_value_heads": 4}, ["kv_heads = 4", "6 heads"]),
        ("llama", {"num_hidden_layers": 5}, ["missing", "model.layers.4"]),
        ("llama", {"hidden_size": "24"}, ["hidden_size"]),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused_by_name(
    name: str, changes: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    example_model(name, tmp_path / "theirs")
    change_settings(tmp_path / "theirs", **changes)
    with pytest.raises((ModelFileError, peirce.PeirceError)) as caught:
        import_transformers(tmp_path / "theirs", tmp_path / "ours")
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not (tmp_path / "ours").exists()


def test_files_are_held_against_each_other(tmp_path: Path) -> None:
    split(example_model("gpt2", tmp_path / "theirs"), tmp_path / "theirs")
    index = tmp_path / "theirs/model.safetensors.index.json"
    whole = json.loads(index.read_text())

    def refused(weight_map: Any, word: str) -> None:
        index.write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(ModelFileError, match=word):
            import_transformers(tmp_path / "theirs", tmp_path / "ours")

    placed = whole["weight_map"]
    first = next(iter(placed))
    refused(None, "no table")
    refused({**placed, first: "../model-00001-of-00002.safetensors"}, "beside it")
    refused({**placed, first: "pytorch_model.bin"}, r"not a \.safetensors file")
    refused({key: file for key, file in placed.items() if key != first}, "do not agree")
    index.unlink()
    with pytest.raises(ModelFileError, match="save_pretrained"):
        import_transformers(tmp_path / "theirs", tmp_path / "ours")


def change_settings(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
        ("gemma2", {"hidden_act": "relu"}),
        ("modernbert", {"hidden_act": "relu", "hidden_activation": "gelu"}),
        ("mistral", {"quantization_config": None, "head_dim": None, "rope_scaling": None}),
    ],
)
def test_null_and_names_that_a_class_does_not_read(
    kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    cls = type(example_model(kind, tmp_path / "theirs"))
    change_settings(tmp_path / "theirs", **changes)
    theirs = cls.from_pretrained(tmp_path / "theirs", attn_implementation="eager").eval()
    ours = import_transformers(tmp_path / "theirs", tmp_path / "ours")
    assert difference(theirs, ours) < 1e-5


def test_null_says_that_there_is_no_window(tmp_path: Path) -> None:
    example_model("mistral", tmp_path / "theirs")
    change_settings(tmp_path / "theirs", sliding_window=None, max_position_embeddings=8192)
    ours = import_transformers(tmp_path / "theirs", tmp_path / "ours")
    assert [each.use for each in ours.spec.positions] == ["rope"]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["albert", "bert", "roberta"])
def test_the_bias_of_a_head_that_is_not_tied_goes_back(kind: str, tmp_path: Path) -> None:
    theirs = example_model(kind, tmp_path / "theirs", tie_word_embeddings=False)
    ours = import_transformers(tmp_path / "theirs", tmp_path / "ours")
    export_transformers(tmp_path / "ours", tmp_path / "again")
    again = type(theirs).from_pretrained(tmp_path / "again").double().eval()
    assert torch.equal(again.get_output_embeddings().bias, theirs.get_output_embeddings().bias)
    assert difference(again, ours) < 1e-5


def test_a_modernbert_that_classifies_gives_atoms(tmp_path: Path) -> None:
    config = example_model("modernbert", tmp_path / "theirs").config
    theirs = transformers.ModernBertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    ours = import_transformers(tmp_path / "theirs", tmp_path / "ours")
    assert difference(theirs.model, ours) < 1e-5


def test_an_albert_whose_map_keeps_the_width_is_refused(tmp_path: Path) -> None:
    example_model("albert", tmp_path / "theirs", embedding_size=24)
    with pytest.raises(ModelFileError, match="embedding_size and hidden_size are both 24"):
        import_transformers(tmp_path / "theirs", tmp_path / "ours")


def test_a_deberta_with_a_map_of_its_embeddings_is_refused(tmp_path: Path) -> None:
    example_model("deberta-v2", tmp_path / "theirs", embedding_size=16)
    with pytest.raises(ModelFileError, match="embedding_size is 16 and hidden_size 24"):
        import_transformers(tmp_path / "theirs", tmp_path / "ours")


def test_count_padding_is_refused_on_the_way_back(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--back writes the model as it was imported"):
        cli.transformers(tmp_path / "ours", tmp_path / "theirs", back=True, count_padding=True)


def draw_settings(kind: str, draw: random.Random) -> dict[str, Any]:
    """Settings that the layout takes, as one may find them in a file: older names, other numbers, null."""
    heads = draw.choice([2, 3])
    width, acts = 8 * heads, ["gelu", "gelu_new", "relu", "silu", "swish", "gelu_fast", "gelu_python"]
    rate, std = draw.choice([0, 0.1]), draw.choice([0.2, 0.3])
    shared = {"vocab_size": 50, "initializer_range": std, "pad_token_id": draw.choice([None, 0, 3])}
    tied = {"tie_word_embeddings": draw.choice([True, False])}
    if kind == "gpt2":
        sizes = {"n_embd": width, "n_layer": draw.choice([1, 2]), "n_head": heads, "n_positions": 16}
        more = {
            "n_inner": draw.choice([None, 20]), "activation_function": draw.choice(acts), "resid_pdrop": rate,
            "layer_norm_epsilon": draw.choice([1e-5, 1e-3]), "reorder_and_upcast_attn": draw.choice([True, False]),
        }  # fmt: skip
        return {**shared, **tied, **sizes, **more}
    sizes = {
        "hidden_size": width, "intermediate_size": 20, "num_hidden_layers": draw.choice([1, 2]),
        "num_attention_heads": heads, "max_position_embeddings": 16, "hidden_act": draw.choice(acts),
    }  # fmt: skip
    if kind == "bert":
        more = {"layer_norm_eps": draw.choice([1e-12, 1e-2]), "type_vocab_size": draw.choice([1, 2, 3])}
        return {**shared, **tied, **sizes, **more, "hidden_dropout_prob": rate}
    scaled = draw.choice(
        [{}, {"type": "linear", "factor": 2}, {**YARN, "finetuned": True}, *SCALED[:3], *SCALED[4:]]
    )
    ropes: dict[str, Any] = {draw.choice(["rope_scaling", "rope_parameters"]): dict(scaled)} if scaled else {}
    if "rope_theta" not in scaled:
        ropes["rope_theta"] = draw.choice([1000, 10000.0])
    more = {
        "num_key_value_heads": draw.choice([None, 1, heads]), "head_dim": draw.choice([None, 6, 8]),
        "attention_bias": draw.choice([True, False]), "mlp_bias": draw.choice([True, False]), "attention_dropout": rate,
        "rms_norm_eps": draw.choice([1e-6, 1e-2]), "pretraining_tp": draw.choice([1, 2]), **ropes,
    }  # fmt: skip
    return {**shared, **tied, **sizes, **more}


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize("seed", often(range(24), range(4)))
def test_settings_are_read_as_transformers_reads_them(kind: str, seed: int, tmp_path: Path) -> None:
    """Random configurations with random weights; what they leave out has the default of the class."""
    settings = draw_settings(kind, random.Random(f"{kind} {seed}"))
    name = {"bert": "BertForMaskedLM", "gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM"}[kind]
    cls = getattr(transformers, name)
    (tmp_path / "config.json").write_text(json.dumps({**settings, "model_type": kind}))
    torch.manual_seed(seed)
    theirs = cls(cls.config_class.from_pretrained(tmp_path)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    theirs.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**settings, "model_type": kind}))
    ours = import_transformers(tmp_path, tmp_path / "ours")
    assert difference(theirs.double(), ours.double()) < 1e-5  # in float32 some settings round by 2e-5

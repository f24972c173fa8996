"""Models of `transformers`: caches, experts, checkpoints as people have them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

import peirce
from peirce.compose import summarise
from peirce.errors import ExportError, InputError, ModelFileError, PlanError
from peirce.kernels import Rotation
from peirce.model import Model
from peirce.parts import RotaryPosition, Tokens
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_hf import from_peirce
from peirce_hf.checkpoints.importing import import_transformers

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:transformers")
SIZES = {
    "vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 3,
    "intermediate_size": 20, "max_position_embeddings": 32, "initializer_range": 0.3, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
SWITCH = 9
"""The longest text that is turned by the short factors."""
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": SWITCH,
    "short_factor": [1.0] * 4, "long_factor": [1.5, 2.0, 3.0, 4.0],
}  # fmt: skip


def saved(folder: Path, kind: str = "llama", **settings: Any) -> Any:
    """A small decoder with random weights, in a folder."""
    torch.manual_seed(3)
    own = ("num_key_value_heads", "intermediate_size") if kind == "gpt2" else ()
    sizes = {name: value for name, value in SIZES.items() if name not in own}
    config = AutoConfig.for_model(kind, **sizes | settings)
    model = AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(folder)
    return model


def decoder(folder: Path) -> Spec:
    options = {"source": str(folder), "original_heads": ["causal_lm"]}
    return Spec(
        name="small",
        architecture="pretrained_decoder",
        dims={},
        options=options,
        heads=[{"use": "causal_lm"}],
    ).replace({"model.scope.kind": "causal"})


def written(model: Model, ids: Tensor, mask: Tensor, **settings: Any) -> list[list[int]]:
    given = {"input_ids": ids, "attention_mask": mask.bool()}
    return [list(text.tokens) for text in model.generate(given, max_new=10, **settings)]


def told(model: Any, ids: Tensor, mask: Tensor, **settings: Any) -> list[list[int]]:
    """The same ten tokens of a model of transformers."""
    found = model.generate(
        input_ids=ids, attention_mask=mask, max_new_tokens=10, do_sample=False, eos_token_id=None, pad_token_id=0,
        **settings,
    )  # fmt: skip
    rows: list[list[int]] = found[:, ids.shape[1] :].tolist()
    return rows


def prompts(count: int, length: int) -> tuple[Tensor, Tensor]:
    """Random ones; the second is shorter and padded in front, as transformers generates."""
    ids = torch.randint(3, 40, (count, length), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(ids)
    mask[1, :2] = 0
    return ids.where(mask.bool(), 0), mask


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("phi3", {"rope_parameters": LONGROPE, "original_max_position_embeddings": SWITCH}),
        ("llama", {"rope_parameters": LONGROPE}),
        (
            "gemma3_text",
            {
                "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"],
                "rope_parameters": {
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}, "full_attention": LONGROPE,
                },
            },
        ),
    ],
)  # fmt: skip
@pytest.mark.report(
    "https://github.com/huggingface/transformers/pull/33129",
    "texts of Phi-3 were garbled past 4,096 tokens: keys turned by the short factors stayed in the cache",
    "the text is read again where its keys change, and writes what it writes without a cache",
)
def test_keys_that_depend_on_the_length(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    theirs = saved(tmp_path, kind, **settings)
    ids, mask = prompts(3, 6)
    wanted = told(theirs, ids, mask, use_cache=False)
    imported = import_transformers(tmp_path, tmp_path / "ours").eval()
    for model in (peirce.build(decoder(tmp_path)).eval(), imported):
        assert written(model, ids, mask) == written(model, ids, mask, cache=False) == wanted
        ours = from_peirce(model)
        for beams in (1, 2):
            assert told(ours, ids, mask, num_beams=beams) == written(model, ids, mask, beams=beams)
        _, kept = model.advance({"input_ids": ids[:1]}, {})
        with pytest.raises(InputError, match=rf"of 6 tokens .* a text of {SWITCH + 1}"):
            model.advance({"input_ids": ids[:1, : SWITCH - 5]}, kept)


@pytest.mark.report(
    "https://github.com/microsoft/onnxruntime-genai/pull/1161",
    "an exported Phi-3 must compute its keys and values anew where the factors of its positions switch",
    "no such model is exported to generate; one whose texts end before the switch is",
)
def test_keys_that_depend_on_the_length_are_not_exported(tmp_path: Path) -> None:
    saved(tmp_path, "phi3", rope_parameters=LONGROPE, original_max_position_embeddings=SWITCH)
    for spec in (decoder(tmp_path), import_transformers(tmp_path, tmp_path / "ours").spec):
        with pytest.raises(ExportError, match=rf"positions depend on the length.*max_length to {SWITCH}, or"):
            peirce.build(spec).exportable(role="step")
        short = peirce.build(spec.replace({"model.input.max_length": SWITCH}))
        assert short.exportable(role="step").signature.outputs


@pytest.mark.report(
    "https://github.com/huggingface/transformers/pull/33129",
    "texts of Phi-3 were garbled past 4,096 tokens: keys turned by the short factors stayed in the cache",
    "dynamic scaling begins past the longest text of the model, so that its keys hold and it is exported to generate",
)
def test_dynamic_scaling_changes_nothing_in_texts_that_a_model_takes(tmp_path: Path) -> None:
    scaling = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    theirs = saved(tmp_path, rope_parameters=scaling, max_position_embeddings=16)
    model = peirce.build(decoder(tmp_path)).eval()
    ids, mask = prompts(2, 6)
    wanted = told(theirs, ids, mask, use_cache=False)
    assert written(model, ids, mask) == written(model, ids, mask, cache=False) == wanted
    with pytest.raises(InputError, match="leaves room for 11 tokens"):
        model.generate({"input_ids": ids}, max_new=12)
    step = model.exportable(role="step")
    torch.export.export(step, step.example_inputs(), dynamic_shapes=step.dynamic_shapes())


SPREAD = {"model.regularisation.init_std": 0.4}


class Shrinking(RotaryPosition):
    """Angles that shrink as the text grows."""

    name = "shrinking"
    depends_on_length = True

    def __init__(self, options: Any, dims: Any) -> None:
        super().__init__(options, dims)
        self.layers, self.pairs = dims.layers, dims.head_size // 2

    def rotations(self, tokens: Tokens) -> list[Rotation]:
        """The same one for every layer."""
        share = tokens.rows(tokens.index).unsqueeze(2) / (tokens.index.max() + 1)
        angles = 3 * share * torch.arange(1, self.pairs + 1)
        return [Rotation(angles.cos(), angles.sin(), "halves")] * self.layers


@pytest.mark.report(
    "https://github.com/ggml-org/llama.cpp/pull/24875",
    "a position's factor was chosen by the size of the cache; chosen by the text, it leaves turned keys behind",
    "a position that says that it depends on the length is generated without a cache",
)
def test_a_position_of_one_s_own_that_depends_on_the_length(registry: Registry) -> None:
    class Plugin:
        @peirce.hookimpl
        def register_positions(self) -> list[type[Shrinking]]:
            return [Shrinking]

    parts = registry.completed(Plugin())
    spec = Spec(
        name="small", architecture="transformer", positions=[{"use": "shrinking"}], heads=[{"use": "causal_lm"}],
        dims={"layers": 2, "unary": 16, "heads": 2, "feedforward": 16},
    )  # fmt: skip
    spec = spec.replace({"model.scope.kind": "causal", "model.input.vocabulary": 40, **SPREAD})
    model = peirce.build(spec, registry=parts).eval()
    ids, mask = prompts(2, 5)
    assert written(model, ids, mask) == written(model, ids, mask, cache=False)
    with pytest.raises(ExportError, match="positions depend on the length"):
        model.exportable(role="prefill")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("mixtral", {"num_local_experts": 2, "num_experts_per_tok": 1}),
        (
            "qwen3_moe",
            {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8},
        ),
        ("gpt_oss", {"num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 8}),
        ("jetmoe", {"num_local_experts": 2, "num_experts_per_tok": 1, "kv_channels": 8}),  # asks for values
    ],
)
@pytest.mark.report(
    "https://github.com/pytorch/ao/pull/2425",
    "the product of grouped rows refuses float32 where shapes alone are computed, and a run stopped there",
    "decoders with experts are taken, equal to transformers; their shapes need no such product",
)
def test_decoders_with_experts(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    theirs = saved(tmp_path, kind, **settings)
    model = peirce.build(decoder(tmp_path)).eval()
    ids, mask = prompts(2, 6)
    with torch.no_grad():
        wanted = theirs(input_ids=ids[:1]).logits
        torch.testing.assert_close(model(input_ids=ids[:1])["causal_lm_logits"], wanted, atol=1e-5, rtol=0)
    assert written(model, ids, mask) == written(model, ids, mask, cache=False)
    if kind != "jetmoe":
        assert summarise(decoder(tmp_path), length=4).flops > 0


def changed(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Path:
    """The folder with other tensors in its file."""
    path = folder / "model.safetensors"
    tensors = {key: value.clone() for key, value in change(load_file(path)).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    return folder


def assert_imported(folder: Path, theirs: Any) -> None:
    ids = torch.randint(40, (2, 7), generator=torch.Generator().manual_seed(1))
    found = import_transformers(folder, folder / "ours").float().eval()(input_ids=ids)["causal_lm_logits"]
    torch.testing.assert_close(found, theirs.float()(input_ids=ids).logits, atol=2e-5, rtol=0)


def assert_taken(folder: Path, theirs: Any, spec: Spec | None = None) -> None:
    ids = torch.randint(40, (2, 7), generator=torch.Generator().manual_seed(1))
    found = peirce.build(spec or decoder(folder)).eval()(input_ids=ids)["causal_lm_logits"]
    torch.testing.assert_close(found, theirs(input_ids=ids).logits, atol=1e-5, rtol=0)


WORDS, HEAD = {"llama": "model.embed_tokens.weight", "gpt2": "transformer.wte.weight"}, "lm_head.weight"


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.report(
    "https://github.com/huggingface/transformers/issues/38870",
    "of tied weights a file may have the head's name alone, and the words' were then taken for missing",
    "a tied tensor is read from either name",
)
def test_a_tied_tensor_under_the_head_s_name_alone(kind: str, tmp_path: Path) -> None:
    theirs = saved(tmp_path, kind, tie_word_embeddings=True)
    rename = {WORDS[kind]: HEAD}
    changed(tmp_path, lambda tensors: {rename.get(key, key): value for key, value in tensors.items()})
    assert_imported(tmp_path, theirs)
    assert_taken(tmp_path, theirs)


@pytest.mark.report(
    "https://github.com/vllm-project/vllm/pull/6758",
    "after tuning, files had both names of tied weights, and the second was refused",
    "equal ones are one; two that differ are not tied, as in transformers, and it is said",
)
def test_a_tied_tensor_under_both_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved(tmp_path, tie_word_embeddings=True)
    words = WORDS["llama"]
    changed(tmp_path, lambda tensors: {**tensors, HEAD: tensors[words]})
    assert_imported(tmp_path, AutoModelForCausalLM.from_pretrained(tmp_path).eval())
    assert "differs" not in caplog.text
    changed(tmp_path, lambda tensors: {**tensors, HEAD: tensors[words].flip(0)})
    assert_imported(tmp_path, AutoModelForCausalLM.from_pretrained(tmp_path).eval())
    assert f"{HEAD} differs from {words}, so they are not tied" in caplog.text
    with pytest.raises(PlanError, match="the configuration ties them; add config"):
        peirce.build(decoder(tmp_path))
    untied = decoder(tmp_path).replace({"model.options.config.tie_word_embeddings": False})
    assert_taken(tmp_path, AutoModelForCausalLM.from_pretrained(tmp_path).eval(), untied)


@pytest.mark.report(
    "https://github.com/QwenLM/Qwen3-VL-Embedding/issues/89",
    "a model that ties nothing came without lm_head.weight, and its loading ended in a missing parameter",
    "it gives atoms, without a head, and that is said",
)
def test_an_untied_model_without_its_head(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved(tmp_path)
    changed(tmp_path, lambda tensors: {key: value for key, value in tensors.items() if key != HEAD})
    assert not import_transformers(tmp_path, tmp_path / "ours").heads
    assert "no tensors of a head" in caplog.text


@pytest.mark.report(
    "https://github.com/deepseek-ai/DeepSeek-V3/issues/1002",
    "norms in float32 beside weights in bfloat16 were refused as mismatched dtypes",
    "they are taken in the dtype that holds both, and what was cast is said",
)
def test_norms_in_another_dtype(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved(tmp_path)
    changed(tmp_path, lambda tensors: {k: v if "norm" in k else v.bfloat16() for k, v in tensors.items()})
    assert_imported(tmp_path, AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval())
    assert "cast to float32: lm_head.weight from bfloat16" in caplog.text


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("prefix", ["_orig_mod.", "module._orig_mod.net.", "network.", "model."])
@pytest.mark.report(
    "https://github.com/pytorch/pytorch/issues/101107",
    "a state dict saved through torch.compile has _orig_mod. before each name, and fits no model",
    "names of modules around a model are taken off, those of a model's own wrapper as well",
)
def test_names_of_wrappers(prefix: str, kind: str, tmp_path: Path) -> None:
    theirs = saved(tmp_path, kind)
    changed(tmp_path, lambda tensors: {prefix + key: value for key, value in tensors.items()})
    assert_imported(tmp_path, theirs)


@pytest.mark.report(
    "https://github.com/Lightning-AI/pytorch-lightning/issues/20233",
    "a part of a model that was compiled has _orig_mod. within its names",
    "names of wrappers are taken off wherever they stand, also in a torch file with other keys",
)
def test_a_torch_file_of_a_trainer(tmp_path: Path) -> None:
    theirs = saved(tmp_path, "gpt2", n_inner=20)
    (tmp_path / "model.safetensors").unlink()
    state = {
        f"model.{key}".replace("h.1.", "h.1._orig_mod."): value for key, value in theirs.state_dict().items()
    }
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "pytorch_model.bin")
    assert_imported(tmp_path, theirs)


@pytest.mark.report(
    "https://github.com/facebookresearch/DPR/issues/165",
    "files of older versions have tensors that a newer class does not read, such as embeddings.position_ids",
    "what the class does not read is not read, and is said; settings likewise",
)
def test_what_the_class_does_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    theirs = saved(tmp_path, "gpt2")
    buffers = {"transformer.h.0.attn.bias": torch.ones(1, 1, 4, 4), "position_ids": torch.arange(4)}
    changed(tmp_path, lambda tensors: tensors | buffers)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sliding_window": 2}))
    assert_imported(tmp_path, theirs)
    assert "does not read the tensors position_ids, transformer.h.0.attn.bias" in caplog.text
    assert "does not read the settings sliding_window" in caplog.text


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.report(
    "https://github.com/ggml-org/llama.cpp/issues/24820",
    "a converter read the scaling of positions under one of its two names, and dropped it in silence otherwise",
    "each setting is read as the class reads it; random configurations are held against transformers",
)
def test_a_scaling_of_positions_under_either_name(key: str, tmp_path: Path) -> None:
    scaling = {"type": "linear", "factor": 4}
    theirs = saved(tmp_path, rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0})
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text())
    del settings["rope_parameters"]
    path.write_text(json.dumps(settings | {key: scaling, "rope_theta": 500}))
    assert_imported(tmp_path, theirs)


@pytest.mark.report(
    "https://github.com/meta-llama/llama3/issues/299",
    "a scaling that a version did not know was refused by a message about a table of two fields",
    "a setting that asks for another network is refused by its name and its value",
)
def test_a_refusal_says_what_it_is_about(tmp_path: Path) -> None:
    saved(tmp_path)
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text())
    for changes, said in (
        ({"rope_parameters": LONGROPE | {"rope_type": "axial"}}, "rope_type 'axial'"),
        ({"quantization_config": {"quant_method": "gptq"}}, r"quantised.*dequantize\(\)"),
        ({"hidden_act": "quick_gelu"}, "hidden_act 'quick_gelu'"),
    ):
        path.write_text(json.dumps(settings | changes))
        with pytest.raises(ModelFileError, match=said):
            import_transformers(tmp_path, tmp_path / "ours")

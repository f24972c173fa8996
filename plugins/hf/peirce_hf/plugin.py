"""The plug-in of `peirce_hf`. Its architectures import `transformers` when they are built, and are there without it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.parts import Architecture


@hookimpl
def register_architectures() -> list[type[Architecture]]:
    """The models of `transformers`."""
    from peirce_hf.pretrained.decoder import PretrainedDecoder
    from peirce_hf.pretrained.encoder import Pretrained
    from peirce_hf.pretrained.encoder_decoder import PretrainedEncoderDecoder

    return [Pretrained, PretrainedDecoder, PretrainedEncoderDecoder]


@hookimpl
def register_layouts() -> dict[str, str]:
    """Families of published transformers that become specs."""
    modules = {
        "bert": {"bert": "Bert", "distilbert": "DistilBert"},
        "deberta": {"deberta-v2": "DebertaV2"},
        "electra": {"albert": "Albert", "electra": "Electra"},
        "gemma": {"gemma2": "Gemma2", "gemma3_text": "Gemma3"},
        "gpt2": {"gpt2": "GPT2"},
        "gpt_neox": {"gpt_neox": "GPTNeoX"},
        "llama": {"llama": "Llama"},
        "llama_family": {
            "mistral": "Mistral", "mixtral": "Mixtral", "olmo2": "Olmo2", "phi3": "Phi3", "qwen2": "Qwen2",
            "qwen3": "Qwen3", "smollm3": "SmolLM3",
        },
        "modernbert": {"modernbert": "ModernBert"},
        "roberta": {"mpnet": "MPNet", "roberta": "Roberta", "xlm-roberta": "XLMRoberta"},
        "t5": {"t5": "T5Encoder"},
    }  # fmt: skip
    return {
        model_type: f"peirce_hf.layouts.{module}:{name}"
        for module, names in modules.items()
        for model_type, name in names.items()
    }


@hookimpl
def register_specs() -> list[Path]:
    """RoBERTa, BART and MiniLM, each also with logical embeddings."""
    return [Path(__file__).with_name("specs")]


@hookimpl
def register_commands() -> dict[str, str]:
    """Models of published checkpoints, and models for the hub."""
    return {
        "import.transformers": "Import a model that transformers saved, and write it back.",
        "push": "Upload a saved model to Hugging Face's hub.",
    }

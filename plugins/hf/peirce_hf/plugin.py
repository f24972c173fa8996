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
def register_specs() -> list[Path]:
    """RoBERTa, BART and MiniLM, each also with logical embeddings."""
    return [Path(__file__).with_name("specs")]


@hookimpl
def register_commands() -> dict[str, str]:
    """Models of published checkpoints, and models for the hub."""
    return {
        "import.transformers": "Import a BERT, a GPT-2 or a Llama that transformers saved.",
        "push": "Upload a saved model to Hugging Face's hub.",
    }

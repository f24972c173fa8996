"""An encoder of transformers, as small as can be."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch


def write_encoder(folder: Path, words: Iterable[str], width: int, longest: int) -> str:
    """Write a BERT of one layer with random weights and a vocabulary of some words, as transformers saves it."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    every = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(every) + "\n", encoding="utf-8")
    torch.manual_seed(0)
    sizes = {"hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = BertConfig(vocab_size=len(every), max_position_embeddings=longest, **sizes)
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny BERT with a vocabulary of a few words."""
    words = ["the", "a", "dog", "cat", "runs", "sits", "."]
    return write_encoder(tmp_path_factory.mktemp("encoder"), words, width=6, longest=32)

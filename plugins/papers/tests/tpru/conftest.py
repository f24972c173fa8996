"""What tests of sentences share: an encoder of transformers, as small as can be."""

from __future__ import annotations

import pytest
from tiny_encoders import write_encoder


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny BERT with a vocabulary of a few words."""
    words = ["the", "a", "dog", "cat", "runs", "sits", "."]
    return write_encoder(tmp_path_factory.mktemp("encoder"), words, width=6, longest=32)

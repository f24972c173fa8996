"""A small tokenizer, files of generated text, and a task on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_texts import blocks, documents

from peirce_text.pretraining.task import Pretraining, PretrainingOptions
from peirce_text.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two shards to train on, one to evaluate on, and a tokenizer."""
    folder = tmp_path_factory.mktemp("texts")
    made = documents(120)
    (folder / "train-0.txt").write_text(blocks(made[:50]))
    (folder / "train-1.txt").write_text(blocks(made[50:100]))
    (folder / "valid.txt").write_text(blocks(made[100:]))
    (folder / "tokenizer.json").write_bytes(Tokenizer.train(blocks(made).splitlines(), 140).content)
    return folder


@pytest.fixture(scope="session")
def task(texts: Path) -> Callable[..., Pretraining]:
    def make(**options: Any) -> Pretraining:
        given = {"tokenizer": str(texts), "length": 32, "batch_size": 8}
        given["files"] = (str(texts / "train-0.txt"), str(texts / "train-1.txt"))
        given["valid_files"] = (str(texts / "valid.txt"),)
        return Pretraining(PretrainingOptions(**{**given, **options}))

    return make

"""A tokenizer and a spec with its vocabulary, and the `Auto` classes told of Peirce's models."""

from __future__ import annotations

import pytest
import transformers
from small_specs import FOLNET

from peirce.spec import Spec
from peirce_hf import register
from peirce_text import Tokenizer

TEXTS = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog", "the mat and the log"]


@pytest.fixture(scope="session", autouse=True)
def registered() -> None:
    register()
    transformers.utils.logging.disable_progress_bar()


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS * 5, vocabulary=60)


@pytest.fixture(scope="session")
def spec(tokenizer: Tokenizer) -> Spec:
    return FOLNET.replace(
        {"model.input.vocabulary": tokenizer.vocabulary, "model.regularisation.init_std": 0.1}
    )

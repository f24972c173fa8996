"""A small encoder that upgrades begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

import peirce
from peirce.spec import InputSpec
from peirce_papers.upgrade.kinship_words import ASKED, KINDS
from peirce_papers.upgrade.kinship_words import NAMES as PEOPLE
from peirce_papers.upgrade.rules import ATTRIBUTES, NAMES, PLAIN
from peirce_text.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small encoder with its tokenizer, which knows every word of the tasks."""
    folder = tmp_path_factory.mktemp("base")
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PLAIN)
    words = [*special, *(word for part in (*ATTRIBUTES, *NAMES) for word in part)]
    words += [word for names in (ASKED, *PEOPLE, KINDS) for word in names.split() if word not in words]
    (folder / "vocab.txt").write_text("\n".join(words))
    content = Tokenizer.load(folder / "vocab.txt").saved_content(128, "longest")
    spec = peirce.Spec(
        name="base", architecture="transformer", dims={"layers": 2, "unary": 16, "heads": 2}, options={"pooler": True},
        input=InputSpec(vocabulary=len(words), max_length=128, token_types=2), positions=["absolute"],
    )  # fmt: skip
    peirce.build(spec).save(folder / "model", assets={"tokenizer.json": content})
    return folder / "model"

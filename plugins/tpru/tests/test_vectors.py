"""Word vectors of files and of encoders, and what is kept of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from peirce.compose import build
from peirce.errors import TaskError
from peirce.spec import Spec
from peirce_tpru.vectors import CLS, PAD, SEP, WORD, EncoderVectors, FileVectors, rows_of, vectors_of

GLOVE = "the 1 0\nDog 0 2\n! 3 3\nn't -1 -1\n"


def test_words_of_a_file_are_found_as_they_stand_or_lower_or_divided(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text(GLOVE, encoding="utf-8")
    vectors = FileVectors(str(path), 6)
    (found,) = vectors.of(["The Dog! n't dog"])
    assert found.tolist() == [[0, 0], [1, 0], [0, 2], [3, 3], [-1, -1], [0, 0]]  # the last token is cut
    assert vectors.width == 2
    (tmp_path / "fast.vec").write_text("4 2\n" + GLOVE, encoding="utf-8")
    assert FileVectors(str(tmp_path / "fast.vec"), 6).of(["the"])[0].tolist() == [[0, 0], [1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("the 1 0\ndog 1\n", r"line 2: it has 1 fields"),
        ("the 1 0\ndog nan 1\n", "line 2: .* finite numbers"),
        ("\n", "first line"),
        ("a b\n", "line 1"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "glove.txt").write_text(content, encoding="utf-8")
    with pytest.raises(TaskError, match=said):
        FileVectors(str(tmp_path / "glove.txt"), 6).of(["dog"])
    with pytest.raises(TaskError, match=r"cannot be loaded: .*; give a text file of vectors"):
        vectors_of(str(tmp_path / "nothing"), length=6)


def test_an_encoders_vectors_are_its_last_states_and_kept_on_disk(encoder: str, tmp_path: Path) -> None:
    texts = ["the dog runs .", "a cat sits", "the dog runs ."]
    fresh = EncoderVectors(encoder, 16, None, "cpu")
    computed = fresh.of(texts)
    assert [own.shape for own in computed] == [(6, 6), (5, 6), (6, 6)]  # [CLS] and [SEP] among them
    kept = EncoderVectors(encoder, 16, tmp_path, "cpu")
    kept.prepare(texts)
    (file,) = (tmp_path / kept.identity).iterdir()
    again = EncoderVectors(encoder, 16, tmp_path, "cpu")
    again._encoder = None  # nothing is left to compute
    for one, other in zip(computed, again.of(texts), strict=True):
        assert np.allclose(one, other, atol=2e-3)
    file.write_bytes(b"no database" * 99)
    with pytest.raises(TaskError, match=r"vectors.sqlite cannot keep vectors: .*; remove it"):
        EncoderVectors(encoder, 16, tmp_path, "cpu").of(texts)


def test_a_pair_shares_one_row_and_its_second_text_has_no_cls(encoder: str) -> None:
    vectors = EncoderVectors(encoder, 16, None, "cpu")
    batch = rows_of(vectors, [["the dog runs", "a cat"], ["a cat", "the"]])
    assert batch["input_ids"].tolist() == [
        [CLS, WORD, WORD, WORD, SEP, WORD, WORD, SEP],
        [CLS, WORD, WORD, SEP, WORD, SEP, PAD, PAD],
    ]
    assert batch["token_type_ids"].tolist() == [[0] * 5 + [1] * 3, [0] * 4 + [1] * 2 + [0] * 2]
    assert batch["attention_mask"].sum(1).tolist() == [8, 6]
    wanted = np.concatenate([vectors.of(["a cat"])[0], vectors.of(["the"])[0][1:]])
    assert np.allclose(batch["word_vectors"][1, :6], wanted, atol=1e-6)
    assert batch["word_vectors"][1, 6:].eq(0).all()


@pytest.mark.parametrize("size", [8, 5])
def test_vectors_are_added_and_mapped_where_widths_differ(size: int) -> None:
    text = f"""
    format = 1
    [model]
    name = "reader"
    architecture = "recurrent"
    dims = {{ layers = 1, unary = 8 }}
    input = {{ vocabulary = 5 }}
    augmenters = [{{ use = "word_vectors", size = {size} }}]
    """
    model = build(Spec.from_toml(text), seed=0)
    network = model.network.input
    vectors, ids = torch.randn(2, 3, size), torch.tensor([[2, 1, 3], [2, 1, 3]])
    tokens = network.tokens({"input_ids": ids, "word_vectors": vectors})
    mapped = vectors if size == 8 else vectors @ network.augmenters[0].projection.weight.T
    wanted = network.embedding(ids) + mapped + network.token_type.weight[0]
    torch.testing.assert_close(network.unary(tokens), wanted)

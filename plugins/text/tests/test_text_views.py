"""Texts as `peirce look` shows them: one or a pair, in tokens of a tokenizer or as ids, and what a decoder wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_specs import ENCODER_DECODER, FOLNET

from peirce.compose import build
from peirce.errors import TaskError
from peirce.parts import NoOptions
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_show import View, observe
from peirce_text import Texts, Tokenizer

TOKENIZER = Tokenizer.train(["a cat sat on a mat"] * 2, vocabulary=40)
APART = FOLNET.replace({"model.input.token_types": 0})
PAIRS = FOLNET.replace({"model.dims.layers": 1})


@pytest.fixture
def view_of(tmp_path: Path, registry: Registry) -> Any:
    def look(spec: Spec, *texts: str, assets: bool = True) -> View:
        model = build(spec, registry=registry).eval()
        files = {"tokenizer.json": TOKENIZER.content} if assets else {}
        model.save(tmp_path / "model", files)
        assert Texts.shows(model, files)
        return Texts(NoOptions(), tmp_path / "model", model).view(texts, observe)

    return look


def test_a_text_and_a_pair_are_read_in_tokens(view_of: Any) -> None:
    view = view_of(PAIRS, "a cat", "sat")
    assert (view.name, view.text, view.notes) == ("small-folnet", "a cat\nsat", ())
    tokens = ("[CLS]", "a", "cat", "[SEP]", "sat", "[SEP]")
    assert {each.rows for each in view.matrices} == {tokens}
    assert view_of(PAIRS, "a Zebra, a cat").notes == ("the tokenizer does not know 'Zebra', ','",)


def test_ids_are_read_where_there_is_no_tokenizer(view_of: Any, tmp_path: Path, registry: Registry) -> None:
    view = view_of(FOLNET, "5 17 3", assets=False)
    model = build(FOLNET, registry=registry).eval()
    expected = observe(model, {"input_ids": np.array([[5, 17, 3]])}, ("5", "17", "3"))
    assert all(np.array_equal(a.values, b.values) for a, b in zip(view.matrices, expected, strict=True))


def test_a_decoder_has_read_one_text_and_written_another(view_of: Any) -> None:
    rows = {each.rows for each in view_of(ENCODER_DECODER, "a cat", "sat").matrices}
    assert rows >= {("[CLS]", "a", "cat", "[SEP]"), ("[CLS]", "sat", "[SEP]")}


@pytest.mark.parametrize(
    ("spec", "texts", "said"),
    [
        (PAIRS, ["a", "cat", "sat"], "3 texts are given; give one, or two of a pair"),
        (APART, ["a", "cat"], "has no token types to tell two texts apart; give one text"),
        (ENCODER_DECODER, ["a"], "has a decoder; give a second text, which it has written"),
        (PAIRS, [" "], "the text is empty; give one with words"),
        (PAIRS, ["cat " * 31], "the text has 33 tokens, and the model reads at most 32; give a part of it"),
    ],
)
def test_what_a_model_cannot_read_is_refused(spec: Spec, texts: list[str], said: str, view_of: Any) -> None:
    with pytest.raises(TaskError, match=said):
        view_of(spec, *texts)


def test_what_is_no_id_is_refused(view_of: Any) -> None:
    with pytest.raises(
        TaskError, match=r"has no tokenizer, so its texts are token ids .*; 'rain' is not one"
    ):
        view_of(FOLNET, "5 rain", assets=False)


def test_predictions_stand_beside_what_is_computed(view_of: Any, tmp_path: Path, registry: Registry) -> None:
    assert view_of(FOLNET, "5 17", assets=False).answers == ()
    heads = {"model.heads": [{"use": "classification", "classes": 2}]}
    model = build(FOLNET.replace(heads), registry=registry).eval()
    labels = b'{"classes": ["<good>", "bad"]}'
    model.save(tmp_path / "classes", {"tokenizer.json": TOKENIZER.content, "labels.json": labels})
    view = Texts(NoOptions(), tmp_path / "classes", model).view(["a cat"], observe)
    first, second = view.answers
    assert {first["class"], second["class"]} == {"<good>", "bad"}
    assert first["probability"] >= second["probability"]
    assert first["probability"] + second["probability"] == pytest.approx(1)

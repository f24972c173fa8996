"""Questions to models of texts: which models take them, how classes are named, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import e
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_models import CLASSES, CLASSIFIER, WRITER, text_model

from peirce.errors import InputError, ModelFileError
from peirce.model import Generated
from peirce.parts import Signature, TensorSpec
from peirce.registry import Registry
from peirce_text.serving import ClassificationPipeline, WritingPipeline

IDS = TensorSpec(name="input_ids", dtype="int64", dims=("batch", "length"), high=60)
MASK = TensorSpec(name="attention_mask", dtype="bool", dims=IDS.dims, required=False, masks="length")
SCORES = TensorSpec(name="weather_logits", dtype="float", dims=("batch", 3))


class Counts:
    """A model that scores a text by its length, and writes what it is told to."""

    signature, providers = Signature([IDS, MASK], [SCORES]), ("numpy",)

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        assert set(inputs) == {"input_ids", "attention_mask"}
        count = inputs["attention_mask"].sum()
        return {"weather_logits": np.array([[0.5, count, -count]], np.float32)}

    def generate(self, inputs: Mapping[str, Any], **settings: Any) -> tuple[Generated, ...]:
        on_tokens, tokens = settings["on_tokens"], (7, 9, settings["eos_id"])
        for token in tokens:
            on_tokens(np.array([token]))
        return (Generated(tokens=tokens, score=0.0),)


class Compares(Counts):
    """A model that scores two texts by the lengths of both and of the second."""

    types = TensorSpec(name="token_type_ids", dtype="int64", dims=("batch", "length"), high=2)
    scores = TensorSpec(name="matching_logits", dtype="float", dims=("batch", 3))
    signature = Signature([IDS, MASK, types], [scores])

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        whole, second = inputs["attention_mask"].sum(), inputs["token_type_ids"].sum()
        return {"matching_logits": np.array([[second, whole, -second]], np.float32)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Path:
    return text_model(CLASSIFIER, tmp_path_factory.mktemp("saved") / "weather", registry)


def relabelled(saved: Path, folder: Path, content: str) -> Path:
    """A copy whose names of classes are others."""
    import peirce

    files = {path.name: path.read_bytes() for path in (saved / "assets").iterdir()}
    peirce.load(saved).save(folder, files | {"labels.json": content.encode()})
    return folder


def test_classes_come_by_name_the_best_first(saved: Path) -> None:
    said: list[Mapping[str, Any]] = []
    pipeline = ClassificationPipeline(saved, Counts())
    assert pipeline.labels() == {"weather_logits": [*CLASSES]}
    pipeline.ask({"text": "the sea is calm today"}, said.append)
    (answer,) = said
    shares = [1 / (1 + e**-6.5 + e**-14), 1 / (1 + e**6.5 + e**-7.5), 1 / (1 + e**14 + e**7.5)]
    assert answer["probabilities"] == pytest.approx(shares)
    assert (answer["classes"], answer["scores"]) == (["stormy", "calm", "foggy"], [7.0, 0.5, -7.0])
    with pytest.raises(InputError, match=r"input 'pair' is given, but the model has no token types"):
        pipeline.ask({"text": "the sea", "pair": "the bay"}, said.append)


def test_a_model_that_compares_two_texts_is_asked_about_two(saved: Path) -> None:
    pipeline = ClassificationPipeline(saved, Compares())
    said: list[Mapping[str, Any]] = []
    pipeline.ask({"text": "the sea", "pair": "the bay"}, said.append)
    assert [each["scores"] for each in said] == [[7.0, 3.0, -3.0]]
    with pytest.raises(InputError, match=r"input 'pair' is missing: the model compares two texts"):
        pipeline.ask({"text": "the sea"}, said.append)


def test_names_of_classes_that_cannot_be_are_refused(saved: Path, tmp_path: Path) -> None:
    wrong = '{"labels": ["a", "b"]}', '{"names": ["a"]}', "["
    for number, content in enumerate(wrong):
        with pytest.raises(ModelFileError, match=r"labels.json names (2|no) classes"):
            ClassificationPipeline(relabelled(saved, tmp_path / str(number), content), Counts())


def test_a_text_is_said_token_by_token(tmp_path: Path, registry: Registry) -> None:
    said: list[Mapping[str, Any]] = []
    writer = WritingPipeline(text_model(WRITER, tmp_path / "novelist", registry), Counts())
    writer.ask({"prompt": "the sea", "max_new": 3}, said.append)
    assert [each["token"] for each in said][:2] == [7, 9]
    assert [each["ended"] for each in said] == [False, False, True]
    assert all(later["text"].startswith("the sea") for later in said)

"""`peirce senteval`: vectors of encoders and of models, pooled as asked, and the figures that it gives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import exit_code
from senteval_files import BAD, GOOD, write_senteval

from peirce.compose import build
from peirce.errors import TaskError
from peirce.registry import load_spec
from peirce_text import Tokenizer, vocabulary_settings
from peirce_tpru.senteval.evaluation import COLUMNS, evaluate, means
from peirce_tpru.senteval.protocol import Features
from peirce_tpru.senteval.sentences import Sentences, pool_states, sentences_of
from peirce_tpru.vectors import EncoderVectors

SMALL = {"model.dims.unary": 8, "model.dims.embedding": 6, "model.operators.options.tpru.roles": 5}


def test_each_way_to_pool() -> None:
    states = torch.arange(12.0).reshape(1, 3, 4)
    real = torch.tensor([[True, True, False]])
    for pool, wanted in (
        ("mean", [2, 3, 4, 5]), ("max", [4, 5, 6, 7]), ("last", [4, 5, 6, 7]), ("ends", [4, 5, 2, 3]),
        ("first", [0, 1, 2, 3]),
    ):  # fmt: skip
        assert pool_states(states, real, pool)[0].tolist() == wanted


def test_an_encoder_is_pooled_as_sentence_encoders_are(encoder: str) -> None:
    texts = [GOOD, BAD, GOOD]
    found = sentences_of(encoder).of(texts, "texts")
    vectors = EncoderVectors(encoder, 256, None, "cpu").of(texts)
    assert np.allclose(found, np.stack([own.mean(0) for own in vectors]), atol=1e-6)
    last = sentences_of(encoder, pool="last").of(texts, "texts")
    assert np.allclose(last, np.stack([own[-1] for own in vectors]), atol=1e-6)
    with pytest.raises(TaskError, match="not by 'ends'"):
        sentences_of(encoder, pool="ends")
    with pytest.raises(TaskError, match="unknown pooling 'sum'"):
        sentences_of(encoder, pool="sum")


def test_a_model_is_pooled_as_its_head_and_reads_each_text_alone(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train([GOOD, BAD] * 2, vocabulary=60)
    changes = {**SMALL, **vocabulary_settings(tokenizer)}
    model = build(load_spec("nli-tpru", changes), seed=0).eval()
    model.save(tmp_path / "m", assets={"tokenizer.json": tokenizer.content})
    found = sentences_of(str(tmp_path / "m")).of([GOOD, BAD], "texts")
    row = tokenizer.encode(BAD, length=20)
    with torch.no_grad():
        states = model(input_ids=torch.tensor([row.ids]))["unary"]
    assert np.allclose(found[1], states[0].amax(0).numpy(), atol=1e-6)
    model.save(tmp_path / "bare")
    with pytest.raises(TaskError, match="has no tokenizer"):
        sentences_of(str(tmp_path / "bare"))
    with pytest.raises(TaskError, match="no pooled output"):
        sentences_of(str(tmp_path / "m"), pool="pooled")


def test_a_model_gets_the_vectors_that_it_was_trained_on(encoder: str, tmp_path: Path) -> None:
    vectors = EncoderVectors(encoder, 16, None, "cpu")
    reads = [{"use": "word_vectors", "size": vectors.width}]
    changes = {**SMALL, "model.input.vocabulary": 5, "model.augmenters": reads}
    model = build(load_spec("nli-tpru", changes), seed=0)
    model.save(tmp_path / "m", assets={"vectors.json": vectors.asset})
    named = sentences_of(str(tmp_path / "m")).of([GOOD], "texts")
    given = sentences_of(tmp_path / "m", model=model, vectors=vectors)
    assert np.allclose(named, given.of([GOOD], "texts"))
    (tmp_path / "glove.txt").write_text("the 1 0 0 0 0 0\n", encoding="utf-8")
    with pytest.raises(TaskError, match=r"are not those that .* was trained on.*--vectors"):
        sentences_of(str(tmp_path / "m"), vectors=str(tmp_path / "glove.txt"))


def test_the_figures_of_every_kind_of_task(encoder: str, tmp_path: Path) -> None:
    write_senteval(tmp_path)
    found = evaluate(sentences_of(encoder), tmp_path, folds=5)
    for task in ("MR", "SST-2", "MRPC", "SICK-E"):
        assert found[task]["accuracy"] == 1.0  # the sentences give the labels away
    assert found["MRPC"]["f1"] == 1.0
    assert found["SICK-R"]["pearson"] > 0.99
    assert found["STS15"]["pearson"] == pytest.approx(found["STS15"]["pearson/images"])
    shown = means(found)
    assert list(shown) == [*(column for column in COLUMNS if column != "SST-5"), "MRPC F1"]
    assert shown["Binary"] == 1.0


def test_what_cannot_be_measured_is_refused_before_any_sentence_is_read(tmp_path: Path) -> None:
    def unread(texts: Sequence[str]) -> Features:
        raise AssertionError("sentences are read")

    sentences = Sentences("", 8, unread, None)
    write_senteval(tmp_path)
    with pytest.raises(TaskError, match=r"^MR: of one class there are only 1, too few for 5 folds"):
        evaluate(sentences, tmp_path, folds=5, limit=3)
    with pytest.raises(AssertionError, match="sentences are read"):
        evaluate(sentences, tmp_path, folds=5)
    (images,) = tmp_path.rglob("2015.images.test.tsv")
    images.write_text(f"2.5\t{GOOD}\t{BAD}\n" * 3, encoding="utf-8")
    with pytest.raises(TaskError, match=r"^STS15: the scores of its 3 pairs are all alike"):
        evaluate(sentences, tmp_path, folds=5)


def test_the_command(encoder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_senteval(tmp_path)
    file = tmp_path / "figures.json"
    arguments = ["senteval", encoder, "--data", tmp_path, "--task", "STS15"]
    assert exit_code(*arguments, "--output", file, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(file.read_text(encoding="utf-8"))
    assert printed["schema"] == "peirce.senteval/1"
    assert set(printed["tasks"]["STS15"]) >= {"pearson", "spearman_all", "spearman/images"}
    assert exit_code(*arguments) == 0
    assert "STS (Un.)" in capsys.readouterr().out
    assert exit_code("senteval", encoder, "--data", tmp_path / "none") == 2
    assert "there is no folder" in capsys.readouterr().err

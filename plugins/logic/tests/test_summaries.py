"""Summaries: what is read, what ROUGE says, and a small BART that learns to write them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_specs import DECODER, ENCODER_DECODER

from peirce.compose import build
from peirce.errors import TaskError
from peirce.spec import Spec
from peirce_logic.summaries.rouge import MEASURES, rouge
from peirce_logic.summaries.task import Summarise, SummariseOptions
from peirce_logic.summaries.texts import Example, examples_of
from peirce_text import read_rows

ROW = {"dialogue": "Ann: It rains.", "summary": "Rain."}
BART = Spec(
    name="small",
    architecture="pretrained_encoder_decoder",
    dims={},
    options={
        "config": {
            "model_type": "bart", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
            "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
            "decoder_start_token_id": 3,
        }
    },
    augmenters=[{"use": "logical", "depth": 1}],
)  # fmt: skip


def examples(
    folder: Path, name: str, *rows: dict[str, Any], columns: tuple[str, str] = ("", "")
) -> list[Example]:
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return examples_of(read_rows(folder / name), columns)


def test_files_of_texts_and_summaries_are_read(tmp_path: Path) -> None:
    three = {"fname": "t", "dialogue": ROW["dialogue"], **{f"summary{i}": f"Rain {i}." for i in (1, 2, 3)}}
    assert examples(tmp_path, "dev.jsonl.gz", ROW) == [Example("Ann: It rains.", ("Rain.",))]
    (found,) = examples(tmp_path, "test.jsonl", three)
    assert found.summaries == ("Rain 1.", "Rain 2.", "Rain 3.")
    own = {"body": "It rains.", "short": "Rain."}
    assert examples(tmp_path, "own.jsonl", own, columns=("body", "short"))[0].text == "It rains."
    with pytest.raises(TaskError, match=r"row 1: no column holds the text; the columns are body, short"):
        examples(tmp_path, "own.jsonl", own)


def test_rouge_is_a_mean_over_references() -> None:
    same = rouge(["The cat sat. It slept."], [["The cat sat. It slept."]])
    assert same == dict.fromkeys(MEASURES, 1.0)
    found = rouge(["the cat sat"], [["the cat sat", "a dog ran"]])
    assert found["rouge1"] == 0.5
    swapped = rouge(["It slept. The cat sat."], [["The cat sat. It slept."]])
    assert swapped["rouge1"] == 1.0
    assert swapped["rougeLsum"] > swapped["rougeL"]


def test_a_model_learns_to_write_summaries(tmp_path: Path) -> None:
    """From the batches of the task alone; a summary begins after the token that the decoder starts with, and [CLS]."""
    options = {**Summarise.example_in(tmp_path), "depth": 1, "parser": "brackets", "beams": 2}
    for name in ("data", "valid_data", "test_data"):  # brackets reads trees
        rows = [json.loads(line) for line in Path(options[name]).read_text().splitlines()]
        trees = (f"(S (NP {row['dialogue'].split(':')[0]}) (VP not (VP cry)))" for row in rows)
        lines = (json.dumps({**row, "dialogue": tree}) for row, tree in zip(rows, trees, strict=True))
        Path(options[name]).write_text("\n".join(lines) + "\n")
    task = Summarise(SummariseOptions(**options))
    data = task.prepare()
    model = build(BART.replace({**task.overrides(data), "model.regularisation.init_std": 0.1}), seed=0)
    task.check(model, data)
    batches = list(task.batches(data, "train", 0, 0))
    assert batches[0]["logical_ids"].shape[1] == 1
    assert batches[0]["logical_ids"].any()
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for step in range(40):
        loss = task.loss(model, batches[step % len(batches)])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2
    written = task.write(model, data, "test")
    assert len(written) == options["examples"]
    assert all("likes" in text for text in written)
    assert set(task.metrics(model, data, "test")) == {*MEASURES, "loss"}


def test_models_that_write_no_summaries_are_refused(tmp_path: Path) -> None:
    task = Summarise(SummariseOptions(**Summarise.example_in(tmp_path)))
    data = task.prepare()
    for spec, said in ((DECODER, "encoder-decoder"), (BART, "reads 1 levels, and task.depth is 0")):
        with pytest.raises(TaskError, match=said):
            task.check(build(spec.replace(task.overrides(data))), data)
    task.check(build(ENCODER_DECODER.replace(task.overrides(data))), data)

"""The task `glue`: what reaches the model, what it is measured by, and a training on each of the nine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from glue_files import write_glue, write_vocabulary
from small_specs import FOLNET
from thorough import often

from peirce.compose import build
from peirce.errors import TaskError
from peirce.model import Model
from peirce.spec import Spec
from peirce_text.glue.subtasks import SUBTASKS
from peirce_text.glue.task import Glue, GlueOptions
from peirce_text.tasks import TextClassData
from peirce_training.evaluation import evaluate

SPEC = FOLNET.replace({"model.dims.layers": 1, "model.regularisation.init_std": 0.1})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_vocabulary(folder)
    write_glue(folder / "glue")
    return folder


def made(files: Path, name: str, **options: object) -> tuple[Glue, TextClassData]:
    given = {"folder": str(files / "glue"), "tokenizer": str(files / "vocab.txt"), "batch_size": 2, **options}
    task = Glue(GlueOptions(task=name, **given))  # type: ignore[arg-type]
    return task, task.prepare()


def suited(task: Glue, data: TextClassData) -> Model:
    spec: Spec = SPEC.replace(task.overrides(data))
    return build(spec).eval()


def test_predictions_stand_in_the_order_of_the_file(files: Path) -> None:
    task, data = made(files, "qqp", batch_size=7)
    model = suited(task, data)
    predicted = task.predict(model, data, "train")
    for row in (0, 1, 151):
        batch = data.splits["train"].batch(np.array([row]))
        del batch["labels"]
        with torch.no_grad():
            assert predicted[row] == model(**batch)["classification_logits"].argmax()


@pytest.mark.parametrize("name", often(SUBTASKS, ("cola", "stsb", "mnli")))
def test_the_metrics_and_the_predictions_of_each(files: Path, tmp_path: Path, name: str) -> None:
    task, data = made(files, name, predictions=str(tmp_path / "predictions"))
    subtask, model = SUBTASKS[name], suited(task, data)
    metrics = evaluate(model, task, data, "valid")
    ending = {"accuracy_mismatched"} if name == "mnli" else set()
    assert set(metrics) == {"score", *subtask.metrics, *ending}
    own = [value for metric, value in metrics.items() if metric != "score"]
    assert metrics["score"] == pytest.approx(sum(own) / len(own))
    assert not (tmp_path / "predictions").exists()
    counts = evaluate(model, task, data, "test")
    written = {path.name: path.read_text() for path in (tmp_path / "predictions").iterdir()}
    titles = {"AX", "MNLI-m", "MNLI-mm"} if name == "mnli" else {subtask.title}
    assert set(written) == {f"{title}.tsv" for title in titles}
    assert {text.splitlines()[0] for text in written.values()} == {"index\tprediction"}
    assert sum(len(text.splitlines()) - 1 for text in written.values()) == counts["examples"]


def test_what_is_missing_is_said(files: Path) -> None:
    task, data = made(files, "rte")
    with pytest.raises(TaskError, match="'test' of glue has no labels"):
        next(task.batches(data, "test", 0, 0))
    (files / "alone" / "RTE").mkdir(parents=True)
    (files / "alone" / "RTE" / "dev.tsv").write_bytes((files / "glue" / "RTE" / "dev.tsv").read_bytes())
    task, data = made(files, "rte", folder=str(files / "alone"))
    assert task.metrics(suited(task, data), data, "test") == {}
    with pytest.raises(TaskError, match=r"glue has no 'train' split here, only valid"):
        next(task.batches(data, "train", 0, 0))
    with pytest.raises(ValueError, match="unknown task 'stsB' of GLUE"):
        GlueOptions(task="stsB")

"""What the tasks on texts share: the order of batches, splits, evaluation mode, files of predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import peirce
import pytest
import torch
from peirce.errors import TaskError
from peirce.registry import Registry
from peirce_text.folio.task import Folio, FolioOptions
from peirce_text.tasks import SPLITS, evaluating, of_split, outputs_of, write_predictions
from small_specs import FOLNET


def test_a_pass_has_every_example_once_and_is_drawn_for_training_alone() -> None:
    task = Folio(FolioOptions(batch_size=4))
    kept = list(task.order(10, "valid", 3, 0))
    assert [len(rows) for rows in kept] == [4, 4, 2]
    assert np.concatenate(kept).tolist() == list(range(10))
    drawn = [np.concatenate(list(task.order(10, "train", 3, epoch))).tolist() for epoch in (0, 1, 0)]
    assert sorted(drawn[0]) == list(range(10))
    assert drawn[0] == drawn[2] != drawn[1]


def test_a_split_that_is_not_there() -> None:
    assert of_split({"train": 1}, "train") == 1
    with pytest.raises(TaskError, match=r"unknown split 'dev'.*Known: .*train"):
        of_split({"train": 1}, "dev", hint="never said")
    with pytest.raises(TaskError, match=r"^name a file$"):
        of_split({"train": 1}, "valid", SPLITS, "name a file")


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_leaves_the_model_as_it_was(training: bool, registry: Registry) -> None:
    model = peirce.build(FOLNET, registry=registry).train(training)
    batch = {"input_ids": torch.tensor([[1, 2, 3]]), "labels": torch.tensor([0])}
    with evaluating(model) as moved:
        assert not model.training
        outputs = outputs_of(model, moved(batch))  # labels are no input, and are left out
    assert model.training is training
    assert not outputs["unary"].requires_grad
    with pytest.raises(ZeroDivisionError), evaluating(model):
        raise ZeroDivisionError
    assert model.training is training


def test_predictions_go_into_a_new_folder_or_are_refused(tmp_path: Path) -> None:
    write_predictions(tmp_path / "new" / "folder", {"a.json": "{}\n", "b.tsv": "1\n"})
    assert (tmp_path / "new" / "folder" / "b.tsv").read_text() == "1\n"
    (tmp_path / "file").write_text("")
    with pytest.raises(TaskError, match=r"predictions cannot be written to .*file"):
        write_predictions(tmp_path / "file", {"a.json": "{}\n"})

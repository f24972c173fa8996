"""What the tasks on texts share: the order of batches, splits, evaluation mode, files of predictions."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import peirce_text
from peirce.errors import RenamedWarning, TaskError
from peirce_text.tasks import FolderOptions, TextClasses, batch_rows, keep_usable, write_predictions


def test_a_pass_has_every_example_once_and_is_drawn_for_training_alone() -> None:
    lengths = np.array([5, 3, 9, 1, 7, 2, 8, 6, 4, 10])
    whole = batch_rows(lengths, 4, None)
    assert [len(rows) for rows in whole] == [4, 4, 2]
    assert np.concatenate(whole).tolist() == list(range(10))
    assert lengths[np.concatenate(batch_rows(lengths, 4, None, pool=1))].tolist() == sorted(lengths)
    for pool, epoch in product((0, 2), (0, 1)):
        drawn = np.concatenate(batch_rows(lengths, 4, np.random.default_rng([3, epoch]), pool))
        assert sorted(drawn.tolist()) == list(range(10))


def test_a_pool_has_rows_of_about_one_length_in_each_batch() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 64)
    mixed, alike = (
        sum(np.ptp(lengths[rows]) for rows in batch_rows(lengths, 4, np.random.default_rng(0), pool))
        for pool in (0, 16)
    )
    assert alike < mixed / 5


def test_rows_that_are_left_out_are_said_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tuple[str, str | int]] = [("a, row 1", 7), ("a, row 2", "it has no label")]
    assert keep_usable("train", rows) == [7]
    assert "1 of 2 train rows cannot be used, the first is a, row 2" in capsys.readouterr().err
    with pytest.raises(TaskError, match=r"2 of 3 train rows cannot be used"):
        keep_usable("train", [*rows, rows[1]], 0.01)


def test_predictions_go_into_a_new_folder_or_are_refused(tmp_path: Path) -> None:
    write_predictions(tmp_path / "new" / "folder", {"a.json": "{}\n", "b.tsv": "1\n"})
    assert (tmp_path / "new" / "folder" / "b.tsv").read_text() == "1\n"
    (tmp_path / "file").write_text("")
    with pytest.raises(TaskError, match=r"predictions cannot be written to .*file"):
        write_predictions(tmp_path / "file", {"a.json": "{}\n"})


def test_a_method_by_its_older_name_overrides_todays() -> None:
    with pytest.warns(RenamedWarning, match=r"Older\.chosen is now called choose"):

        class Older(TextClasses[FolderOptions]):
            def chosen(self, batch: object, outputs: object) -> str:
                return "chosen"

    assert Older.choose(None, {}, {}) == "chosen"  # type: ignore[arg-type]
    with pytest.warns(RenamedWarning, match=r"peirce_text\.say is now called peirce_text\.print_line"):
        assert peirce_text.say is peirce_text.print_line

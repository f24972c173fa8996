"""GLUE's files as they are published, with their quirks, and its data sets for the library `datasets`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from glue_files import write_glue

from peirce.errors import TaskError
from peirce_text.glue.task import Glue, GlueOptions
from peirce_text.reading import Example


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_glue(tmp_path_factory.mktemp("glue"))


def read(place: Path, name: str) -> dict[str, Sequence[Example]]:
    return Glue(GlueOptions(task=name, folder=str(place))).read()


def read_hub(place: Path, name: str) -> dict[str, Sequence[Example]]:
    return Glue(GlueOptions(task=name, dataset=str(place))).read()


def labels(examples: Sequence[Example]) -> list[float | None]:
    return [each.label for each in examples]


def firsts(examples: Sequence[Example]) -> list[str]:
    return [each.texts[0] for each in examples]


def test_cola_has_no_header_but_its_test_set_has(glue: Path) -> None:
    cola = read(glue, "cola")
    assert len(cola["train"]) == 6
    assert firsts(cola["train"])[:3] == ["The dog sat.", "Sat the dog.", 'The "cat ran.']
    assert labels(cola["train"]) == [1, 0, 1] * 2
    assert labels(cola["valid"]) == [1, 0]
    assert cola["test"] == [Example(("The dog ran.",), None, 0), Example(("Dog the ran.",), None, 1)]


def test_quotes_do_not_enclose_fields_and_a_byte_order_mark_is_none_of_the_header(glue: Path) -> None:
    train = read(glue, "mrpc")["train"]
    assert train[0].texts == ('The dog , " sat on the mat', "On the mat the dog sat")
    assert labels(train) == [1, 0]


def test_broken_rows_of_qqp_are_left_out_and_counted(glue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    qqp = read(glue, "qqp")
    assert "1 of 153 train rows cannot be used" in capsys.readouterr().err
    assert len(qqp["train"]) == 152
    assert qqp["train"][-1].texts[1] == ""  # an empty question is published, and stays
    assert [each.note for each in qqp["test"]] == [0, 1]


def test_mnli_has_two_development_sets_two_test_sets_and_the_diagnostic_one(glue: Path) -> None:
    mnli = read(glue, "mnli")
    assert list(mnli) == ["train", "valid", "valid_mismatched", "test", "test_mismatched", "diagnostic"]
    assert labels(mnli["train"]) == [2, 0, 1]
    assert labels(mnli["valid"]) == [1, 0]  # the last of the columns, gold_label
    assert labels(mnli["valid_mismatched"]) == [2]
    assert set(labels(mnli["diagnostic"])) == {None}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sst2", [1, 0, 1, 0]), ("qnli", [0, 1]), ("rte", [1, 0]), ("wnli", [0, 1]), ("stsb", [2.5, 5.0])],
)
def test_labels_of_the_other_tasks(glue: Path, name: str, expected: list[int]) -> None:
    assert labels(read(glue, name)["train"]) == expected
    if name == "rte":  # line ends of Windows are none of the label, and the folder of one task will do
        assert b"\r\n" in (glue / "RTE" / "dev.tsv").read_bytes()
        assert labels(read(glue / "RTE", name)["valid"]) == [0]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sst2", "sentence\tlabel\na film\t2\n", r"row 1: column 'label' holds '2'.* 0, 1"),
        ("sst2", "sentence\tlabl\na film\t1\n", r"row 1: unknown column 'label'. Did you mean 'labl'"),
        ("sst2", "sentence\tlabel\n" + "a\tfilm\t1\n" * 3, r"3 of 3 train rows cannot be used, .*row 1"),
        ("cola", "a sentence alone\n" * 3, "1 fields where the header has 4"),
        ("stsb", "sentence1\tsentence2\tscore\na\tb\t7\n", "a number from 0 to 5"),
    ],
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / "train.tsv").write_text(text)
    with pytest.raises(TaskError, match=message):
        Glue(GlueOptions(task=name, folder=str(tmp_path), tokenizer="none")).prepare()


def test_each_row_of_a_test_set_counts(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\ta film\n1\ta\tfilm\n")
    with pytest.raises(TaskError, match=r"row 2: 3 fields.*every row needs a prediction"):
        read(tmp_path, "sst2")


def test_a_saved_data_set_is_read_by_the_names_of_its_classes(tmp_path: Path) -> None:
    import datasets

    names = ["contradiction", "entailment", "neutral"]  # not the order of the hub's
    kinds = {name: datasets.Value("string") for name in ("premise", "hypothesis")}
    kinds |= {"label": datasets.ClassLabel(names=names), "idx": datasets.Value("int32")}

    def rows(*given: int) -> datasets.Dataset:
        texts = [f"text {i}" for i in range(len(given))]
        numbers = [7, 8, 9][: len(given)]
        columns = {"premise": texts, "hypothesis": texts, "label": list(given), "idx": numbers}
        return datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))

    saved = datasets.DatasetDict(
        {"train": rows(0, 1, 2), "validation_matched": rows(1), "test_matched": rows(-1, -1)}
    )
    saved.save_to_disk(tmp_path / "mnli")
    for folder in (tmp_path, tmp_path / "mnli"):
        found = read_hub(folder, "mnli")
        assert list(found) == ["train", "valid", "test"]
        assert labels(found["train"]) == [2, 0, 1]
        assert [(each.label, each.note) for each in found["test"]] == [(None, 7), (None, 8)]
    with pytest.raises(TaskError, match=r"unknown column .sentence1.*Known: .*premise"):
        read_hub(tmp_path / "mnli", "rte")


def test_a_folder_laid_out_as_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "hub"
    (folder / "rte").mkdir(parents=True)
    files = "\n".join(f"  - split: {split}\n    path: rte/{split}-*" for split in ("train", "validation"))
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: rte\n  data_files:\n{files}\n---\n")
    columns = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [1, 0], "idx": [0, 1]}
    for split in ("train", "validation"):
        datasets.Dataset.from_dict(columns).to_parquet(folder / "rte" / f"{split}-0.parquet")
    for place in (folder, folder / "rte"):  # with and without the README that names the task
        found = read_hub(place, "rte")
        assert list(found) == ["train", "valid"]
        assert found["train"] == [Example(("a", "c"), 1, 0), Example(("b", "d"), 0, 1)]

"""GLUE's files as they are published, with their quirks, and its data sets for the library `datasets`."""

from __future__ import annotations

from pathlib import Path

import pytest
from glue_files import write_glue
from peirce.errors import TaskError
from peirce_text.glue.reading import Examples, read_dataset, read_folder
from peirce_text.glue.subtasks import SUBTASKS


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_glue(tmp_path_factory.mktemp("glue"))


def read(glue: Path, name: str) -> dict[str, Examples]:
    return read_folder(SUBTASKS[name], glue)


def test_cola_has_no_header_but_its_test_set_has(glue: Path) -> None:
    cola = read(glue, "cola")
    assert len(cola["train"]) == 6
    assert cola["train"].texts[0][:3] == ("The dog sat.", "Sat the dog.", 'The "cat ran.')
    assert cola["train"].labels == (1.0, 0.0, 1.0) * 2
    assert cola["valid"].labels == (1.0, 0.0)
    assert cola["test"].texts == (("The dog ran.", "Dog the ran."),)
    assert cola["test"].labels is None
    assert cola["test"].index == (0, 1)


def test_quotes_do_not_enclose_fields_and_a_byte_order_mark_is_none_of_the_header(glue: Path) -> None:
    train = read(glue, "mrpc")["train"]
    assert train.texts[0][0] == 'The dog , " sat on the mat'
    assert train.texts[1][0] == "On the mat the dog sat"
    assert train.labels == (1.0, 0.0)


def test_a_score_is_a_number(glue: Path) -> None:
    assert read(glue, "stsb")["train"].labels == (2.5, 5.0)
    assert read(glue, "stsb")["valid"].texts[1] == ("The cat.", "They ran.", "The cat ran.")


def test_broken_rows_of_qqp_are_left_out_and_counted(glue: Path) -> None:
    qqp = read(glue, "qqp")
    assert qqp["train"].skipped == 1
    assert len(qqp["train"]) == 152
    assert qqp["train"].texts[1][-1] == ""  # an empty question is published, and stays
    assert qqp["test"].index == (0, 1)


def test_mnli_has_two_development_sets_two_test_sets_and_the_diagnostic_one(glue: Path) -> None:
    mnli = read(glue, "mnli")
    assert list(mnli) == [
        "train",
        "valid",
        "valid_mismatched",
        "test",
        "test_mismatched",
        "diagnostic",
    ]
    assert mnli["train"].labels == (2.0, 0.0, 1.0)
    assert mnli["valid"].labels == (1.0, 0.0)  # the last of the columns, gold_label
    assert mnli["valid_mismatched"].labels == (2.0,)
    assert mnli["diagnostic"].labels is None


@pytest.mark.parametrize(
    ("name", "labels"), [("sst2", (1, 0, 1, 0)), ("qnli", (0, 1)), ("rte", (1, 0)), ("wnli", (0, 1))]
)
def test_labels_of_the_other_tasks(glue: Path, name: str, labels: tuple[int, ...]) -> None:
    assert read(glue, name)["train"].labels == labels


def test_line_ends_of_windows_are_none_of_the_label(glue: Path) -> None:
    assert b"\r\n" in (glue / "RTE" / "dev.tsv").read_bytes()
    assert read(glue, "rte")["valid"].labels == (0.0,)


def test_the_folder_of_one_task_will_do(glue: Path) -> None:
    assert len(read_folder(SUBTASKS["rte"], glue / "RTE")["train"]) == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "sst2",
            "sentence\tlabel\na film\t2\n",
            r"train.tsv, line 2: column 'label' holds '2', where one of 0, 1",
        ),
        ("sst2", "text\tlabel\na film\t1\n", r"no column 'sentence'.* its header reads text, label"),
        ("sst2", "sentence\tlabl\na film\t1\n", r"no column 'label'.* its header reads sentence, labl"),
        (
            "sst2",
            "sentence\tlabel\n" + "a\tfilm\t1\n" * 3,
            r"3 of 3 rows cannot be used, the first is .*line 2",
        ),
        ("sst2", "", "empty"),
        ("sst2", "sentence\tlabel\n", "it has no rows"),
        ("cola", "a sentence alone\n" * 3, "it has 1 fields, and there are 4 columns"),
        ("stsb", "sentence1\tsentence2\tscore\na\tb\t7\n", "a number from 0 to 5"),
    ],
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / "train.tsv").write_text(text)
    with pytest.raises(TaskError, match=message):
        read_folder(SUBTASKS[name], tmp_path)


def test_each_row_of_a_test_set_counts(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\ta film\n1\ta\tfilm\n")
    with pytest.raises(TaskError, match=r"line 3: it has 3 fields.*a prediction is due for every row"):
        read_folder(SUBTASKS["sst2"], tmp_path)


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"neither train.tsv, dev.tsv, test.tsv nor a folder SST-2"):
        read_folder(SUBTASKS["sst2"], tmp_path)


def test_a_saved_data_set_is_read_by_the_names_of_its_classes(tmp_path: Path) -> None:
    import datasets

    names = ["contradiction", "entailment", "neutral"]  # not the order of the hub's
    features = datasets.Features(
        {
            "premise": datasets.Value("string"),
            "hypothesis": datasets.Value("string"),
            "label": datasets.ClassLabel(names=names),
            "idx": datasets.Value("int32"),
        }
    )

    def rows(*labels: int) -> datasets.Dataset:
        texts = [f"text {i}" for i in range(len(labels))]
        columns = {
            "premise": texts,
            "hypothesis": texts,
            "label": list(labels),
            "idx": [7, 8, 9][: len(labels)],
        }
        return datasets.Dataset.from_dict(columns, features=features)

    saved = datasets.DatasetDict(
        {"train": rows(0, 1, 2), "validation_matched": rows(1), "test_matched": rows(-1, -1)}
    )
    saved.save_to_disk(tmp_path / "mnli")
    for folder in (tmp_path, tmp_path / "mnli"):
        found = read_dataset(SUBTASKS["mnli"], str(folder))
        assert list(found) == ["train", "valid", "test"]
        assert found["train"].labels == (2.0, 0.0, 1.0)
        assert found["test"].labels is None
        assert found["test"].index == (7, 8)
    with pytest.raises(TaskError, match=r"no column .sentence1. nor .sentence2.; it has premise"):
        read_dataset(SUBTASKS["rte"], str(tmp_path / "mnli"))


def test_a_data_set_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"data set .*nothing.* of RTE cannot be loaded: "):
        read_dataset(SUBTASKS["rte"], str(tmp_path / "nothing"))


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
        found = read_dataset(SUBTASKS["rte"], str(place))
        assert list(found) == ["train", "valid"]
        assert found["train"].labels == (1.0, 0.0)
        assert found["train"].texts == (("a", "b"), ("c", "d"))

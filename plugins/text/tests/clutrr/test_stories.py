from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from kinship import row, write

from peirce.errors import TaskError
from peirce_text.clutrr.stories import COLUMNS, Story, Text, read_folder, read_story, select_hops
from peirce_text.clutrr.task import Clutrr, ClutrrOptions
from peirce_text.reading import Example, Row, read_rows


def _stories(path: Path, text: Text = "story") -> list[Story]:
    return _told(read_rows(path, COLUMNS), text)


def _told(rows: Iterable[Row], text: Text = "story") -> list[Story]:
    return [read_story(row, text) for row in rows]


def test_a_story_is_text_and_people(tmp_path: Path) -> None:
    path = write(tmp_path / "1.2_test.csv", [row()])
    (story,) = _stories(path)
    told = (0, "'s daughter,", 1, ", asked her mom to read.", 2, "'s sister", 1, "helped him.")
    assert story.segments == told
    assert story.people == ("Ann", "Lil", "Nick")
    assert story.query == (0, 2)
    assert (story.relation, story.hops) == ("son", 2)
    assert story.where == f"{path}, row 1"
    (clean,) = _stories(path, "clean_story")
    assert clean.segments[:2] == (0, "'s sister")
    assert clean.people == ("Nick", "Lil", "Ann")
    assert clean.query == (2, 0)


def test_gzipped_files_read_the_same_and_are_not_read_twice(tmp_path: Path) -> None:
    plain = write(tmp_path / "1.2,1.3_train.csv", [row(), row(task_name="task_1.3", target="niece")])
    write(tmp_path / "1.2_test.csv", [row()])
    stories = _told(read_folder(tmp_path)["train"])
    (tmp_path / f"{plain.name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
    again = _told(read_folder(tmp_path)["train"])
    assert len(stories) == len(again) == 2
    one, other = ([(s.segments, s.relation, s.hops, s.share) for s in each] for each in (stories, again))
    assert one == other
    examples = [Example((), None, story) for story in stories]
    assert [each.note.relation for each in select_hops(examples, (3,), "train_hops")] == ["niece"]
    with pytest.raises(TaskError, match=r"task\.test_hops: no story of 4 or 5 hops"):
        select_hops(examples, (2, 4, 5), "test_hops")


def test_the_validation_share_depends_on_the_content_alone(tmp_path: Path) -> None:
    rows = [row(id=f"id-{i}") for i in range(400)]
    one = _stories(write(tmp_path / "a.csv", rows))
    other = _stories(write(tmp_path / "b.csv", rows[::-1]))
    assert [s.share for s in one] == [s.share for s in other][::-1]
    assert 0.05 < sum(s.share < 0.1 for s in one) / len(one) < 0.15


@pytest.mark.parametrize(
    ("column", "value", "word"),
    [
        ("query", "('Ann', 'Nick'", "not a Python literal"),
        ("query", "'Ann'", "such as"),
        ("query", "__import__('os').getcwd()", "not a Python literal"),
        ("query", "('Ann', 'Bob')", "'Bob'"),
        ("task_name", "task_2", "task_name is 'task_2'"),
        ("target", " ", "'target'"),
        ("story", "[Ann] and [Nick and [Lil]", "bracket"),
        ("edge_types", "['daughter']", "do not fit together"),
        ("story_edges", "[(0, 1), (-1, 2)]", "is not a fact"),
        ("story_edges", "[(0, 1), 2]", "do not fit together"),
    ],
)
def test_an_error_names_the_row(tmp_path: Path, column: str, value: str, word: str) -> None:
    path = write(tmp_path / "1.2_test.csv", [row(), row(**{column: value})])
    with pytest.raises(TaskError, match=f"{path}, row 2: .*{word}"):
        _stories(path, "facts" if "edge" in column else "story")


@pytest.mark.parametrize(
    ("name", "train", "test"),
    [
        ("data_db9b8f04", 15083, [38, 107, 77, 185, 105, 155, 135, 124, 122]),
        ("data_089907f8", 10094, [38, 105, 190, 174, 107, 144, 150, 119, 119]),
    ],
)
def test_the_published_counts(shared: Path, name: str, train: int, test: list[int]) -> None:
    folder = shared / "data" / "clutrr" / name
    found = read_folder(folder)
    stories = _told(found["train"])
    assert len(stories) == train
    assert len({story.relation for story in stories}) == 18
    counts = Counter(story.hops for story in _told(found["test"]))
    assert counts == dict(zip(range(2, 11), test, strict=True))


def test_facts_are_the_edges_of_the_graph_in_an_order_of_their_own(tmp_path: Path) -> None:
    rows = [row(id=f"id-{i}") for i in range(20)]
    path = write(tmp_path / "1.2_test.csv", rows)
    orders = set()
    for story in _stories(path, "facts"):
        words = [story.people[s] if isinstance(s, int) else s for s in story.segments]
        one, other = "Ann daughter Lil .", "Lil brother Nick ."
        assert " ".join(words) in (f"{one} {other}", f"{other} {one}")
        assert (story.people[story.query[0]], story.people[story.query[1]]) == ("Ann", "Nick")
        orders.add(words[0])
    assert orders == {"Ann", "Lil"}
    again, told = _stories(path, "facts"), _stories(path)
    assert [s.segments for s in again] == [s.segments for s in _stories(path, "facts")]
    # the same stories are kept for validation, whatever is read of them
    assert [s.share for s in again] == [s.share for s in told]


def test_a_data_set_of_the_hub(tmp_path: Path) -> None:
    import datasets

    rows = [{**row(task_name=f"task_1.{k}"), "target": k, "target_text": "son"} for k in (2, 3)]
    tables = {split: datasets.Dataset.from_list(rows) for split in ("train", "validation", "test")}
    datasets.DatasetDict(tables).save_to_disk(tmp_path / "saved")
    options = ClutrrOptions(dataset=str(tmp_path / "saved"))
    found = {split: _told(rows) for split, rows in Clutrr(options).rows().items()}
    assert set(found) == {"train", "test"}
    read = [(story.relation, story.hops, story.query) for story in found["test"]]
    assert read == [("son", 2, (0, 2)), ("son", 3, (0, 2))]
    assert found["train"][1].where == f"data set {tmp_path / 'saved'}, train, row 2"

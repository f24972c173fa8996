"""Hand-written stories in the columns of the published files, and small sets of them that can be learnt."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

COLUMNS = (
    "", "id", "story", "query", "text_query", "target", "text_target", "clean_story", "proof_state", "f_comb",
    "task_name", "story_edges", "edge_types", "query_edge", "genders", "syn_story", "node_mapping", "task_split",
)  # fmt: skip

STORY = "[Ann]'s daughter, [Lil], asked her mom to read. [Nick]'s sister [Lil] helped him."
CLEAN = "[Nick]'s sister [Lil] helped him. [Ann]'s daughter, [Lil], asked her mom to read."


def row(**values: str) -> dict[str, str]:
    """One row: the story above, or what is given in its place."""
    given = {"id": "0fc6", "story": STORY, "clean_story": CLEAN, "query": "('Ann', 'Nick')"}
    given |= {"target": "son", "task_name": "task_1.2", "edge_types": "['daughter', 'brother']"}
    given |= {"story_edges": "[(0, 1), (1, 2)]", "genders": "Ann:female,Lil:female,Nick:male"}
    return dict.fromkeys(COLUMNS, "") | given | values


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    """A file as it is published."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_folder(folder: Path, train: int = 60) -> Path:
    """A training file of 2 and 3 facts, and test files of 2 and 4: the relation is what the last sentence says."""
    folder.mkdir(exist_ok=True)
    names = ["Ann", "Bob", "Cleo", "Dan", "Eve", "Fay", "Gus"]

    def story(i: int, hops: int) -> dict[str, str]:
        people = [names[(i * (hops + 1) + j) % len(names)] for j in range(hops + 1)]
        relation = ("son", "niece")[i % 2]
        facts = [f"[{a}] met [{b}]." for a, b in pairwise(people[:-1])]
        text = " ".join([*facts, f"[{people[-2]}] has a {relation} [{people[-1]}]."])
        query = repr((people[0], people[-1]))
        return row(
            id=f"{hops}-{i}",
            story=text,
            clean_story=text,
            query=query,
            target=relation,
            task_name=f"task_1.{hops}",
        )

    write(folder / "1.2,1.3_train.csv", [story(i, 2 + i // 2 % 2) for i in range(train)])
    for hops in (2, 4):
        write(folder / f"1.{hops}_test.csv", [story(i, hops) for i in range(4 + hops)])
    return folder

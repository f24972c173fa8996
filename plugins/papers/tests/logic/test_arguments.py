"""Arguments: their labels by another truth table, their structure in old and new words, and the table at tiny sizes."""

from __future__ import annotations

import re
from itertools import islice, product
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from peirce_logic.detector import Detector
from peirce_papers.logic.arguments import ARGUMENTS, OTHERS, PLAIN, TESTS, ArgumentRow, Arguments
from peirce_papers.logic.grammar import CONNECTIVES, LEXICON, NAMES, SEEN, UNSEEN, Argument, arguments
from peirce_training.experiments import RESULTS, ExperimentRequest, read_rows

MEANT = {"if": "({0} or not ({1}))", "unless": "({0} or {1})", "and": "({0} and {1})", "or": "({0} or {1})"}
MEANT |= dict.fromkeys(["because", "although"], MEANT["and"])


def drawn(*sizes: int) -> list[tuple[Argument, Argument]]:
    return list(islice(arguments(sizes, Random(3)), 60))


def read(sentence: str) -> str:
    """A sentence as an expression of Python, by its commas and its words."""
    if " , " in sentence:
        one, other = sentence.split(" , ")
        first, _, rest = one.partition(" ")
        key, left, right = (
            (first, other, rest) if first in MEANT else (other.split()[0], one, other.partition(" ")[2])
        )
        return MEANT[key].format(read(left), read(right))
    key = next((f" {word} " for word in ("and", "or") if f" {word} " in sentence), "")
    return MEANT[key.strip()].format(*map(read, sentence.split(key))) if key else f"({sentence})"


def follows(argument: Argument) -> bool:
    premises, conclusion = argument.text(SEEN), argument.conclusion
    names = sorted({*re.findall("|".join(NAMES), f"{premises} {conclusion}")})
    told = [read(each.strip()) for each in premises.split(".") if each.strip()]
    valuations = [dict(zip(names, bits, strict=True)) for bits in product((True, False), repeat=len(names))]
    models = [each for each in valuations if all(eval(text, {}, each) for text in told)]
    assert models
    return all(eval(conclusion, {}, each) for each in models)


def test_two_arguments_differ_in_one_connective_and_in_whether_the_conclusion_follows() -> None:
    for one, other in (*drawn(2, 3), *drawn(5)):
        assert (follows(one), follows(other)) == (True, False)
        assert (one.premises, one.conclusion) == (other.premises, other.conclusion)
        assert [a is b for a, b in zip(one.chosen, other.chosen, strict=True)].count(False) == 1


def test_new_words_are_other_words_with_the_same_relations(tmp_path: Path) -> None:
    (lexicon := tmp_path / "lexicon.toml").write_text(LEXICON)
    seen, unseen = ({w for each in CONNECTIVES for w in each.words[i].split()} for i in (SEEN, UNSEEN))
    assert not seen & unseen
    detector, some = Detector("clauses", lexicon), [one for one, _ in drawn(2, 3)]
    texts = [[argument.text(words) for argument in some] for words in (SEEN, UNSEEN)]
    known, new = (
        [[(r.relation, r.kind, r.depth) for r in found.relations] for found in detector.find(own)]
        for own in texts
    )
    assert known == new
    (found,) = detector.find([text := "except where ann as well as bob , not carol ."])
    assert found.text == text
    both = [["".join(text[slice(*s)] for s in part) for part in (r.alpha, r.beta)] for r in found.relations]
    assert both == [["not carol", "ann as well as bob"], ["ann", "bob"], ["carol", ""]]


def test_the_table_and_its_control_of_other_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arguments, "twos", (8, 2))
    settings = {"train.steps": 2, "train.threads": 1, "task.batch_size": 4}
    labels = (PLAIN, OTHERS, "logical, K = 1")
    request = ExperimentRequest(data="", directory=tmp_path, rows=labels, seeds=(0,), settings=settings)
    report = ARGUMENTS.run(request, Console(quiet=True))
    assert {(figure["row"], figure["seeds"]) for figure in report.figures} >= {(label, 1) for label in labels}
    rows = read_rows(tmp_path / RESULTS, ArgumentRow)
    assert [(row.arm, row.type, row.arguments) for row in rows] == [(a, t, 4) for a in labels for t in TESTS]
    tasks = [cell.task for cell in ARGUMENTS.matrix_for(request).cells()]
    own, others = (task.prepare().splits["train"].rows for task in tasks[:2])
    pairs = [two for both in zip(own, others, strict=True) for two in zip(*both, strict=True)]
    assert all((a.ids == b.ids).all() for a, b in pairs)
    assert not all((a.levels == b.levels).all() for a, b in pairs)
    assert [len(own[0][0].levels), tasks[2].options.depth] == [3, 1]

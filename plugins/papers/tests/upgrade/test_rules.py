"""Rules in words: their answers by a plain loop, both samplers, and the table at tiny sizes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from rich.console import Console

import peirce
from peirce_papers.upgrade.experiment import RULES, SHUFFLED, RulesRow
from peirce_papers.upgrade.networks import SCRATCH
from peirce_papers.upgrade.rules import ATTRIBUTES, NAMES, PLAIN, SAMPLERS, Problem, problems
from peirce_papers.upgrade.task import Rules, RulesOptions, shuffled_relations
from peirce_training.experiments import RESULTS, ExperimentRequest, read_rows

EACH = pytest.mark.parametrize("sampler", SAMPLERS)


def drawn(sampler: str, count: int = 60, part: int = 1) -> list[Problem]:
    return list(islice(problems(sampler, part, (1, 2, 3, 5), Random(3)), count))


def read(problem: Problem) -> tuple[set[str], list[tuple[list[str], str]]]:
    """The facts and the rules of a problem's text."""
    text = " ".join(word for word, _ in problem.words())
    sentences = [each.strip() for each in text.split(".") if each.strip()]
    facts = {each.split(" is ")[1] for each in sentences if " is " in each}
    rules = [each.split(" if ") for each in sentences if " if " in each]
    return facts, [(premises.split(" and "), conclusion) for conclusion, premises in rules]


@EACH
def test_what_follows_is_what_a_plain_loop_over_the_text_finds(sampler: str) -> None:
    for problem in drawn(sampler):
        facts, rules = read(problem)
        known, rounds = {*facts}, dict.fromkeys(facts, 0)
        for depth in range(1, len(rules) + 1):
            new = {so for premises, so in rules if {*premises} <= known} - known
            known |= new
            rounds |= dict.fromkeys(new, depth)
        word, said = problem.question
        question = word if said else f"not {word}"
        assert (question in known) is problem.answer
        assert not problem.answer or rounds[question] == problem.depth
        assert not any(f"not {each}" in known for each in known)


@EACH
def test_answers_and_depths_are_balanced_and_each_theory_could_have_either_answer(sampler: str) -> None:
    for i, problem in enumerate(drawn(sampler)):
        assert (problem.answer, problem.depth) == (i % 2 == 0, (1, 2, 3, 5)[i // 2 % 4])
        theory = problem.theory
        alike = {each in theory.follows for each in theory.conclusions if theory.depth(each) == problem.depth}
        assert alike == {True, False}


def test_training_has_no_word_of_the_tests_and_no_deeper_conclusion() -> None:
    data = Rules(RulesOptions(problems=60, tests=4)).read()
    words = [{word for each in split for word, _ in each.words()} for split in data.values()]
    assert words[0] & words[1] == {*PLAIN}
    assert not {*ATTRIBUTES[0], *NAMES[0]} & {*ATTRIBUTES[1], *NAMES[1]}
    assert max(each.theory.depth(c) for each in data["train"] for c in each.theory.conclusions) == 3
    assert {each.sampler for each in data["train"]} == {"rules first"}
    assert {(each.sampler, each.depth) for each in data["test"]} == {
        (s, d) for s in SAMPLERS for d in (1, 2, 3, 4, 6, 8)
    }


def test_labels_stand_at_conclusions_and_in_tests_at_the_question() -> None:
    for problem in drawn("rules first", 8):
        theory = problem.theory
        labels = [(word, label) for word, label in problem.words() if label is not None]
        assert labels == [(rule.conclusion[0], rule.conclusion in theory.follows) for rule in theory.rules]
        asked = {(word, label) for word, label in problem.words(every=False) if label is not None}
        assert asked == {(problem.question[0], problem.answer)}


def test_pairs_with_the_same_attribute_are_told(base: Path) -> None:
    task = Rules(RulesOptions(problems=12, tests=2, tokenizer=str(base / "assets")))
    data = task.prepare()
    batch = task.batch(data, "train", np.arange(12), None)
    for problem, ids, edges in zip(task.read()["train"], batch["input_ids"], batch["edge_ids"], strict=True):
        words = ["", *(word for word, _ in problem.words()), ""]
        said = [(word, words[i - 1] == "not") for i, word in enumerate(words)]
        for x, one in enumerate(said):
            for y, other in enumerate(said):
                same = one[0] == other[0] and one[0] not in ("", *PLAIN)
                assert edges[x, y] == (int(one[1] != other[1]) if same else 2)
        assert len(words) <= len(ids)


def test_the_table_with_its_controls(base: Path, tmp_path: Path) -> None:
    settings = {
        "train.steps": 2,
        "task.batch_size": 4,
        "task.problems": 8,
        "task.tests": 2,
        "train.threads": 1,
    }
    labels = ("fine-tuned", "jm.atp, same words", SHUFFLED, "another attention", "adapters", SCRATCH)
    request = ExperimentRequest(
        data=str(base), directory=tmp_path, rows=labels, seeds=(0,), settings=settings
    )
    report = RULES.run(request, Console(quiet=True))
    assert {figure["row"] for figure in report.figures} == {*labels, "always the same"}
    rows = read_rows(tmp_path / RESULTS, RulesRow)
    assert {(row.arm, row.sampler, row.depth) for row in rows} == {
        (label, sampler, depth) for label in labels for sampler in SAMPLERS for depth in (1, 2, 3, 4, 6, 8)
    }
    runs = {row.arm: row.run for row in rows}
    parameters = {row.arm: row.parameters for row in rows}
    assert len({*runs.values()}) == len(labels)
    assert parameters[SHUFFLED] == parameters[labels[1]]
    assert len(list(tmp_path.glob("*.png"))) == 2
    shuffles_pairs(peirce.load(tmp_path / runs[SHUFFLED]).eval())


def shuffles_pairs(model: peirce.Model) -> None:
    """Within `shuffled_relations` a text's outputs change, those without it do not, and padding changes nothing."""
    inputs = {"input_ids": torch.tensor([[2, 11, 5, 12, 9, 13, 6, 12, 9, 3]])}
    padded = {"input_ids": torch.nn.functional.pad(inputs["input_ids"], (0, 3))}
    padded["attention_mask"] = padded["input_ids"] != 0
    for each in (inputs, padded):
        each["edge_ids"] = (each["input_ids"][:, :, None] != each["input_ids"][:, None, :]).long()
    with torch.no_grad():
        for layer in model.network.get_submodule("relations").children():
            for name, parameter in layer.named_parameters():
                if "output" in name or "scores" in name:
                    parameter.normal_()
        before, whole = model(**inputs)["unary"], model(**padded)["unary"]
        with shuffled_relations(model):
            assert not torch.allclose(before, model(**inputs)["unary"], atol=1e-4)
            assert bool(model(**padded)["unary"].isfinite().all())
        torch.testing.assert_close(model(**inputs)["unary"], before)
        torch.testing.assert_close(whole[:, :10], before, atol=1e-4, rtol=1e-4)

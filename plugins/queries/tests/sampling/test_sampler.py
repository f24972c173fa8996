from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from kgqa_reference import brute_force

from peirce.errors import TaskError
from peirce_queries.engine.answers import answers
from peirce_queries.engine.template import Groundings, Slot, Template
from peirce_queries.graphs.graph import SPLITS, Graph, Split, from_ids, from_names, load_graph, with_inverses
from peirce_queries.languages.language import Variable, parse
from peirce_queries.languages.types import QueryType, hard_types, load_types
from peirce_queries.sampling.lookup import Lookup
from peirce_queries.sampling.sampler import TypeSampler, sample
from peirce_queries.sampling.symmetry import canonical, redundant, repetitions, symmetries

TYPES = load_types()


def _graph(splits: Mapping[Split, np.ndarray], entities: int, relations: int) -> Graph:
    names = [f"a{i}" for i in range(entities)], [f"p{i}" for i in range(relations)]
    return from_ids("random", *names, splits)


def _dense(entities: int, relations: int, density: float, seed: int) -> Graph:
    random = np.random.default_rng(seed)
    every = np.array(list(product(range(entities), range(relations), range(entities))), np.int32)
    which = random.choice(len(SPLITS), size=len(every), p=[0.7, 0.15, 0.15])
    there = random.random(len(every)) < density
    return _graph({s: every[there & (which == i)] for i, s in enumerate(SPLITS)}, entities, relations)


SMALL = _dense(8, 5, 0.25, 0)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("split", ["train", "test"])
def test_queries_of_every_type_are_sound(name: str, split: Split) -> None:
    (queries,) = sample([TYPES[name]], SMALL, split, 3, seed=1)
    assert len(queries) == 3
    assert set(queries.answers) == set(SPLITS)
    for row in range(3):
        query = queries.query(row, SMALL)
        exact = {s: brute_force(query, SMALL, s) for s in SPLITS}
        for s, found in queries.answers.items():
            assert found[row].tolist() == exact[s]
        assert exact[split]
        if split == "test":
            assert set(exact["test"]) - set(exact["valid"])
        for conjunction in query.conjunctions():
            assert len(conjunction) in {len(c) for c in TYPES[name].query.conjunctions()}


def _less(template: Template, dropped: Slot | None = None, branch: int = -1) -> Template:
    """The template with one negated atom taken for true, or without one conjunction."""
    kept = [c for i, c in enumerate(template.conjunctions) if i != branch]
    return evolve(template, conjunctions=tuple(tuple(slot for slot in c if slot != dropped) for c in kept))


def _all_valid(kind: QueryType, graph: Graph, split: Split, *, hard: bool = False) -> set[bytes]:
    """Every grounding that meets the sampler's conditions, found by trying all of them."""
    template = Template.of(kind.query)
    places = len(template.relations)
    ids = [range(graph.relations)] * places + [range(graph.entities)] * len(template.constants)
    every = np.array(list(product(*ids)), np.int64)
    groundings = Groundings(every[:, :places], every[:, places:])
    index = graph.index(split)
    counts = answers(template, groundings, index).counts
    good = (counts > 0) & ~redundant(groundings, repetitions(template))
    for slot in template.negated:
        good &= answers(_less(template, slot), groundings, index).counts > counts
    branches = range(len(template.conjunctions))
    for branch in branches if len(branches) > 1 else ():
        good &= answers(_less(template, branch=branch), groundings, index).counts < counts
    if split != "train":
        before = answers(template, groundings, graph.index(SPLITS[SPLITS.index(split) - 1]))
        inferred = answers(template, groundings, index).minus(before, graph.entities)
        good &= inferred.counts > 0
        if hard:
            missing = Lookup.of(graph).links[SPLITS.index(split) - 1].missing(template, groundings, inferred)
            good &= np.bincount(inferred.queries[missing.hard], minlength=len(good)) > 0
    return set(canonical(groundings[good], symmetries(template)))


OWN = {
    "shared": "(r1(s1,f) & !r2(s2,f)) | (r3(s3,f) & !r2(s2,f))",
    "loop": "r1(f,f)",
    "complement": "!r1(s1,f)",
    "apart": "!r1(s1,f) & r2(e1,e2) & r3(e2,s2)",
    "ground": "r1(s1,s2) & r2(s1,f)",
    "unbound": "r1(e1,f) & !r2(s1,e1)",
}
"""Shapes of a user's own, among them branches of which only one loses an answer to a negation that they share."""
# fmt: off
DRAWN = (
    "1p", "2p", "3p", "2i", "3i", "ip", "pi", "2in", "inp", "pin", "pni", "2u", "up", "2m", "2nm",
    "3mp", "2il", "3il", "3c", "2pi", "2pu", "u2p", "2pni", "inu", "ilp", "pil", "3inl", "pinl", "3nmp",
    "3cn", "unpi", "upni",
)
# fmt: on


@pytest.mark.parametrize("name", [*DRAWN, *OWN])
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_valid_grounding_can_be_drawn_and_no_other(name: str, split: Split) -> None:
    graph = _dense(5, 3, 0.25, 3)
    kind = TYPES.get(name) or QueryType(name, parse(OWN[name]), True)
    wanted = _all_valid(kind, graph, split)
    if not wanted:
        with pytest.raises(TaskError, match=f"no {name} query"):
            sample([kind], graph, split, 1, seed=0)
        return
    every: set[bytes] = set()
    for seed in range(20):
        (queries,) = sample([kind], graph, split, len(wanted) + 1, seed)
        found = canonical(queries.groundings, symmetries(queries.template))
        assert len(set(found)) == len(found)
        every |= set(found)
        if every >= wanted:
            break
    assert every == wanted


@pytest.mark.parametrize("name", ["1p", "2p", "2i", "pi", "2in", "pni", "2u", "up", "2m"])
def test_every_hard_grounding_can_be_drawn_and_no_other(name: str) -> None:
    graph = _dense(5, 3, 0.25, 5)
    wanted = _all_valid(TYPES[name], graph, "test", hard=True)
    sampler = TypeSampler(TYPES[name], Lookup.of(graph), "test", 0, 100, hard=True)
    every: set[bytes] = set()
    for number in range(20):
        if every >= wanted:
            break
        found = sampler.block(number).queries.groundings
        every |= set(canonical(found, symmetries(sampler.template)))
    assert every == wanted
    assert wanted < _all_valid(TYPES[name], graph, "test") or name in ("1p", "2in")


def test_hard_queries_are_balanced() -> None:
    kind, graph = hard_types()["4i"], load_graph("umls")
    (queries,) = sample([kind], graph, "test", 60, 0, hard=True)
    assert len(queries) == 60
    for names in (queries.groundings.relations, queries.groundings.constants):
        assert np.bincount(np.concatenate([np.unique(row) for row in names])).max() <= 60 / 5
    (easy,) = sample([kind], graph, "test", 60, 0)
    relations = [np.unique(row) for row in easy.groundings.relations]
    assert np.bincount(np.concatenate(relations)).max() > 60 / 5


def test_hard_queries_have_any_number_of_answers_and_do_not_go_straight_back() -> None:
    star = {"train": [("b", "r", f"a{i}") for i in range(150)], "test": [("b", "r", "c")]}
    (queries,) = sample([TYPES["1p"]], from_names("star", star), "test", 1, 0, hard=True)
    assert queries.answers["test"].counts.tolist() == [151]
    both = with_inverses(_dense(12, 3, 0.3, 2))
    for hard in (False, True):
        (paths,) = sample([TYPES["2p"]], both, "test", 40, 0, hard=hard)
        back = np.abs(np.diff(paths.groundings.relations, axis=1)) == both.relations // 2
        assert back.any() != hard
    with pytest.raises(TaskError, match="no 2i query with an answer that needs all of its links"):
        sample([TYPES["2i"]], from_names("star", star), "test", 1, 0, hard=True)


def test_blocks_hold_no_renaming_of_an_earlier_one_and_continue_each_other() -> None:
    random, sizes = np.random.default_rng(1), np.array([300, 10, 300])
    counts = {"train": 6000, "valid": 600, "test": 600}
    splits = {s: random.integers(sizes, size=(count, 3), dtype=np.int32) for s, count in counts.items()}
    graph = _graph(splits, 300, 10)
    (queries,) = sample([TYPES["2i"]], graph, "train", 20_000, seed=4)
    assert len(queries) == 20_000
    assert len(set(canonical(queries.groundings, symmetries(queries.template)))) == 20_000
    (few,) = sample([TYPES["2i"]], graph, "train", 9_000, seed=4)
    assert (few.groundings.constants == queries.groundings.constants[:9_000]).all()
    few_answers = few.answers["test"].entities
    assert (queries.answers["test"].entities[: len(few_answers)] == few_answers).all()


def test_answers_are_capped() -> None:
    (queries,) = sample([TYPES["2u"]], SMALL, "train", 30, seed=0, max_answers=3)
    assert queries.answers["train"].counts.max() == 3
    with pytest.raises(TaskError, match=r"no 2u query with 1 to 1 answers.*raise max_answers"):
        sample([TYPES["2u"]], SMALL, "train", 30, seed=0, max_answers=1)
    late = from_names("late", {"train": [("a", "r", "b")]})
    with pytest.raises(TaskError, match=r"the valid split of 'late' adds no triples"):
        sample([TYPES["1p"]], late, "valid", 30, seed=0)


def test_renamings() -> None:
    counts = {"1p": 1, "2p": 1, "3i": 6, "2in": 1, "up": 2, "3im": 12, "2pu": 2}
    assert {name: len(symmetries(Template.of(TYPES[name].query))) for name in counts} == counts
    template = Template.of(TYPES["2pi"].query)
    # r1 s1 r2 r3 s2 r4: the two branches may change places
    relations = np.array([[1, 2, 3, 4], [3, 4, 1, 2], [3, 2, 1, 4]])
    constants = np.array([[5, 6], [6, 5], [6, 5]])
    first, same, other = canonical(Groundings(relations, constants), symmetries(template))
    assert first == same
    assert first != other


def _implied(atoms: list[tuple[bool | int | str, ...]]) -> bool:
    """Whether an atom is there twice, or the atoms map into a part of them, by trying every map of the variables."""
    variables = sorted({end for *_, head, tail in atoms for end in (head, tail) if str(end).startswith("e")})
    terms = sorted({end for *_, head, tail in atoms for end in (head, tail)}, key=str)
    for images in product(terms, repeat=len(variables)):
        to = dict(zip(variables, images, strict=True))
        if {(sign, r, to.get(head, head), to.get(tail, tail)) for sign, r, head, tail in atoms} < set(atoms):
            return True
    return len(set(atoms)) < len(atoms)


@pytest.mark.parametrize("name", TYPES)
def test_redundancy_is_that_of_maps_into_a_part(name: str) -> None:
    template, random = Template.of(TYPES[name].query), np.random.default_rng(1)
    names = (template.relations, template.constants)
    groundings = Groundings(*(random.integers(2, size=(150, len(own))) for own in names))
    for row, found in enumerate(redundant(groundings, repetitions(template))):
        relations, constants = groundings.relations[row].tolist(), groundings.constants[row].tolist()

        def atom(slot: Slot, relations=relations, constants=constants) -> tuple[bool | int | str, ...]:
            ends = (str(e) if isinstance(e, Variable) else constants[e] for e in (slot.head, slot.tail))
            return slot.positive, relations[slot.relation], *ends

        assert found == any(_implied([*map(atom, conjunction)]) for conjunction in template.conjunctions)


def test_a_type_without_queries_is_refused_or_left_out(tmp_path: Path) -> None:
    circle = "abcdefa"  # no two entities have two relations, so there is no 2m query
    triples = [f"{h}\t{'rs'[i % 2]}\t{t}\n" for i, (h, t) in enumerate(pairwise(circle))]
    (tmp_path / "train.tsv").write_text("".join(triples))
    (tmp_path / "valid.tsv").write_text("a\tr\tc\n")
    (tmp_path / "test.tsv").write_text("b\ts\td\n")
    graph, types = load_graph(str(tmp_path)), [TYPES[name] for name in ("1p", "2m", "2p")]
    with pytest.raises(TaskError, match=r"no 2m query .* absent=leave_out"):
        sample(types, graph, "train", 3, 0)
    assert [each.type.name for each in sample(types, graph, "train", 3, 0, leave_out=True)] == ["1p", "2p"]
    with pytest.raises(TaskError, match="no 2m query"):
        sample(types[1:2], graph, "train", 3, 0, leave_out=True)

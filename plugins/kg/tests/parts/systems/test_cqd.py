"""CQD: the beam against all values of all variables, and what the optimisation of vectors finds."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from query_systems import ENTITIES, TYPES, VOCABULARY, grounded, run, small
from torch import Tensor

from peirce.registry import Registry
from peirce_kg.parts.systems.cqd import Cqd
from peirce_kg.parts.systems.system import complex_product
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.languages.language import FREE, Variable

EXPRESSED = [n for n, kind in TYPES.items() if Cqd.why_unsupported(Template.of(kind.query)) is None]


def _truths(vectors: Tensor) -> Tensor:
    """sigma of every score, [relations, heads, tails]."""
    entities = vectors[ENTITIES]
    relations = vectors[VOCABULARY.first_relation : VOCABULARY.first_relation + 3]
    return (complex_product(entities.unsqueeze(0), relations.unsqueeze(1)) @ entities.T).sigmoid()


def _brute(truths: Tensor, template: Template, groundings: Groundings, row: int, tnorm: str) -> Tensor:
    """The greatest truth over all values of all variables, of every answer."""
    best = []
    for atoms in template.conjunctions:
        bound = {end for s in atoms for end in (s.head, s.tail) if isinstance(end, Variable)} - {FREE}
        found = torch.zeros(5, dtype=torch.float64)
        for answer in range(5):
            for values in product(range(5), repeat=len(bound)):
                value = dict(zip(sorted(bound, key=str), values, strict=True)) | {FREE: answer}
                value |= dict(enumerate(groundings.constants[row].tolist()))
                relations = groundings.relations[row]
                every = torch.stack(
                    [truths[relations[s.relation], value[s.head], value[s.tail]] for s in atoms]
                )
                truth = every.prod() if tnorm == "product" else every.min()
                found[answer] = torch.maximum(found[answer], truth)
        best.append(found)
    whole = torch.stack(best)
    return 1 - (1 - whole).prod(0) if tnorm == "product" else whole.amax(0)


@pytest.mark.parametrize("tnorm", ["product", "min"])
def test_a_beam_of_all_entities_finds_the_best_values(tnorm: str, registry: Registry) -> None:
    model = small("cqd-beam", registry, tnorm=tnorm, candidates=5)
    truths = _truths(model.network.get_parameter("vectors").detach())
    assert {"2m", "im", "3pm", "up"} <= set(EXPRESSED)
    assert not {"2in", "2il", "3c"} & set(EXPRESSED)
    for kind in EXPRESSED:
        template, groundings = grounded(kind, rows=1)
        wanted = _brute(truths, template, groundings, 0, tnorm)
        found = run(model, template, groundings)[0].exp()
        torch.testing.assert_close(found, wanted, msg=lambda text, kind=kind: f"{kind}: {text}")


def _formula(kind: str, atoms: list[Tensor], tnorm: str) -> Tensor:
    """The truth of a type's formula from that of its atoms, in their order, as the paper has it."""

    def both(*values: Tensor) -> Tensor:
        found = values[0]
        for value in values[1:]:
            found = found * value if tnorm == "product" else torch.minimum(found, value)
        return found

    def either(one: Tensor, other: Tensor) -> Tensor:
        return one + other - one * other if tnorm == "product" else torch.maximum(one, other)

    if kind == "up":
        return both(either(atoms[0], atoms[1]), atoms[2])
    if kind == "2u":
        return either(atoms[0], atoms[1])
    if kind == "2pu":
        return either(both(atoms[0], atoms[1]), both(atoms[2], atoms[3]))
    return both(*atoms)


def _published(
    vectors: Tensor,
    template: Template,
    groundings: Groundings,
    kind: str,
    tnorm: str,
    options: dict[str, Any],
) -> Tensor:
    """The scores of the published continuous optimisation of one query, atom by atom, with complex numbers."""

    def number(values: Tensor) -> Tensor:
        return torch.complex(*values.chunk(2, -1))

    entities = number(vectors[ENTITIES])
    begin = torch.randn(9, vectors.shape[1], generator=torch.Generator().manual_seed(0)) * 1e-3
    names = {FREE: 0, **{Variable(f"e{k}"): k for k in range(1, 9)}}
    atoms = template.query.atoms
    relations = dict(zip(template.relations, groundings.relations[0].tolist(), strict=True))
    constants = dict(zip(template.constants, groundings.constants[0].tolist(), strict=True))
    used = {end for atom in atoms for end in (atom.head, atom.tail) if isinstance(end, Variable)}
    guesses = {variable: begin[names[variable]].double().requires_grad_() for variable in used}

    def end(term: object) -> Tensor:
        if isinstance(term, Variable):
            return number(guesses[term])
        return entities[constants[term.name]]

    def truth(atom: Any, tail: Tensor) -> Tensor:
        relation = number(vectors[VOCABULARY.first_relation + relations[atom.relation]])
        return (end(atom.head) * relation * tail.conj()).sum(-1).real.sigmoid()

    adam, before, now = torch.optim.Adam(list(guesses.values()), lr=options["lr"]), 1000.0, 999.0
    for _ in range(options["steps"]):
        if abs(before - now) <= 1e-9:
            break
        before = now
        value = _formula(kind, [truth(atom, end(atom.tail)) for atom in atoms], tnorm)
        loss = -value + options["n3"] * sum(number(v).abs().pow(3).sum() for v in guesses.values())
        adam.zero_grad()
        loss.backward()
        adam.step()
        now = loss.item()
    with torch.no_grad():
        every = [truth(atom, entities if atom.tail == FREE else end(atom.tail)) for atom in atoms]
        return _formula(kind, [value.expand(5) for value in every], tnorm)


@pytest.mark.parametrize("tnorm", ["product", "min"])
@pytest.mark.parametrize("kind", ["1p", "2p", "3p", "2i", "pi", "ip", "2u", "up", "2pu"])
def test_the_published_truths_atom_by_atom(kind: str, tnorm: str, registry: Registry) -> None:
    options = {"steps": 25, "lr": 0.1, "n3": 0.03}
    model = small("cqd-continuous", registry, tnorm=tnorm, **options)
    vectors = model.network.get_parameter("vectors").detach()
    template, groundings = grounded(kind, rows=2)
    found = run(model, template, groundings).exp()
    for row in range(2):
        wanted = _published(vectors, template, groundings[row : row + 1], kind, tnorm, options)
        torch.testing.assert_close(found[row], wanted)


@pytest.mark.parametrize("tnorm", ["product", "min"])
@pytest.mark.parametrize(("kind", "unions"), [("2i", "whole"), ("3i", "apart"), ("pi", "whole")])
def test_intersections_join_raw_scores(kind: str, unions: str, tnorm: str, registry: Registry) -> None:
    made = {"tnorm": tnorm, "steps": 3, "unions": unions}
    raw = small("cqd-continuous", registry, intersections="scores", **made)
    vectors = raw.network.get_parameter("vectors").detach()
    template, groundings = grounded(kind, rows=2)
    found = run(raw, template, groundings)
    if kind in ("1p", "pi"):
        assert torch.equal(found, run(small("cqd-continuous", registry, **made), template, groundings))
        return
    entities = vectors[ENTITIES]
    for row, scores in enumerate(found):
        pairs = zip(groundings.constants[row].tolist(), groundings.relations[row].tolist(), strict=True)
        first = VOCABULARY.first_relation
        together = torch.stack(
            [complex_product(entities[h], vectors[first + r]) @ entities.T for h, r in pairs]
        )
        torch.testing.assert_close(scores, together.prod(0) if tnorm == "product" else together.amin(0))


def test_a_query_that_has_converged_is_left_alone(registry: Registry) -> None:
    template, groundings = grounded("2p", rows=3)
    alone = [grounded("2p", rows=3)[1][slice(row, row + 1)] for row in range(3)]
    model = small("cqd-continuous", registry, n3=0.5, steps=3000)
    together = run(model, template, groundings)
    for row in range(3):
        torch.testing.assert_close(run(model, template, alone[row])[0], together[row])


def _branches(truths: Tensor, groundings: Groundings, row: int, kind: str, tnorm: str, count: int) -> Tensor:
    """What the published beam finds, branch by branch: every value is a pair of its truth and an entity."""
    first, constants = groundings.relations[row], groundings.constants[row]

    def both(one: Tensor, other: Tensor) -> Tensor:
        return one * other if tnorm == "product" else torch.minimum(one, other)

    def likeliest(scores: Tensor) -> list[tuple[Tensor, int]]:
        return [(scores[entity], int(entity)) for entity in scores.argsort(descending=True)[:count]]

    def onwards(branches: list[tuple[Tensor, int]], relation: int) -> list[tuple[Tensor, int]]:
        found = []
        for truth, entity in branches:
            found += [(both(edge, truth), then) for edge, then in likeliest(truths[relation, entity])]
        return found

    def all_tails(branches: list[tuple[Tensor, int]], relation: int) -> Tensor:
        return torch.stack([both(truths[relation, entity], truth) for truth, entity in branches]).amax(0)

    begun = likeliest(truths[first[0], constants[0]])
    if kind == "3p":
        return all_tails(onwards(begun, first[1]), first[2])
    if kind == "pi":
        return both(all_tails(begun, first[1]), truths[first[2], constants[1]])
    if kind == "ip":  # the candidates of the second atom, with the truth of the first atom's own candidates
        second = likeliest(truths[first[1], constants[1]])
        return all_tails([(both(b, a), entity) for a, _ in begun for b, entity in second], first[2])
    assert kind == "up"
    return all_tails(begun, first[2])  # the published code forgets the second branch


@pytest.mark.parametrize("tnorm", ["product", "min"])
@pytest.mark.parametrize("kind", ["3p", "pi", "ip", "up"])
def test_branches_apart_are_those_of_the_published_beam(kind: str, tnorm: str, registry: Registry) -> None:
    template, groundings = grounded(kind, rows=6)
    two = {"tnorm": tnorm, "candidates": 2}
    models = [small("cqd-beam", registry, **two, branches=branches) for branches in ("apart", "joined")]
    truths = _truths(models[0].network.get_parameter("vectors").detach())
    separate, together = (run(model, template, groundings).exp() for model in models)
    wanted = torch.stack([_branches(truths, groundings, row, kind, tnorm, 2) for row in range(6)])
    torch.testing.assert_close(separate, wanted)
    if kind == "pi":
        torch.testing.assert_close(separate, together)
    else:
        assert not torch.allclose(separate, together)
    if kind == "3p":  # one candidate has no other branch
        one = run(small("cqd-beam", registry, tnorm=tnorm, candidates=1), template, groundings).exp()
        wanted = torch.stack([_branches(truths, groundings, row, kind, tnorm, 1) for row in range(6)])
        torch.testing.assert_close(one, wanted)


def test_training_sees_a_link_predictor(registry: Registry) -> None:
    model = small("cqd-beam", registry)
    template, groundings = grounded("1p")
    found = run(model, template, groundings)
    scores = run(model.train(), template, groundings)
    torch.testing.assert_close(F.logsigmoid(scores), found)

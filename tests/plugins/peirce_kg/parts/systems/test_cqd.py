"""CQD: the beam against all values of all variables, and what the optimisation of vectors finds."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from peirce.compose import export
from peirce.errors import ExportError
from peirce.registry import Registry
from peirce_kg.encoding.literal_inputs import shape_of
from peirce_kg.engine.template import Groundings, Template
from peirce_kg.parts.systems.complex_numbers import times
from peirce_kg.parts.systems.cqd import Cqd
from peirce_kg.queries.language import FREE, Variable
from query_systems import ENTITIES, TYPES, VOCABULARY, grounded, run, small
from torch import Tensor

EXPRESSED = [n for n, kind in TYPES.items() if Cqd.unsupported(shape_of(Template.of(kind.query))) is None]


def _truths(vectors: Tensor) -> Tensor:
    """sigma of every score, [relations, heads, tails]."""
    entities = vectors[ENTITIES]
    relations = vectors[VOCABULARY.first_relation : VOCABULARY.first_relation + 3]
    return (times(entities.unsqueeze(0), relations.unsqueeze(1)) @ entities.T).sigmoid()


def _brute(truths: Tensor, template: Template, groundings: Groundings, row: int, tnorm: str) -> Tensor:
    """The greatest truth over all values of all variables, of every answer."""
    best = []
    for conjunction in template.conjunctions:
        bound = {end for s in conjunction for end in (s.head, s.tail) if isinstance(end, Variable)} - {FREE}
        found = torch.zeros(5, dtype=torch.float64)
        for answer in range(5):
            for values in product(range(5), repeat=len(bound)):
                value = dict(zip(sorted(bound, key=str), values, strict=True)) | {FREE: answer}
                every = torch.stack(
                    [
                        truths[
                            groundings.relations[row, slot.relation],
                            *(
                                value[end] if isinstance(end, Variable) else groundings.constants[row, end]
                                for end in (slot.head, slot.tail)
                            ),
                        ]
                        for slot in conjunction
                    ]
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


def test_a_beam_of_one_follows_the_likeliest_value(registry: Registry) -> None:
    model = small("cqd-beam", registry, candidates=1)
    truths = _truths(model.network.get_parameter("vectors").detach())
    template, groundings = grounded("2p", rows=4)
    first, second = groundings.relations.T
    between = truths[first, groundings.constants[:, 0]]
    likely, value = between.max(1)
    wanted = likely.unsqueeze(1) * truths[second, value]
    torch.testing.assert_close(run(model, template, groundings).exp(), wanted)


@pytest.mark.parametrize("tnorm", ["product", "min"])
def test_vectors_are_optimised_until_the_query_is_true(tnorm: str, registry: Registry) -> None:
    template, groundings = grounded("2p", rows=2)
    begun, found = (
        run(small("cqd-continuous", registry, tnorm=tnorm, steps=steps), template, groundings)
        for steps in (0, 100)
    )
    # Small vectors in the variables' places leave every truth near 1/2; others make the first atom as good as true.
    vectors = small("cqd-continuous", registry).network.get_parameter("vectors")
    torch.testing.assert_close(
        begun.exp(), torch.full_like(begun, 0.25 if tnorm == "product" else 0.5), atol=2e-3, rtol=0
    )
    assert found.amax() > begun.amax() + 0.3
    alone, one = grounded("1p", rows=2)
    model = small("cqd-continuous", registry, tnorm=tnorm)
    asked = times(
        vectors[VOCABULARY.first_entity + torch.from_numpy(one.constants[:, 0])],
        vectors[VOCABULARY.first_relation + torch.from_numpy(one.relations[:, 0])],
    )
    torch.testing.assert_close(run(model, alone, one), F.logsigmoid(asked @ vectors[ENTITIES].T))


def test_a_query_is_optimised_by_itself(registry: Registry) -> None:
    model = small("cqd-continuous", registry, steps=20)
    template, groundings = grounded("upi", rows=3)
    together = run(model, template, groundings)
    torch.testing.assert_close(run(model, template, groundings[slice(2, 3)]), together[2:])


def test_training_sees_a_link_predictor(registry: Registry) -> None:
    model = small("cqd-beam", registry)
    template, groundings = grounded("1p")
    found = run(model, template, groundings)
    scores = run(model.train(), template, groundings)
    torch.testing.assert_close(F.logsigmoid(scores), found)


def test_a_search_is_no_network_to_export(registry: Registry, tmp_path: Path) -> None:
    model = small("cqd-continuous", registry).float()
    with pytest.raises(ExportError, match="searches for answers and is no network"):
        export(model, path=tmp_path / "model.onnx", to="onnx", registry=registry)

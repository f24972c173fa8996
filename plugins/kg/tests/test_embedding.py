"""Training entity and relation vectors, and the command that does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from attrs import evolve
from kgqa_command import run
from small_specs import NARROW

from peirce.compose import build
from peirce.errors import TaskError
from peirce.registry import Registry, load_spec
from peirce_kg.embedding.training import PREDICTORS, EmbeddingOptions, LinkPredictor, TransE, _mrr, embed
from peirce_kg.parts.augmenters.kge_files import Predictor, read_kge
from peirce_queries.graphs.graph import Graph, from_names, with_inverses


@pytest.fixture(scope="module")
def graph() -> Graph:
    """A ring of 12 entities with its next and its opposite ones; some triples are left for validation."""
    triples = [(f"e{i}", "next", f"e{(i + 1) % 12}") for i in range(12)]
    triples += [(f"e{i}", "after", f"e{(i + 2) % 12}") for i in range(12)]
    return from_names("ring", {"train": triples[:20], "valid": triples[20:22], "test": triples[22:]})


@pytest.mark.parametrize("model", PREDICTORS)
def test_vectors_learn_and_depend_on_the_seed_alone(model: Predictor, graph: Graph) -> None:
    options = EmbeddingOptions(model=model, dim=8, epochs=12, batch_size=8, lr=0.05, seed=3)
    told: list[tuple[int, float]] = []
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = embed(graph, options, lambda epoch, loss: told.append((epoch, loss)))
    assert torch.equal(torch.get_rng_state(), before)
    assert one.entities.shape == (12, 8)
    assert one.relations.shape == (2, 8)
    assert {one.entities.dtype, one.relations.dtype} == {torch.float32}
    assert [epoch for epoch, _ in told] == list(range(1, 13))
    assert one.losses == [loss for _, loss in told]
    assert one.losses[-1] < one.losses[0]
    assert one.mrr is not None
    assert 1 / 12 < one.mrr <= 1
    torch.manual_seed(6)
    two = embed(graph, options)
    assert torch.equal(one.entities, two.entities)
    assert torch.equal(one.relations, two.relations)


@pytest.mark.parametrize("model", ["distmult", "complex"])
def test_the_published_loss_triple_by_triple(model: Predictor, graph: Graph) -> None:
    """A cross-entropy over all tails, and the cubed moduli of the triple's three vectors, as means over triples."""
    made = PREDICTORS[model](graph, EmbeddingOptions(model=model, dim=6)).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(2))
    entities, relations = (each.detach().numpy() for each in (made.entities, made.relations))
    if model == "complex":
        entities, relations = (each[:, :3] + 1j * each[:, 3:] for each in (entities, relations))
    triples = [(0, 1, 5), (0, 1, 7), (3, 2, 0), (0, 1, 5)]
    wanted = []
    for head, relation, tail in triples:
        scores = [(entities[head] * relations[relation] * other.conj()).sum().real for other in entities]
        fit = np.log(np.exp(scores).sum()) - scores[tail]
        vectors = (entities[head], relations[relation], entities[tail])
        wanted.append(fit + 0.3 * sum((np.abs(vector) ** 3).sum() for vector in vectors))
    loss = made.loss(torch.tensor(triples), 0.3)
    assert loss.item() == pytest.approx(np.mean(wanted))
    loss.backward()
    step, row = 1e-5, made.entities.grad
    for place in ((0, 1), (5, 2), (9, 4)):  # a head, a tail, an entity of no triple
        with torch.no_grad():
            made.entities[place] += step
            above = made.loss(torch.tensor(triples), 0.3).item()
            made.entities[place] -= step
        assert (above - loss.item()) / step == pytest.approx(row[place].item(), abs=1e-3)


def test_what_is_published_is_the_default(graph: Graph) -> None:
    published = EmbeddingOptions(model="complex").recipe
    assert published[:4] == ("adagrad", 0.1, 1000, 0.05)
    assert EmbeddingOptions(model="complex", optimizer="adam").recipe.lr == 1e-3
    options = (EmbeddingOptions(dim=8, epochs=8, n3=n3) for n3 in (0.5, 0.0))
    small, large = (embed(graph, each).entities.abs().mean() for each in options)
    assert small < large
    short = EmbeddingOptions(dim=8, epochs=3)
    whole = embed(graph, short)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("peirce_kg.embedding.training.SCORES", 36)  # three triples at once
        torch.testing.assert_close(embed(graph, short).entities, whole.entities)
    half = embed(graph, evolve(short, half=True))
    assert half.losses == pytest.approx(whole.losses, rel=1e-2)
    assert half.entities.dtype == torch.float32
    assert not torch.equal(half.entities, whole.entities)


class Constant(LinkPredictor):
    """Scores that a rank can be told of: entity e has e, but `tied` ones are equal."""

    converses = False

    def __init__(self, graph: Graph, tied: bool) -> None:
        super().__init__(graph, EmbeddingOptions(dim=2))
        self.tied = tied

    def scores(self, pairs: torch.Tensor) -> torch.Tensor:
        return (torch.zeros(12) if self.tied else torch.arange(12.0)).expand(len(pairs), 12)

    loss = None


@pytest.mark.parametrize("tied", [True, False])
def test_ranks_are_filtered_and_ties_stand_in_the_middle(graph: Graph, tied: bool) -> None:
    known = {tuple(row) for split in ("train", "valid") for row in graph.added[split].tolist()}
    ranks = []
    for head, relation, tail in graph.added["valid"].tolist():
        for target, others in (
            (tail, {e for e in range(12) if (head, relation, e) not in known}),
            (head, {e for e in range(12) if (e, relation, tail) not in known}),
        ):
            ranks.append(1 + (len(others) / 2 if tied else sum(e > target for e in others)))
    assert _mrr(Constant(graph, tied), graph) == pytest.approx(np.mean([1 / r for r in ranks]))


def test_transe_is_a_distance_and_its_converse_leads_back(graph: Graph) -> None:
    made = TransE(graph, EmbeddingOptions(model="transe", dim=6))
    e, r = made.entities, made.relations
    scores = made.scores(torch.tensor([[7, 1], [7, 1 + graph.relations]]))
    wanted = torch.stack([-(e[7] + sign * r[1] - e).abs().sum(1) for sign in (1, -1)])
    torch.testing.assert_close(scores, wanted)


def test_converses_are_kept_as_inverse_relations(graph: Graph) -> None:
    """They score what the graph with inverse relations asks."""
    plain, kept = (embed(graph, EmbeddingOptions(dim=8, epochs=2, inverses=own)) for own in (False, True))
    double = with_inverses(graph)
    assert (double.entity_names, double.relations) == (graph.entity_names, 2 * graph.relations)
    assert {(t, r - 2, h) for h, r, t in double.added["test"].tolist() if r > 1} == {
        tuple(row) for row in graph.added["test"].tolist()
    }
    assert torch.equal(kept.relations[:2], plain.relations)
    assert kept.relations.shape == (4, 8)
    assert np.array_equal(kept.triples, double.added["train"])
    assert kept.facts.graph == "ring-inverses"


def test_what_cannot_work_is_refused(graph: Graph) -> None:
    for model, wrong, said in (
        ("complex", {"dim": 7}, "--dim 7"),
        ("distmult", {"device": "abacus"}, "'abacus'"),
        ("distmult", {"epochs": 40, "lr": 1e30}, "lower --lr"),
        ("transe", {"optimizer": "adagrad"}, "transe"),
        ("transe", {"n3": 0.1}, "transe"),
        ("transe", {"inverses": True}, "transe .*--inverses"),
    ):
        with pytest.raises(TaskError, match=said):
            embed(graph, EmbeddingOptions(model=model, **{"dim": 4, **wrong}))
    with pytest.raises(TaskError, match="the train split of 'late' has no triples"):
        embed(from_names("late", {"test": [("a", "r", "b")]}), EmbeddingOptions(model="distmult", dim=4))


def test_the_command_writes_what_a_spec_reads(tmp_path: Path, registry: Registry) -> None:
    path = tmp_path / "vectors" / "nations.safetensors"
    arguments = ["embed", "--graph", "nations", "--model", "complex", "--dim", "32", "--epochs", "2"]
    told = json.loads(run(*arguments, "-o", str(path), "--json"))
    assert told["schema"] == "peirce.kg.embed/1"
    assert (told["entities"], told["relations"], told["width"]) == (14, 55, 32)
    facts, entities, _ = read_kge(path)
    assert facts.seed == 0
    overrides = {
        "model.input.vocabulary": facts.vocabulary,
        "model.heads.0.first": facts.first_entity,
        "model.heads.0.count": len(entities),
        "model.augmenters.0.file": str(path),
    }
    model = build(load_spec("transformer-relative-complex", {**NARROW, **overrides}), registry=registry)
    first = facts.first_entity
    assert torch.equal(model.network.input.words()[first : first + 14], entities)
    again = run(*arguments, "-o", str(path))
    assert "14 entities and 55 relations, 32 numbers each; filtered MRR" in again

"""The relation graph, the vectors of relations and the scores are those of the published code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from published_numbers import off

import peirce
from peirce.files import read_npz
from peirce.model import Model
from peirce.registry import Registry
from peirce_kg.ultra import relations
from peirce_kg.ultra.relations import shared_heads


@pytest.mark.parametrize("name", ["nations", "synth", "synth_dup"])
def test_all_published_numbers_of_links(golden: Path, published: Callable[[str], Model], name: str) -> None:
    arrays, model = read_npz(golden / f"io_{name}.npz"), published("ultra_3g")
    triples = arrays["triples"].astype(np.int64)
    entities, relations = int(arrays["num_entities"]), int(arrays["num_direct_relations"])
    shared = shared_heads(triples, entities, relations)
    heads = shared.reshape(2 * relations, -1)
    turned = np.roll(np.arange(2 * relations), relations)
    kinds = heads, heads[turned][:, turned], heads[:, turned], heads[turned]
    edges = {(a, b, kind) for kind, own in enumerate(kinds) for a, b in np.argwhere(own).tolist()}
    assert edges == {*zip(*arrays["rel_edge_index"].tolist(), arrays["rel_edge_type"].tolist(), strict=True)}
    graph = {"triples": torch.from_numpy(triples), "shared_heads": torch.from_numpy(shared)}

    def asked(questions: np.ndarray, inverse: int = 0, condition: bool = False) -> np.ndarray:
        entity, relation = torch.from_numpy(questions.astype(np.int64)).unbind(1)
        own = {"condition": relation} if condition else {}
        with torch.inference_mode():
            sets = F.one_hot(entity, entities).float()
            return model(**graph, sets=sets, asked=relation + inverse, **own)["fuzzy_logits"].numpy()

    with torch.inference_mode():
        queries = torch.from_numpy(arrays["rel_query"])
        vectors = model.network.vectors(torch.from_numpy(heads).float(), queries)
    assert off(vectors.transpose(0, 1).numpy(), arrays["rel_repr"]) < 1e-4
    assert off(asked(arrays["q_head_rel"]), arrays["q_head_rel_scores"]) < 1e-4
    # for a head, the vectors are made for the relation itself, and its inverse is asked
    heads_asked = asked(arrays["q_tail_rel"], relations, condition=True)
    assert off(heads_asked, arrays["q_tail_rel_scores"]) < 1e-4
    assert off(asked(arrays["q_tail_invrel"]), arrays["q_tail_invrel_scores"]) < 1e-4
    assert off(heads_asked, arrays["q_tail_invrel_scores"]) > 1e-2


def test_the_graph_of_relations_does_not_depend_on_how_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    triples = np.random.default_rng(0).integers(0, (9, 4, 9), (40, 3))
    whole = shared_heads(triples, 9, 4)
    monkeypatch.setattr(relations, "EXPANDED", 5)
    assert np.array_equal(shared_heads(triples, 9, 4), whole)
    loop = np.zeros_like(whole)
    ends = [(entity, end, r) for h, r, t in triples.tolist() for end, entity in enumerate((h, t))]
    for entity, end, relation in ends:
        for other, its_end, its in ends:
            loop[end, relation, its_end, its] |= entity == other
    assert np.array_equal(whole, loop)


def test_the_ready_spec_has_the_published_size(registry: Registry) -> None:
    model = peirce.build("ultra", registry=registry)
    assert sum(parameter.numel() for parameter in model.parameters()) == 168_705

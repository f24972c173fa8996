"""Trained vectors in place of learned embeddings, and the file that they come from."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import torch
from safetensors.torch import save_file

import peirce
from peirce.compose import build
from peirce.errors import ModelFileError, TaskError
from peirce.model import Model
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_kg.parts.augmenters.kge_files import KgeFacts, read_kge, write_kge

SPEC = Spec.from_toml(
    """
format = 1
[model]
name = "small-kge"
architecture = "transformer"
dims = { layers = 1, unary = 6, heads = 2 }
options = { pooler = false }
input = { vocabulary = 12, token_types = 0, max_length = 16 }
augmenters = [{ use = "kge", file = "" }]
heads = [{ use = "entities", first = 4, count = 5, free = 2 }]
""",
    source="small-kge.toml",
)
FACTS = KgeFacts(
    model="distmult", graph="toy", width=6, epochs=1, seed=0, vocabulary=12, first_entity=4, first_relation=9
)

Vectors = tuple[Path, torch.Tensor, torch.Tensor]


@pytest.fixture
def vectors(tmp_path: Path) -> Vectors:
    generator = torch.Generator().manual_seed(0)
    entities = torch.randn(5, 6, generator=generator)
    relations = torch.randn(3, 6, generator=generator)
    write_kge(tmp_path / "toy.safetensors", FACTS, entities, relations)
    return tmp_path / "toy.safetensors", entities, relations


def _model(registry: Registry, **options: object) -> Model:
    changes = {f"model.augmenters.0.{name}": value for name, value in options.items()}
    return build(SPEC.replace(changes), registry=registry)


def test_entities_and_relations_have_trained_vectors(vectors: Vectors, registry: Registry) -> None:
    path, entities, relations = vectors
    assert read_kge(path)[0] == FACTS
    model = _model(registry, file=str(path))
    own = model.network.input
    words = own.words()
    assert torch.equal(words[4:9], entities)
    assert torch.equal(words[9:], relations)
    assert torch.equal(words[:4], own.embedding.weight[:4])
    ids = torch.arange(12).unsqueeze(0)
    assert torch.equal(own.unary(own.tokens({"input_ids": ids}))[0], words)


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_vectors_stay_and_others_learn(frozen: bool, vectors: Vectors, registry: Registry) -> None:
    path, entities, _ = vectors
    model = _model(registry, file=str(path), frozen=frozen)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    outputs = model(input_ids=torch.tensor([[2, 5, 1]]))
    model.loss("entities", outputs, torch.tensor([3])).backward()
    optimiser.step()
    words = model.network.input.words()
    assert torch.equal(words[4:9], entities) == frozen
    assert torch.equal(words[9:], read_kge(path)[2])  # no relation took part


def test_vectors_of_another_width_are_mapped(vectors: Vectors, tmp_path: Path, registry: Registry) -> None:
    wide = torch.randn(5, 4)
    write_kge(tmp_path / "wide.safetensors", attrs.evolve(FACTS, width=4), wide, torch.randn(3, 4))
    own = _model(registry, file=str(tmp_path / "wide.safetensors"), width=4).network.input
    torch.testing.assert_close(own.words()[4:9], own.augmenters[0].map(wide))
    with pytest.raises(ModelFileError, match="vectors of 4 numbers, and the model takes 6; set width = 4"):
        _model(registry, file=str(tmp_path / "wide.safetensors"))


def test_a_saved_model_needs_no_file(vectors: Vectors, tmp_path: Path, registry: Registry) -> None:
    path, entities, _ = vectors
    _model(registry, file=str(path)).save(tmp_path / "model")
    path.unlink()
    loaded = peirce.load(tmp_path / "model", registry=registry)
    assert torch.equal(loaded.network.input.words()[4:9], entities)
    assert loaded.spec.augmenters[0].options["file"] == str(path)


def test_what_is_no_file_of_vectors_is_named(vectors: Vectors, tmp_path: Path, registry: Registry) -> None:
    path, entities, relations = vectors
    with pytest.raises(ModelFileError, match=r"absent.*`peirce kg embed"):
        _model(registry, file=str(tmp_path / "absent.safetensors"))
    write_kge(path, attrs.evolve(FACTS, vocabulary=20), entities, relations)
    with pytest.raises(ModelFileError, match="'toy', whose queries have 20 tokens, and the model has 12"):
        _model(registry, file=str(path))
    tensors = {"entities": entities, "relations": relations}
    path.write_bytes(path.read_bytes()[:100])
    for facts in (None, {}, {**attrs.asdict(FACTS), "format": 2}):
        if facts is not None:
            save_file(tensors, path, metadata={name: str(value) for name, value in facts.items()})
        with pytest.raises(ModelFileError, match=r"not a file of vectors|lacks the description|format 2"):
            read_kge(path)
    with pytest.raises(TaskError, match="cannot be written"):
        write_kge(tmp_path, FACTS, entities, relations)

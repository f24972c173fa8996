"""The files kept beside a trained model, from which `peirce ask` encodes queries and marks known answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from attrs import evolve

from peirce.errors import ModelFileError
from peirce.files import read_bytes, read_json
from peirce.model import ASSETS, SavedFiles
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_queries import Graph

VOCABULARY = "vocabulary.json"
TRIPLES = "triples.npz"
TRAINING = "training.json"
"""The record of `peirce_training`, whose module would load torch."""


def assets_of(graph: Graph, vocabulary: Vocabulary) -> Mapping[str, bytes]:
    """The assets by file name."""
    return {VOCABULARY: vocabulary.to_bytes(), TRIPLES: graph.to_bytes()}


def read_assets(files: SavedFiles) -> tuple[Vocabulary, Graph]:
    """The inverse of `assets_of`, from the files of a saved model.

    Whether queries are written from their end says the record of the training, and not the vocabulary's file, as a
    model may be evaluated in either direction; a model without a record reads forwards.

    Raises:
        ModelFileError: a file is missing, or the record is damaged. TaskError: an asset is damaged.
    """
    contents, folder, record = {}, files.directory / ASSETS, files.directory / TRAINING
    for name in (VOCABULARY, TRIPLES):
        try:
            contents[name] = read_bytes(files.path(f"{ASSETS}/{name}"), text=name == VOCABULARY)
        except OSError as error:
            raise ModelFileError(
                f"{folder / name} cannot be read: {error.strerror or error}; `peirce train --task kgqa` writes it "
                "beside the model"
            ) from error
    vocabulary = Vocabulary.from_bytes(contents[VOCABULARY], str(folder / VOCABULARY))
    try:
        with suppress(FileNotFoundError):
            reverse = read_json(record)["task"]["options"].get("reverse", False)
            vocabulary = evolve(vocabulary, reversed_=bool(reverse))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelFileError(
            f"{record} cannot be read: {error!r}; restore it from where the model was trained"
        ) from error
    names = vocabulary.graph, vocabulary.entity_names, vocabulary.relation_names
    return vocabulary, Graph.from_bytes(contents[TRIPLES], *names)

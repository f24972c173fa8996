"""The files kept beside a trained model, from which `peirce ask` encodes queries and marks known answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from peirce.errors import ModelFileError
from peirce.files import read_bytes, read_json
from peirce.model import ASSETS, SavedFiles

from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.graphs.graph import Graph

VOCABULARY = "vocabulary.json"
TRIPLES = "triples.npz"
TRAINING = "training.json"
"""The record of `peirce.training`, whose module would load torch."""


def assets_of(graph: Graph, vocabulary: Vocabulary) -> Mapping[str, bytes]:
    """The assets by file name."""
    return {VOCABULARY: vocabulary.to_bytes(), TRIPLES: graph.to_bytes()}


def reads_reversed(directory: Path) -> bool:
    """Whether a model was trained on queries that are written from their end, as the record of its training says.

    The files of the vocabulary do not tell, since a model may be evaluated in either direction.

    Args:
        directory: where the model lies; without a record it reads forwards.

    Raises:
        ModelFileError: the record is damaged.
    """
    path = directory / TRAINING
    try:
        options = read_json(path)["task"]["options"]
        return bool(options.get("reverse", False))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelFileError(
            f"{path} cannot be read: {error!r}; restore it from where the model was trained"
        ) from error


def read_assets(files: SavedFiles) -> tuple[Vocabulary, Graph]:
    """The inverse of `assets_of`, from the files of a saved model.

    Raises:
        ModelFileError: a file is missing. TaskError: one is damaged.
    """
    contents, folder = {}, files.directory / ASSETS
    for name in (VOCABULARY, TRIPLES):
        try:
            contents[name] = read_bytes(files.path(f"{ASSETS}/{name}"), text=name == VOCABULARY)
        except OSError as error:
            raise ModelFileError(
                f"{folder / name} cannot be read: {error.strerror or error}; `peirce train --task kgqa` writes it "
                "beside the model"
            ) from error
    vocabulary = Vocabulary.from_bytes(contents[VOCABULARY], str(folder / VOCABULARY))
    graph = Graph.from_bytes(
        contents[TRIPLES], vocabulary.graph, vocabulary.entity_names, vocabulary.relation_names
    )
    return vocabulary, graph

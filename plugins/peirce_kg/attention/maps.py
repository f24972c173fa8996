"""What the tokens of a query attend to: a trained model is run once on the query, and its attention is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from peirce.algebra import Attended, attention_of
from peirce.compose import load
from peirce.errors import ModelFileError, PeirceError, TaskError
from peirce.files import whole_number
from peirce.model import saved_files

from peirce_kg.encoding.assets import read_assets
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.engine.answers import to_ids
from peirce_kg.queries.language import Query
from peirce_kg.task import model_scorer

Floats: TypeAlias = NDArray[np.float64]

LAST, ALL = "last", "all"
"""What stands for layers in place of a number."""


Maps: TypeAlias = Mapping[int, Floats]
"""Weights by layer, counted from 1: float64 [x, a], of token x over the tokens a."""


@frozen(eq=False)
class QueryAttention:
    """How one model attends in one query.

    Args:
        folder, model, architecture: where it was saved, and the names of its spec and of its architecture.
        vocabulary: its tokens, with the syntax and the direction in which it was trained.
        tokens: the texts of the query's tokens, in its order.
        weights: float64 [x, a, h] of each layer.
    """

    folder: Path
    model: str
    architecture: str
    vocabulary: Vocabulary
    tokens: tuple[str, ...]
    weights: tuple[Floats, ...]

    @property
    def layers(self) -> int:
        """How many layers attend."""
        return len(self.weights)

    @property
    def heads(self) -> int:
        """How many heads every layer has."""
        return min(each.shape[2] for each in self.weights)

    def maps(self, layer: str = LAST, head: int | None = None) -> Maps:
        """The weights of a head, or the mean of all heads.

        Args:
            layer: a number from 1, `last` or `all`.
            head: a number from 1; the mean if None.

        Raises:
            TaskError: there is no such layer or head.
        """
        chosen = self.layers if layer == LAST else whole_number(layer)
        if layer != ALL and (chosen is None or not 1 <= chosen <= self.layers):
            has = f"its attention has layers 1 to {self.layers}; give one of them, {LAST} or {ALL}"
            raise TaskError(f"{self.folder} has no layer {layer}: {has}")
        if head is not None and not 1 <= head <= self.heads:
            has = f"its attention has heads 1 to {self.heads}; give one of them, or none for their mean"
            raise TaskError(f"{self.folder} has no head {head}: {has}")
        own = {n: weights for n, weights in enumerate(self.weights, 1) if layer == ALL or n == chosen}
        return {n: each.mean(2) if head is None else each[..., head - 1] for n, each in own.items()}


def read_attention(folder: Path, query: Query) -> QueryAttention:
    """Run a trained model on a query and read its attention.

    Args:
        folder: where `peirce train --task kgqa` or a cell of an experiment saved it.
        query: the query, with names of the model's graph.

    Raises:
        ModelFileError: a file is missing or damaged.
        TaskError: the model has no attention, or cannot read the query.
    """
    if not folder.is_dir():
        raise ModelFileError(f"there is no folder {folder}; `peirce train --task kgqa` writes one")
    with saved_files(folder) as files:
        vocabulary, graph = read_assets(files)
    model = load(folder).eval()
    name = model.spec.architecture
    if not any(isinstance(module, Attended) for module in model.modules()):
        raise TaskError(
            f"{folder} has no attention to show: nothing in its architecture, {name!r}, gives weights from token to "
            "token; choose a model of the architecture transformer, or of folnet with the operator join"
        )
    try:
        template, groundings = to_ids(query, graph)
        ids = vocabulary.encode(template, groundings)[0][0]
        with attention_of(model) as read:
            model_scorer(model, vocabulary)(template, groundings)
    except PeirceError as error:
        raise TaskError(f"the model in {folder} cannot read {query}: {error}") from error
    weights = tuple(each.weights[0].double().cpu().numpy() for each in read)
    tokens = tuple(vocabulary.decode(ids.tolist()))
    return QueryAttention(folder, model.spec.name, name, vocabulary, tokens, weights)

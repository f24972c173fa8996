"""What the tokens of a query attend to: a trained model is run once on the query, and its attention is read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import attrs
import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from peirce.algebra import Attended, attention_of
from peirce.compose import load
from peirce.errors import ModelFileError, PeirceError, TaskError
from peirce.files import whole_number
from peirce.model import saved_files

from peirce_kg.encoding.assets import read_assets, reads_reversed
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.engine.answers import to_ids
from peirce_kg.queries.language import Query
from peirce_kg.task import model_scorer

Floats: TypeAlias = NDArray[np.float64]

LAST, ALL = "last", "all"
"""What stands for layers in place of a number."""


@frozen(eq=False)
class AttentionMap:
    """One layer's weights: float64 [x, a], of token x over the tokens a; layers are counted from 1."""

    layer: int
    weights: Floats


@frozen(eq=False)
class QueryAttention:
    """How one model attends in one query.

    Args:
        folder: where the model was saved.
        model: the name of its spec.
        architecture: the name of its architecture.
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

    def maps(self, layer: str = LAST, head: int | None = None) -> tuple[AttentionMap, ...]:
        """The weights of a head, or the mean of all heads.

        Args:
            layer: a number from 1, `last` or `all`.
            head: a number from 1; the mean if None.

        Raises:
            TaskError: there is no such layer or head.
        """
        chosen = self._layers(layer)
        if head is not None and not 1 <= head <= self.heads:
            raise TaskError(
                f"{self.folder} has no head {head}: its attention has heads 1 to {self.heads}; give one of them, or "
                "none for their mean"
            )
        return tuple(
            AttentionMap(
                number,
                self.weights[number - 1].mean(2) if head is None else self.weights[number - 1][..., head - 1],
            )
            for number in chosen
        )

    def _layers(self, layer: str) -> range:
        count = self.layers
        if layer == ALL:
            return range(1, count + 1)
        if (chosen := count if layer == LAST else whole_number(layer)) is None or not 1 <= chosen <= count:
            raise TaskError(
                f"{self.folder} has no layer {layer}: its attention has layers 1 to {count}; give one of them, {LAST} "
                f"or {ALL}"
            )
        return range(chosen, chosen + 1)


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
    vocabulary = attrs.evolve(vocabulary, reversed_=reads_reversed(folder))
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

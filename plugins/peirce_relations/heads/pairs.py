"""pairs: a class for each pair of nodes that is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from attrs import field, frozen, validators
from peirce.errors import InputError
from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, mean_cross_entropy
from torch import Tensor, nn


@frozen(kw_only=True)
class PairsOptions:
    """What is predicted.

    Args:
        classes: the number of classes, most often that of the relations.
        hidden: whether a hidden layer with relu, as wide as the relations, stands before the scores.
    """

    classes: int = field(validator=validators.ge(2))
    hidden: bool = True


class Pairs(Head):
    """Scores of the classes of each pair (x, y) that the input `pairs` names, from its final relation.

    In torch `pairs` may be left out: then every pair is named, row by row.
    """

    name = "pairs"
    needs = frozenset({"binary"})
    source = "Edge Transformer (Bergen et al., 2021), Section 4.1: the relation of the two nodes that are asked for"
    Options = PairsOptions
    example: ClassVar = {"classes": 3}
    labels = "int64 [b, p]: the right class of each named pair; -100 where none is wanted"

    def __init__(self, options: PairsOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.hidden = nn.Linear(dims.binary, dims.binary) if options.hidden else None
        self.dropout = nn.Dropout(dims.dropout)
        self.dense = nn.Linear(dims.binary, options.classes)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The pairs that are asked for."""
        pairs = TensorSpec(
            name="pairs", dtype="int64", dims=("batch", "pairs", 2), required=False,
            meaning="The pairs of nodes that are asked for, by their places; without it every pair, row by row.",
        )  # fmt: skip
        return (pairs,)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """Scores of each named pair."""
        dims = ("batch", "pairs", self.options.classes)
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning="Scores of each pair's classes."),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """binary [b, x, y, d2] and pairs [b, p, 2] -> logits [b, p, classes]."""
        pairs, atoms = tokens.inputs.get("pairs"), encoded.binary
        assert atoms is not None
        if pairs is None:
            return {"logits": self._scores(atoms.flatten(1, 2))}
        length = atoms.shape[2]
        if not torch.compiler.is_compiling() and pairs.is_cpu and pairs.device == atoms.device:
            wrong = pairs[(pairs < 0) | (pairs >= length)]
            if len(wrong):
                raise InputError(f"input 'pairs' names node {int(wrong[0])}, and the nodes are 0 to {length - 1}")
        places = (pairs[:, :, 0] * length + pairs[:, :, 1]).unsqueeze(2).expand(-1, -1, atoms.shape[3])
        return {"logits": self._scores(atoms.flatten(1, 2).gather(1, places))}

    def _scores(self, asked: Tensor) -> Tensor:
        """[b, p, d2] -> [b, p, classes]."""
        return self.dense(asked if self.hidden is None else self.dropout(self.hidden(asked).relu()))

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Mean cross-entropy where labels are not -100; zero if none is."""
        return mean_cross_entropy(outputs["logits"], labels)

"""Ranking entities as answers to a query, by the embeddings that the query's own tokens use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.errors import InputError
from peirce.parts import (
    IGNORED,
    Dims,
    Encoded,
    Head,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    mean_cross_entropy,
    plain_softmax,
)
from peirce_kg.parts.systems.system import RankingOptions


@frozen(kw_only=True)
class EntitiesOptions(RankingOptions):
    """What stands for the query.

    Args:
        pool: `cls` takes the first real token; `sum`, `mean` and `max` pool every occurrence of the free variable.
        smoothing: label smoothing of the loss.
    """

    pool: Literal["cls", "sum", "mean", "max"] = "sum"
    smoothing: float = field(default=0.1, validator=[validators.ge(0.0), validators.lt(1.0)])


class Entities(Head):
    """Inner products of the pooled query with the embeddings of the entities."""

    name = "entities"
    source = "TEGA (Zheng et al., 2025), Section 6.2 and Appendix H"
    Options: ClassVar[type] = EntitiesOptions
    labels = "int64 [b]: one answer a query; or float [b, entities]: a distribution over its answers"
    tied = True

    @classmethod
    def check(cls, options: EntitiesOptions, dims: Dims, scope: str) -> str | None:
        """Entities and the free variable must be token ids."""
        last, below = (
            options.first + max(options.count, 1) - 1,
            f"below model.input.vocabulary = {dims.vocabulary}",
        )
        if last >= dims.vocabulary:
            return f"entities {options.first} to {last} are not all token ids {below}"
        if options.free >= dims.vocabulary:
            return f"free = {options.free} is not a token id {below}"
        return None

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.options, self.vocabulary = options, dims.vocabulary
        self.count = options.count or dims.vocabulary - options.first

    def outputs(self) -> tuple[TensorSpec, ...]:
        """A score for each entity."""
        dims = ("batch", self.count)
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning="Scores of the entities."),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] -> logits [b, entities]."""
        query = self.pool(encoded.unary, tokens)
        entities = encoded.embeddings[self.options.first : self.options.first + self.count]
        return {"logits": F.linear(query, entities)}

    def pool(self, unary: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, d1]; zero where a query has no free variable. Padding never takes part."""
        cls = self.options.pool == "cls"
        chosen = tokens.index == 0 if cls else tokens.inputs["input_ids"] == self.options.free
        if tokens.real is not None:
            chosen = chosen & tokens.real
        chosen = chosen.expand(unary.shape[:2])
        if self.options.pool == "max":
            low = torch.finfo(unary.dtype).min
            peak = unary.masked_fill(~chosen.unsqueeze(-1), low).amax(1)
            return torch.where(chosen.any(1, keepdim=True), peak, 0)
        total = (unary * chosen.unsqueeze(-1)).sum(1)
        if self.options.pool == "mean":
            return total / chosen.sum(1, keepdim=True).clamp_min(1)
        return total

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Label-smoothed cross-entropy of `logits` against `labels`, see the class."""
        return ranking_loss(outputs["logits"], labels, self.options.smoothing)

    def reference(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap | None:
        """Entity by entity: its product with what is pooled."""
        options, width = self.options, range(dims.unary)
        count = options.count or dims.vocabulary - options.first
        chosen = [
            atoms
            for x, (atoms, token) in enumerate(zip(given["unary"], given["input_ids"], strict=True))
            if (x == 0 if options.pool == "cls" else token == options.free)
        ] or [[0.0] * dims.unary]
        if options.pool == "max":
            query = [max(atoms[c] for atoms in chosen) for c in width]
        else:
            query = [sum(atoms[c] for atoms in chosen) for c in width]
        if options.pool == "mean":
            query = [each / len(chosen) for each in query]
        entities = given["embeddings"][options.first : options.first + count]
        return {"logits": [sum(q * e for q, e in zip(query, entity, strict=True)) for entity in entities]}

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """The mean over queries of the cross-entropy with the smoothed labels."""
        return plain_ranking_loss(outputs["logits"], labels, self.options.smoothing)


def plain_ranking_loss(logits: Any, labels: Any, smoothing: float = 0.0) -> float:
    """What `ranking_loss` gives, over nested lists."""
    losses = []
    for scores, label in zip(logits, labels, strict=True):
        if label != IGNORED:
            wanted = label if isinstance(label, list) else [float(e == label) for e in range(len(scores))]
            shares = [(1 - smoothing) * w + smoothing / len(scores) for w in wanted]
            losses.append(-sum(w * math.log(p) for w, p in zip(shares, plain_softmax(scores), strict=True)))
    return sum(losses) / max(1, len(losses))


def ranking_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of logits [b, entities] against labels as `Entities.labels` says; else an `InputError`."""
    if not labels.is_floating_point():
        return mean_cross_entropy(logits, labels, smoothing)
    check_distribution(labels, logits.shape)
    exact = at_least_float32(logits)
    return F.cross_entropy(exact, labels.to(exact.dtype), label_smoothing=smoothing)


def check_distribution(labels: Tensor, shape: Sequence[int]) -> None:
    """Refuse a distribution over answers that is not of the shape of the scores."""
    if labels.shape != tuple(shape):
        raise InputError(
            f"labels are {str(labels.dtype).removeprefix('torch.')} {list(labels.shape)} and must be int64 "
            f"{list(shape[:1])} or float {list(shape)}"
        )

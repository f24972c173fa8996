"""matching: classes of a pair of texts, from one vector of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import at_least_float32
from peirce.parts import (
    Dims,
    Encoded,
    Head,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    mean_cross_entropy,
    plain_cross_entropy,
    plain_linear,
    plain_relu,
)

POOLS, JOINS = ("last", "ends", "max", "mean"), ("plain", "compared")


@frozen(kw_only=True)
class MatchingOptions:
    """How two texts become scores.

    Args:
        classes: the number of classes.
        pool: what stands for a text: the atoms of its `last` token; the final states of both directions, which stand at
            its `ends`, a half of the channels each; or the `max` or the `mean` over its tokens.
        join: `plain` is [u; v], `compared` is [u; v; |u - v|; u * v].
        hidden: width of the hidden layer; that of the atoms if 0.
    """

    classes: int = field(default=2, validator=validators.ge(2))
    pool: Literal["last", "ends", "max", "mean"] = field(default="last", validator=validators.in_(POOLS))
    join: Literal["plain", "compared"] = field(default="plain", validator=validators.in_(JOINS))
    hidden: int = field(default=0, validator=validators.ge(0))


class Matching(Head):
    """A perceptron with one hidden layer on the joined vectors of two texts, which token types 0 and 1 tell apart.

    With an encoder that reads texts apart this is a siamese network: no token of one text knows of the other.
    """

    name = "matching"
    source = "InferSent (Conneau et al., 2017), Figure 1; TPRU (Tang et al., 2018), Section 5.1"
    Options = MatchingOptions
    labels = "int64 [b]: the right class"

    @classmethod
    def check(cls, options: MatchingOptions, dims: Dims, scope: str) -> str | None:
        """Two texts need two token types, and two ends an even width."""
        if dims.token_types < 2:
            return "a pair needs model.input.token_types of 2 or more, to tell its two texts apart"
        if options.pool == "ends" and dims.unary % 2:
            return f'pool = "ends" takes half of the channels from either end, and there are {dims.unary}'
        return None

    def __init__(self, options: MatchingOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        joined = dims.unary * (2 if options.join == "plain" else 4)
        hidden = options.hidden or dims.unary
        self.hidden, self.dropout = nn.Linear(joined, hidden), nn.Dropout(dims.dropout)
        self.dense = nn.Linear(hidden, options.classes)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """One score a class."""
        dims = ("batch", self.options.classes)
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning="Scores of the classes."),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] -> logits [b, classes]."""
        atoms, ids = encoded.unary, tokens.inputs["input_ids"]
        real = torch.ones_like(ids, dtype=torch.bool) if tokens.real is None else tokens.real
        one, two = (self._pooled(atoms, tokens.rows(real & (tokens.types == text))) for text in (0, 1))
        joined = [one, two] if self.options.join == "plain" else [one, two, (one - two).abs(), one * two]
        return {"logits": self.dense(self.dropout(self.hidden(torch.cat(joined, 1)).relu()))}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy against labels [b]."""
        return mean_cross_entropy(at_least_float32(outputs["logits"]), labels)

    def _pooled(self, atoms: Tensor, real: Tensor) -> Tensor:
        """One vector for the tokens `own`, bool [b, x], zero where there are none: [b, x, d1] -> [b, d1]."""
        pool, there = self.options.pool, real.any(1, keepdim=True)
        if pool == "mean":
            return atoms.masked_fill(~real.unsqueeze(2), 0).sum(1) / real.sum(1, keepdim=True).clamp_min(1)
        if pool == "max":
            low = torch.finfo(atoms.dtype).min
            return atoms.masked_fill(~real.unsqueeze(2), low).amax(1).masked_fill(~there, 0)
        places = torch.arange(real.shape[1], device=real.device)
        last = _gather_token(atoms, torch.where(real, places, 0).amax(1))
        if pool == "ends":
            half = atoms.shape[2] // 2
            last = torch.cat([last[:, :half], _gather_token(atoms, real.long().argmax(1))[:, half:]], 1)
        return last.masked_fill(~there, 0)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """A vector of each text, joined, and the two maps."""
        options, width = self.options, range(dims.unary)

        def pooled(text: int) -> list[float]:
            own = [u for u, of in zip(given["unary"], given["token_type_ids"], strict=True) if of == text]
            if not own:
                return [0.0] * dims.unary
            if options.pool == "mean":
                return [sum(atoms[c] for atoms in own) / len(own) for c in width]
            if options.pool == "max":
                return [max(atoms[c] for atoms in own) for c in width]
            half = dims.unary // 2 if options.pool == "ends" else dims.unary
            return [*own[-1][:half], *own[0][half:]]

        one, two = pooled(0), pooled(1)
        joined = [*one, *two]
        if options.join == "compared":
            joined += [abs(u - v) for u, v in zip(one, two, strict=True)]
            joined += [u * v for u, v in zip(one, two, strict=True)]
        hidden = plain_relu(plain_linear(joined, parameters, "hidden", options.hidden or dims.unary))
        return {"logits": plain_linear(hidden, parameters, "dense", options.classes)}

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """The cross-entropy, row by row."""
        return plain_cross_entropy(outputs["logits"], labels)


def _gather_token(atoms: Tensor, places: Tensor) -> Tensor:
    """[b, d1], the atoms at one place [b] of each row."""
    return atoms.gather(1, places[:, None, None].expand(-1, 1, atoms.shape[2])).squeeze(1)

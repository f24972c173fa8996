"""A batch as parts see it, and the contract of augmenters, which enrich the embeddings of its tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from peirce.parts.module import ModulePart


@final
@dataclass(frozen=True, eq=False)  # not attrs: torch.compile cannot trace the setters of its frozen classes
class Tokens:
    """A batch as parts see it.

    Parts compute for the rows. In most passes every token is a row. In generation the rows are the new tokens alone,
    which attend to those before them as well. `rows` takes the rows' part of what is known of every token.

    Args:
        inputs: the model's inputs by name; what they say of tokens, they say of every one.
        real: bool [b, a], None when no token is padding.
        index: int64 [b or 1, a], each token's position counted over real tokens.
        length: the number of tokens a.
        before: how many tokens stand before the rows; None when every token is a row.
    """

    inputs: Mapping[str, Tensor]
    real: Tensor | None
    index: Tensor
    length: int
    before: int | None = None

    @property
    def types(self) -> Tensor:
        """Which text each token belongs to, int64 [b, a]; the first where nothing says it."""
        types = self.inputs.get("token_type_ids")
        return torch.zeros_like(self.inputs["input_ids"]) if types is None else types

    def rows(self, values: Tensor, axis: int = 1) -> Tensor:
        """The rows' part of values that hold one for each token along `axis`."""
        return values if self.before is None else values.narrow(axis, self.before, self.length - self.before)


class Augmenter(ModulePart):
    """Changes the embeddings of the tokens before positions and token types are added.

    Attributes:
        has_gate: whether the composer has given it the parameter `gate`, as the spec's `gate = true` asks for.
    """

    has_gate: bool = False

    @abstractmethod
    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""

    def words(self, embeddings: Tensor) -> Tensor:
        """The word embeddings that heads tie to, [v, d1] -> [v, d1], where a token's id alone decides the change."""
        return embeddings

    @final
    def open_gate(self, before: Tensor, after: Tensor) -> Tensor:
        """`before + gate (after - before)`, which is `before` to the bit while the gate is zero; `after` without one.

        Raises:
            ValueError: the number of channels has changed.
        """
        if after.dim() != before.dim() or after.shape[-1] != before.shape[-1]:
            raise ValueError(
                f"it returns shape {list(after.shape)} for atoms of shape {list(before.shape)}; keep the number of "
                "channels"
            )
        return before + self.get_parameter("gate") * (after - before) if self.has_gate else after

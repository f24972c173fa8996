"""The contract of heads, which turn atoms into predictions, and what an architecture gives them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts.module import ModulePart
from peirce.parts.signature import TensorSpec
from peirce.parts.tokens import Tokens


class Encoded(NamedTuple):
    """What an architecture gives to the heads: final atoms, pooled output, scope and the word embeddings to tie to.

    unary: [b, x, d1]; binary: [b, x, y, d2] or None; pooled: [b, p] or None, p the pooled width; embeddings: [v, d1];
    precise: unary atoms and embeddings as they were computed, where an architecture computes in more precision than it
    gives, else None.
    """

    unary: Tensor
    binary: Tensor | None
    pooled: Tensor | None
    scope: Scope
    embeddings: Tensor
    precise: tuple[Tensor, Tensor] | None = None


class Head(ModulePart):
    """Turns atoms into predictions.

    Its outputs are named `logits`, ..., and the model prefixes them with the head's name. An output named "" is called
    by the head's name alone.

    Attributes:
        needs: which of `pooled` and `binary` the architecture must give; `past` for a head that predicts next tokens,
            where no token may attend to later ones.
        labels: what `loss` takes as labels, dtype, shape and meaning, in one sentence.
        tied: whether it multiplies atoms with word embeddings, which must then be as wide as the atoms.
    """

    needs: ClassVar[frozenset[Literal["pooled", "binary", "past"]]] = frozenset()
    labels: ClassVar[str] = ""
    tied: ClassVar[bool] = False

    @abstractmethod
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The predictions, `logits` first."""

    @abstractmethod
    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """The predictions by name, as `outputs` declares them."""

    @abstractmethod
    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """The mean loss of predictions (by the names of `outputs`) against labels, a scalar."""

    def fit(self, examples: Iterable[tuple[Encoded, Tokens, Tensor, Tensor | None]]) -> str:
        """Give parameters what a training begins with, where training examples tell it; by default nothing.

        Args:
            examples: of each batch what the head reads, the labels, and the weights of the examples, if they have any.

        Returns:
            What it begins with, as words in a sentence; empty for nothing.
        """
        return ""

    def example_labels(self, outputs: Mapping[str, Tensor], generator: torch.Generator) -> Tensor | None:
        """Labels for predictions, for the conformance checks, where their form is none of the usual ones; else None."""
        return None

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float | None:
        """The loss written out over nested lists, of a batch; None where it is not stated."""
        return None

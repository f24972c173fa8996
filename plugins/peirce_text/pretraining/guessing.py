"""What is guessed of a row: tokens that are masked anew each time, or each token from those before it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from attrs import field, frozen

from peirce_text.pretraining.store import Ints

MASKED, KEPT = 0.8, 0.1
"""How often a chosen token becomes the mask, and how often it stays; otherwise it becomes any ordinary token."""


class Guesses(NamedTuple):
    """A row and what is to be guessed of it: the ids as the model sees them, the places, and the labels of these."""

    ids: Ints
    places: Ints
    labels: Ints


@frozen
class NextTokens:
    """Each token of a single text is guessed from those before it, and then that the text ends."""

    def counts(self, tokens: Ints) -> Ints:
        """The text's tokens, and the separator after them."""
        return tokens + 1

    def apply(self, ids: Ints, text: Ints, random: np.random.Generator) -> Guesses:
        """The row as it is."""
        return Guesses(ids, np.arange(len(ids) - 1), ids[1:])


@frozen(kw_only=True)
class Masking:
    """How tokens are masked.

    Args:
        mask_id: what stands for a masked token.
        ordinary: the ids that may take the place of a token: all but special tokens.
        probability: the part of the tokens of text that is chosen.
        most: the most that are chosen in a row.
    """

    mask_id: int
    ordinary: Ints = field(eq=False)
    probability: float = 0.15
    most: int = 20

    def counts(self, tokens: Ints) -> Ints:
        """How many of each row's tokens of text are chosen: at least one, if there is any."""
        chosen = np.clip(np.rint(self.probability * tokens), 1, self.most).astype(np.int64)
        return np.where(tokens > 0, chosen, 0)

    def apply(self, ids: Ints, text: Ints, random: np.random.Generator) -> Guesses:
        """Mask some tokens of a row.

        Args:
            ids: the row.
            text: where its tokens of text are; special tokens are not among them.
            random: what is drawn from.

        Returns:
            The row with the chosen tokens replaced, where those are, ascending, and which.
        """
        chosen = np.sort(random.permutation(text)[: int(self.counts(np.array(len(text))))])
        dice = random.random(len(chosen))
        others = self.ordinary[random.integers(len(self.ordinary), size=len(chosen))]
        replaced = np.where(dice < MASKED, self.mask_id, np.where(dice < MASKED + KEPT, ids[chosen], others))
        masked = ids.copy()
        masked[chosen] = replaced
        return Guesses(masked, chosen, ids[chosen])


Guessing = NextTokens | Masking
"""What is guessed of rows."""

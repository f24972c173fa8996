"""The batches of a split: what is guessed of a row, and rows, which are made only for whoever trains on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from attrs import field, frozen
from torch import Tensor

from peirce.parts import IGNORED
from peirce_text.pretraining.examples import Corpus, crop_length
from peirce_text.pretraining.store import Ints
from peirce_text.text.encoding import EncodedTexts, pad, tensors
from peirce_text.text.tokenizer import Tokenizer

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


class LazyBatch(Mapping[str, Tensor]):
    """A batch that is made when a tensor is asked for.

    Every process of a training goes through the batches of all, and a resumed one through those that were used; neither
    should tokenise and mask what it passes over.

    Args:
        make: makes the tensors.
        guesses: how many tokens are to be guessed, which is known before.
        rows: how many rows there are.
    """

    def __init__(self, make: Callable[[], Mapping[str, Tensor]], guesses: int, rows: int) -> None:
        self._make: Callable[[], Mapping[str, Tensor]] | None = make
        self._tensors: Mapping[str, Tensor] = {}
        self.guesses, self.rows = guesses, rows

    def __getitem__(self, name: str) -> Tensor:
        return self._load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())

    def _load(self) -> Mapping[str, Tensor]:
        if self._make is not None:
            self._tensors, self._make = self._make(), None
        return self._tensors


@frozen(kw_only=True)
class Batcher:
    """Rows of examples as tensors.

    Args:
        corpus: the examples.
        guessing: what is guessed of a row.
        tokenizer: its special tokens stand before, between and after texts.
        views: 2 if rows 2i and 2i+1 are two views of one example, for the contrastive loss; else 1.
    """

    corpus: Corpus
    guessing: Guessing
    tokenizer: Tokenizer
    views: int = 1

    def batches(
        self, examples: Ints, rows: int, draw: tuple[int, ...], *, whole: bool
    ) -> Iterator[LazyBatch]:
        """The batches of some examples, in their order.

        Args:
            examples: their numbers.
            rows: how many rows a batch has.
            draw: what the pairs and masks of an example depend on beside its number, such as (seed, epoch).
            whole: whether the examples that do not fill a batch are left out, if any batch is full.
        """
        each = rows // self.views
        full = len(examples) // each * each
        for start in range(0, full if whole and full else len(examples), each):
            chosen = examples[start : start + each]
            yield LazyBatch(
                partial(self.batch, chosen, draw), self._count_guesses(chosen), len(chosen) * self.views
            )

    def batch(self, examples: Ints, draw: tuple[int, ...]) -> dict[str, Tensor]:
        """Rows of some examples.

        Returns:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; positions: int64 [b, p], where
            tokens are to be guessed, and labels: int64 [b, p], which, -100 where there is none; pairs: int64 [b],
            whether a pair stands as in the text (0) or not (1); texts: int64 [b], the example of each row.
        """
        rows = [self._row(example, view, draw) for example in examples.tolist() for view in range(self.views)]
        guesses, seconds, pairs = zip(*rows, strict=True)
        texts = EncodedTexts.of([each.ids for each in guesses], seconds, self.tokenizer.pad_id)
        arrays = {
            "positions": pad([each.places for each in guesses], 0)[0],
            "labels": pad([each.labels for each in guesses], IGNORED)[0],
            "pairs": np.array(pairs),
            "texts": np.repeat(examples, self.views),
        }
        return {**texts.batch(np.arange(len(rows))), **tensors(arrays)}

    def _row(self, example: int, view: int, draw: tuple[int, ...]) -> tuple[Guesses, int, int]:
        """What is guessed of a row, where its second text starts, and the label of its pair."""
        random = np.random.default_rng([*draw, example, view])
        pair = self.corpus.row(example, random, crop=view > 0)
        sep = self.tokenizer.sep_id
        ids = [self.tokenizer.cls_id, *pair.first, sep]
        second = len(ids)
        text = np.arange(1, second - 1)
        if pair.second is not None:
            ids += [*pair.second, sep]
            text = np.concatenate([text, np.arange(second, len(ids) - 1)])
        whole = np.array(ids, np.int64)
        return self.guessing.apply(whole, text, random), second, pair.label

    def _count_guesses(self, examples: Ints) -> int:
        """How many tokens of some examples are predicted, int64 [n], without building the rows."""
        sizes = self.corpus.sizes(examples)
        if self.views > 1:
            sizes = np.concatenate([sizes, [crop_length(size) for size in sizes.tolist()]])
        return int(self.guessing.counts(sizes).sum())

"""The contextual vectors of keywords: an encoder's last hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peirce.errors import TaskError
from peirce.extras import require
from peirce_text import load_encoder, weights_digest

AROUND = 200
"""How many characters before and after a keyword the encoder sees."""
BATCH = 32


class Vectors:
    """The vectors that a pretrained encoder of `transformers` has for keywords in their sentences.

    Args:
        encoder: its folder, or its name on the hub. It needs a fast tokenizer, which knows where tokens stand.

    Raises:
        TaskError: `transformers` is not installed.
    """

    def __init__(self, encoder: str) -> None:
        require("senses of keywords", "transformers", extra="peirce-logic[encoders]")
        self.encoder = encoder

    def of(self, texts: Sequence[str], places: Sequence[tuple[int, int]]) -> NDArray[np.float32]:
        """The mean of the last hidden states of each keyword's tokens.

        Args:
            texts: a sentence for each keyword.
            places: the characters of the keyword in it, [start, end).

        Returns:
            float32 [n, width]; zeros for a keyword that the encoder has no token of.

        Raises:
            TaskError: the encoder cannot be loaded.
        """
        import torch

        tokenizer, model = self._encoder
        found, keywords = [], list(zip(texts, places, strict=True))
        for begin in range(0, len(texts), BATCH):
            cut = []
            for text, (start, end) in keywords[begin : begin + BATCH]:
                before = max(0, start - AROUND)
                cut.append((text[before : end + AROUND], start - before, end - before))
            given = tokenizer(
                [text for text, _, _ in cut], padding=True, truncation=True, max_length=self._longest,
                return_tensors="pt", return_offsets_mapping=True,
            )  # fmt: skip
            offsets = given.pop("offset_mapping")
            with torch.inference_mode():
                states = model(**given).last_hidden_state
            starts, ends = offsets[..., 0], offsets[..., 1]
            first, last = (torch.tensor([[each[i]] for each in cut]) for i in (1, 2))
            inside = ((starts < last) & (ends > first) & (ends > starts)).unsqueeze(2)
            found.append(((states * inside).sum(1) / inside.sum(1).clamp_min(1)).numpy())
        return np.concatenate(found)

    @cached_property
    def digest(self) -> str:
        """The digest of the encoder's weights: a classifier fits no others."""
        return weights_digest({name: value.float() for name, value in self._encoder[1].state_dict().items()})

    @cached_property
    def _encoder(self) -> tuple[Any, Any]:
        tokenizer, model = load_encoder(self.encoder)
        if not tokenizer.is_fast:
            raise TaskError(
                f"the tokenizer of {self.encoder!r} gives no offsets of its tokens, since it has no tokenizer.json"
            )
        return tokenizer, model

    @cached_property
    def _longest(self) -> int:
        tokenizer, model = self._encoder
        places = getattr(model.config, "max_position_embeddings", None) or 512
        return int(min(tokenizer.model_max_length, places, 512))

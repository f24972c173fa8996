"""The task of `upgrade/clutrr`: CLUTRR whose people have names that a tokenizer knows; and its shuffled form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from peirce.errors import TaskError
from peirce_papers.upgrade.kinship_words import ASKED, KINDS, NAMES, SAME, UNKNOWN
from peirce_papers.upgrade.task import WithShuffledRelations
from peirce_text.clutrr.task import Clutrr
from peirce_text.tasks import TRAIN, TextClassData
from peirce_text.text.encoding import Ints
from peirce_text.text.tokenizer import Tokenizer


class Kinship(Clutrr):
    """CLUTRR for a model whose words are learnt: people have first names, drawn anew for each text.

    Its batches have `edge_ids` for models that are told the facts `Ann daughter Lil`: the relation of two tokens of
    such people, and whether tokens are of one person.
    """

    name = "kinship"

    def overrides(self, data: TextClassData) -> Mapping[str, Any]:
        """No further tokens for people."""
        return {**super().overrides(data), "model.input.vocabulary": data.tokenizer.vocabulary}

    def batch(
        self, data: TextClassData, split: str, rows: Ints, rng: np.random.Generator | None
    ) -> dict[str, Tensor]:
        """Some texts, whose people have names; those of tests are in no training."""
        batch, tokenizer = super().batch(data, split, rows, rng), data.tokenizer
        ids = batch["input_ids"].numpy()
        people = ids - tokenizer.vocabulary
        asked, others = (_ids(tokenizer, names.split()) for names in (ASKED, NAMES[split != TRAIN]))
        draw = rng or np.random.default_rng(len(rows))
        drawn = draw.permuted(np.tile(others, (len(rows), 1)), axis=1)
        named = np.concatenate([np.tile(asked, (len(rows), 1)), drawn], 1)
        names = np.take_along_axis(named, np.maximum(people, 0), 1)
        batch["input_ids"] = torch.from_numpy(np.where(people < 0, ids, names))
        kinds = {int(piece): kind for kind, piece in enumerate(_ids(tokenizer, KINDS.split()))}
        edges = [self._edges(*each, kinds) for each in zip(people, ids, strict=True)]
        return {**batch, "edge_ids": torch.from_numpy(np.stack(edges))}

    def _edges(self, people: Ints, ids: Ints, kinds: Mapping[int, int]) -> Ints:
        """The relations of a text's tokens, int64 [x, y], from its people, which are negative at other tokens."""
        edges = np.full((len(ids), len(ids)), UNKNOWN)
        edges[(people[:, None] == people) & (people[:, None] >= 0)] = SAME
        for one in np.flatnonzero((people[:-2] >= 0) & (people[2:] >= 0)):
            if (kind := kinds.get(int(ids[one + 1]))) is not None:
                first, second = (np.flatnonzero(people == people[place]) for place in (one, one + 2))
                edges[np.ix_(first, second)] = kind
                edges[np.ix_(second, first)] = kind + len(kinds)
        return edges


class ShuffledKinship(WithShuffledRelations, Kinship):
    """`kinship` where relations are shuffled."""

    name = "kinship, relations shuffled"


def _ids(tokenizer: Tokenizer, words: Sequence[str]) -> Ints:
    """The tokens of words, each of which is one."""
    pieces = [tokenizer.pieces(word) for word in words]
    if split := [word for word, each in zip(words, pieces, strict=True) if len(each) != 1]:
        raise TaskError(f"{', '.join(split)}: several tokens each; begin with an encoder of English")
    return np.array(pieces, np.int64)[:, 0]

"""The links that a search knows: the triples that its link predictor was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from peirce.errors import ModelFileError
from peirce_kg.parts.augmenters.kge_files import read_triples


class KnownLinks(nn.Module):
    """The training triples of a file that `peirce kg embed` wrote; a saved model has them among its weights.

    Args:
        file: the file.
        vocabulary: how many tokens the model has.
    """

    def __init__(self, file: str, vocabulary: int) -> None:
        super().__init__()
        self.file, self.vocabulary = file, vocabulary
        self.triples: Tensor
        self.register_buffer("triples", torch.empty(0, 3, dtype=torch.int64))

    def begin(self) -> None:
        """Read the file: entity, token of the relation, entity, sorted.

        Raises:
            ModelFileError: it cannot be read, or is of another graph.
        """
        facts, triples = read_triples(Path(self.file))
        if facts.vocabulary != self.vocabulary:
            raise ModelFileError(
                f"{self.file} was trained on {facts.graph!r}, whose queries have {facts.vocabulary} tokens, and the "
                f"model has {self.vocabulary}; train vectors on the model's graph"
            )
        triples = triples.long() + torch.tensor([0, facts.first_relation, 0])
        self.triples = triples[self._keys(triples[:, 0], triples[:, 1]).argsort(stable=True)]

    def tails(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The known tails of pairs of an entity and a relation's token, [n] each: the row of each, and the entity."""
        keys = self._keys(self.triples[:, 0], self.triples[:, 1])
        asked = self._keys(heads, relations)
        start, stop = (torch.searchsorted(keys, asked, right=right) for right in (False, True))
        counts = stop - start
        rows = torch.repeat_interleave(torch.arange(len(asked), device=keys.device), counts)
        within = torch.arange(len(rows), device=keys.device) - (counts.cumsum(0) - counts)[rows]
        return rows, self.triples[start[rows] + within, 2]

    def _keys(self, heads: Tensor, relations: Tensor) -> Tensor:
        return heads * self.vocabulary + relations

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load as many triples as there are: no spec says how many."""
        if (found := state.get(f"{prefix}triples")) is not None:
            self.triples = torch.empty_like(found, device=self.triples.device)
        super()._load_from_state_dict(state, prefix, *rest)

"""logical: hierarchical projections of the logical relations that a token takes part in."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.errors import InputError
from peirce.parts import (
    Augmenter,
    Dims,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    plain_gelu,
    plain_linear,
    set_small_normal,
)
from peirce_logic.relations import LOGICAL_ID_COUNT


@frozen(kw_only=True)
class LogicalOptions:
    """How deep the hierarchy is and how wide its vectors are.

    Args:
        depth: K, the levels of relations, outermost in the parse tree first.
        width: N_logic, the width of the logical embeddings; None for that of the token embeddings.
    """

    depth: int = field(default=3, validator=validators.ge(1))
    width: int | None = field(default=None, validator=validators.optional(validators.ge(1)))


class Logical(Augmenter):
    """w + u^K with u^0 = w and u^i = gelu(L [u^(i-1); v^i]), for token and logical embeddings w and v^i.

    The map L, from N + N_logic to N, and the 35 logical embeddings are shared by all levels.
    """

    name = "logical"
    source = "Logical Transformers (Wang et al., 2023), Section 4"
    Options = LogicalOptions

    def __init__(self, options: LogicalOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.depth = options.depth
        width = options.width or dims.unary
        self.embedding = nn.Embedding(LOGICAL_ID_COUNT, width)
        self.projection = nn.Linear(dims.unary + width, dims.unary)
        set_small_normal(self.embedding)
        set_small_normal(self.projection)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The id of each token at each level."""
        return (
            TensorSpec(
                name="logical_ids",
                dtype="int64",
                dims=("batch", self.depth, "length"),
                meaning="Each token's relation and role at each level, the outermost first; 0 for none.",
                high=LOGICAL_ID_COUNT,
            ),
        )

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, x, d1].

        Raises:
            InputError: `logical_ids` has another number of levels.
        """
        ids = tokens.rows(tokens.inputs["logical_ids"], 2)
        if ids.shape[1] != self.depth:
            raise InputError(
                f"logical_ids has {ids.shape[1]} levels and the augmenter 'logical' has depth {self.depth}; "
                "cut the levels, or fill missing ones with 0"
            )
        state = embeddings
        for level in range(self.depth):
            state = F.gelu(self.projection(torch.cat([state, self.embedding(ids[:, level])], 2)))
        return embeddings + state

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token and level by level."""
        found = []
        for x, atoms in enumerate(given["embeddings"]):
            state = atoms
            for level in range(self.options.depth):
                vector = parameters["embedding.weight"][given["logical_ids"][level][x]]
                assert len(vector) == (self.options.width or dims.unary)
                state = plain_gelu(plain_linear([*state, *vector], parameters, "projection", dims.unary))
            found.append([w + u for w, u in zip(atoms, state, strict=True)])
        return {"embeddings": found}

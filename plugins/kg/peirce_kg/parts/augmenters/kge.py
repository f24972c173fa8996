"""kge: entities and relations are embedded by vectors that a link predictor was trained to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.errors import ModelFileError
from peirce.parts import Augmenter, Dims, PlainMap, PlainScope, Tokens, plain_linear
from peirce_kg.parts.augmenters.kge_files import KgeFacts, read_kge, write_kge

INIT_STD = 0.02


@frozen(kw_only=True)
class KgeOptions:
    """Where the vectors come from and whether they stay as they are.

    Args:
        file: what `peirce kg embed` wrote; a new model reads it, a saved one has the vectors. Empty for random vectors
            of every token.
        width: the numbers of a vector; None for the width of the token embeddings. Vectors of another width are mapped
            to it.
        frozen: whether training leaves the vectors as they are.
    """

    file: str
    width: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    frozen: bool = True


class Kge(Augmenter):
    """The embedding of an entity or relation is its trained vector, mapped to the model's width where it has another.

    Other tokens, such as parentheses and variables, keep their learned embeddings. Heads that rank entities by their
    embeddings take the trained ones too.
    """

    name = "kge"
    source = "TEGA (Zheng et al., 2025), Section 5.2, Table 5"
    Options = KgeOptions
    example: ClassVar = {"file": ""}

    def __init__(self, options: KgeOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.file = options.file
        self.width = options.width or dims.unary
        self.vectors: Tensor
        vectors = torch.randn(dims.vocabulary, self.width) * INIT_STD
        if options.frozen:
            self.register_buffer("vectors", vectors)
        else:
            self.vectors = nn.Parameter(vectors)
        self.register_buffer("known", torch.ones(dims.vocabulary, dtype=torch.bool))
        self.map = nn.Linear(self.width, dims.unary, bias=False) if self.width != dims.unary else None

    @classmethod
    def example_in(cls, folder: Path, dims: Dims) -> Mapping[str, Any]:
        """A file of vectors of two entities and a relation."""
        facts = KgeFacts(
            model="transe", graph="example", width=dims.unary, epochs=1, seed=0, vocabulary=dims.vocabulary,
            first_entity=1, first_relation=4,
        )  # fmt: skip
        vectors = torch.arange(3.0 * dims.unary).view(3, dims.unary)
        write_kge(folder / "vectors.safetensors", facts, vectors[:2].clone(), vectors[2:].clone())
        return {"file": str(folder / "vectors.safetensors")}

    def begin(self) -> None:
        """Read the file.

        Raises:
            ModelFileError: it cannot be read, or is of another width or another graph.
        """
        if not self.file:
            return
        facts, entities, relations = read_kge(Path(self.file))
        known = self.get_buffer("known")
        if facts.width != self.width:
            raise ModelFileError(
                f"{self.file} has vectors of {facts.width} numbers, and the model takes {self.width}; "
                f"set width = {facts.width} in the augmenter 'kge'"
            )
        if facts.vocabulary != len(known):
            raise ModelFileError(
                f"{self.file} was trained on {facts.graph!r}, whose queries have {facts.vocabulary} tokens, and the "
                f"model has {len(known)}; train the model on that graph, or vectors on its graph"
            )
        known.fill_(False)
        with torch.no_grad():
            for first, trained in ((facts.first_entity, entities), (facts.first_relation, relations)):
                rows = slice(first, first + len(trained))
                self.vectors[rows] = trained.to(self.vectors)
                known[rows] = True

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""
        ids = tokens.rows(tokens.inputs["input_ids"])
        known = self.get_buffer("known")[ids].unsqueeze(-1)
        return torch.where(known, self._map(F.embedding(ids, self.vectors)), embeddings)

    def words(self, embeddings: Tensor) -> Tensor:
        """[v, d1] -> [v, d1]."""
        return torch.where(self.get_buffer("known").unsqueeze(1), self._map(self.vectors), embeddings)

    def _map(self, vectors: Tensor) -> Tensor:
        return vectors if self.map is None else self.map(vectors)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token: the vector of what is known, mapped where its width is another."""
        width = self.options.width or dims.unary

        def vector(token: int) -> Any:
            found = parameters["vectors"][token]
            return (
                found
                if width == dims.unary
                else plain_linear(found, parameters, "map", dims.unary, bias=False)
            )

        tokens = zip(given["input_ids"], given["embeddings"], strict=True)
        return {"embeddings": [vector(t) if parameters["known"][t] else atoms for t, atoms in tokens]}

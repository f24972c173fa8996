"""word_vectors: vectors of tokens that come with a text, such as those of a frozen encoder."""

from __future__ import annotations

from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.parts import Augmenter, Dims, PlainMap, PlainScope, TensorSpec, Tokens, plain_linear

INPUT = "word_vectors"


@frozen(kw_only=True)
class WordVectorsOptions:
    """What comes with a text.

    Args:
        size: the width of the vectors, which are mapped to that of the token embeddings; None if it is that.
    """

    size: int | None = field(default=None, validator=validators.optional(validators.ge(1)))


class WordVectors(Augmenter):
    """w + v for a token's embedding w and its vector v, or w + L v where their widths differ.

    With a vocabulary of special tokens alone all words share one w, and the vectors say which word it is.
    """

    name = "word_vectors"
    source = "TPRU (Tang et al., 2018), Section 5.1; ELMo (Peters et al., 2018)"
    Options = WordVectorsOptions

    def __init__(self, options: WordVectorsOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.size = options.size or dims.unary
        self.projection = nn.Linear(self.size, dims.unary, bias=False) if self.size != dims.unary else None

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The vector of each token."""
        return (
            TensorSpec(
                name=INPUT,
                dtype="float",
                dims=("batch", "length", self.size),
                meaning="The vector of each token; zero at padding.",
            ),
        )

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""
        vectors = tokens.rows(tokens.inputs[INPUT], 1)
        return embeddings + (vectors if self.projection is None else self.projection(vectors))

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token: the sum."""
        found = []
        for atoms, vector in zip(given["embeddings"], given[INPUT], strict=True):
            mapped = self.options.size not in (None, dims.unary)
            more = (
                plain_linear(vector, parameters, "projection", dims.unary, bias=False) if mapped else vector
            )
            found.append([w + v for w, v in zip(atoms, more, strict=True)])
        return {"embeddings": found}

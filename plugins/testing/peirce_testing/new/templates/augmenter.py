"""new_part: an augmenter of the tokens' embeddings.

A spec with it:

    [[model.augmenters]]
    use = "new_part"
"""

import torch
from peirce.parts import Augmenter, Dims, NoOptions, PlainMap, PlainScope, Tokens
from torch import Tensor, nn


class NewPart(Augmenter):
    """w(x) becomes g[word of x] w(x): each word has one learned weight, which begins at 1."""

    name = "new_part"
    source = "weights of words by their information, as tf-idf has them (Sparck Jones, 1972), but learned"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.weights = nn.Parameter(torch.ones(dims.vocabulary, 1))

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""
        return embeddings * self.weights[tokens.rows(tokens.inputs["input_ids"])]

    def words(self, embeddings: Tensor) -> Tensor:
        """[v, d1] -> [v, d1]; heads that tie to the words rank by what the model reads."""
        return embeddings * self.weights

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token: the weight of its word times its embedding."""
        pairs = zip(given["input_ids"], given["embeddings"], strict=True)
        return {"embeddings": [[parameters["weights"][word][0] * w for w in atom] for word, atom in pairs]}

"""averages: the mean of a text's word vectors, and a few dense layers; no word knows where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.networks import TokenInput, pooled_output, unary_output
from peirce.parts import Architecture, Encoded, NoOptions, Plan, TensorSpec, Tokens


@frozen(kw_only=True)
class AveragesDims:
    """The sizes, every one a count.

    Args:
        layers: dense layers on top of the mean.
        unary: width of the word vectors, and of each layer.
    """

    layers: int = field(validator=validators.ge(1))
    unary: int = field(validator=validators.ge(1))


class Averages(Architecture):
    """z_0 is the mean of the word vectors, z_i = tanh(W_i z_(i-1) + b_i); the last one is the pooled output.

    In training each word is left out of the mean with the probability `dropout`, as the paper does; a text whose words
    are all left out keeps them.
    """

    name = "averages"
    source = "Deep unordered composition rivals syntactic methods (Iyyer et al., 2015), eq. 2 to 5"
    Dims = AveragesDims
    places = frozenset()
    branches = "U"
    layer = ""
    fixed_layer = True

    @classmethod
    def sizes(cls, options: NoOptions, dims: AveragesDims) -> Mapping[str, int]:
        """The network has layers and one width."""
        return {"layers": dims.layers, "unary": dims.unary}

    @classmethod
    def gives(cls, options: NoOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """Heads may read the pooled output."""
        return frozenset({"pooled"})

    def __init__(self, options: NoOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.dims = plan.dims
        self.input = TokenInput(plan, [])
        self.layers = nn.ModuleList(
            nn.Linear(plan.dims.unary, plan.dims.unary) for _ in range(plan.dims.layers)
        )

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, their mask, and what augmenters read."""
        return self.input.specs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The word vectors, and what the text means."""
        return (unary_output(self.dims.unary), pooled_output(self.dims.unary))

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Look up [b, x, d], average over real words [b, d], go through the layers [b, d]."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        words = scope.zero_unary(self.input.unary(tokens))
        state = self._mean(words, tokens.real)
        for layer in self.layers:
            state = torch.tanh(layer(state))
        return Encoded(words, None, state, scope, self.input.words()), tokens

    def _mean(self, words: Tensor, real: Tensor | None) -> Tensor:
        """[b, x, d] -> [b, d], over the words that count."""
        counts = torch.ones_like(words[..., 0]) if real is None else real.to(words.dtype)
        if self.training and self.dims.dropout:
            chosen = counts * (torch.rand_like(counts) >= self.dims.dropout)
            counts = torch.where(chosen.any(1, keepdim=True), chosen, counts)
        return (words * counts.unsqueeze(2)).sum(1) / counts.sum(1, keepdim=True).clamp_min(1)

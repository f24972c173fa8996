"""new_part: an architecture that averages what a token may attend to.

A spec with it:

    [model]
    name = "new_part"
    architecture = "new_part"
    dims = { layers = 2, unary = 64 }
    input = { vocabulary = 1000, max_length = 128 }
    positions = [{ use = "absolute" }]
    heads = [{ use = "classification", classes = 2 }]
"""

from collections.abc import Mapping
from typing import Literal

import torch
from attrs import field, frozen, validators
from peirce.algebra import Norm
from peirce.networks import Pooler, TokenInput, pooled_output, unary_output
from peirce.parts import Architecture, Encoded, NoOptions, Plan, TensorSpec, Tokens
from torch import Tensor, nn


@frozen(kw_only=True)
class NewPartDims:
    """The sizes, every one a count.

    Args:
        layers: averages on top of each other.
        unary: width of the unary atoms.
    """

    layers: int = field(validator=validators.ge(1))
    unary: int = field(validator=validators.ge(1))


class NewPart(Architecture):
    """u(x) += gelu(W [norm u(x); mean of norm u(a) over the tokens a that x may attend to]) in each layer."""

    name = "new_part"
    source = "Deep Averaging Networks (Iyyer et al., 2015), layer by layer and within a scope"
    Dims = NewPartDims
    places = frozenset({"unary", "scope"})
    branches = "U"
    layer = ""
    fixed_layer = True

    @classmethod
    def sizes(cls, options: NoOptions, dims: NewPartDims) -> Mapping[str, int]:
        """What parts may depend on."""
        return {"layers": dims.layers, "unary": dims.unary}

    @classmethod
    def gives(cls, options: NoOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """Heads may read the pooled output."""
        return frozenset({"pooled"})

    def __init__(self, options: NoOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        width = plan.dims.unary
        self.width = width
        self.input = TokenInput(plan, sorted(self.places))
        self.layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(plan.dims.layers))
        self.norm = Norm(width)
        self.dropout = nn.Dropout(plan.dims.dropout)
        self.pooler = Pooler(width)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The standard inputs, and those of positions and augmenters."""
        return self.input.specs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the network gives, before any head."""
        return unary_output(self.width), pooled_output(self.width)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, average layer by layer, pool."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        unary = self.input.unary(tokens)
        logits = unary.new_zeros(unary.shape[0], unary.shape[1], unary.shape[1])
        for layer, its_scope in zip(self.layers, self.input.scopes(tokens, scope), strict=True):
            # Equal logits are equal weights: each row's own mean, and zeros where nothing is in scope.
            weights = its_scope.softmax(logits)
            normal = self.norm(unary)
            both = torch.cat([normal, weights @ normal], 2)
            unary = unary + self.dropout(nn.functional.gelu(layer(both)))
        unary = scope.zero_unary(unary)
        return Encoded(unary, None, self.pooler(unary, tokens.real), scope, self.input.words()), tokens

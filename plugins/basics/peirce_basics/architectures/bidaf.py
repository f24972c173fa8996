"""bidaf: two texts that a recurrence reads, each with what it attends to in the other, read once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from attrs import evolve, field, frozen, validators
from torch import Tensor

from peirce.algebra import Scope
from peirce.networks import unary_output
from peirce.parts import Encoded, Plan, TensorSpec, Tokens
from peirce_basics.architectures.recurrent import (
    DIRECTIONS,
    Layer,
    Order,
    Recurrences,
    RecurrentOptions,
    embedding_width,
    text_count,
)


@frozen(kw_only=True)
class BiDAFOptions:
    """How the texts are read.

    Args:
        directions: `both` joins a recurrence from the left and one from the right; `forward` reads from the left alone.
        embedding: whether the second recurrence reads the embeddings too, beside states and contexts.
    """

    directions: Literal["both", "forward"] = field(default="both", validator=validators.in_(DIRECTIONS))
    embedding: bool = True


class BiDAF(Recurrences):
    """Bidirectional attention flow between the texts of an input, which token types tell apart.

    `layers` recurrences read each text by itself. Each token x attends to the tokens y of the other text by s(x) s(y),
    which gives its context c(x). One more recurrence reads [s; c; embedding], each text by itself; its states are the
    atoms. All recurrences are of one kind and one width. The published code of TPRU lets padding be attended to, with
    score 0; here it is not.
    """

    name = "bidaf"
    source = "BiDAF (Seo et al., 2017), for pairs of texts as in TPRU (Tang et al., 2018), Section 5.2"
    Options = BiDAFOptions
    scope = "bidirectional"

    def __init__(self, options: BiDAFOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.options, self.texts = options, text_count(plan)
        width, states = embedding_width(plan), plan.dims.unary
        second = evolve(plan, dims=evolve(plan.dims, unary=2 * states + options.embedding * width))
        both = RecurrentOptions(directions=options.directions, texts="apart")
        self._build(plan, both)
        self.flow = Layer(second, both)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms."""
        return (unary_output(self.plan.dims.unary),)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, read each text, attend to the other, read again."""
        tokens = self.input.tokens(inputs)
        scope, order = self.input.scope(tokens), Order.of(tokens, self.texts)
        embeddings = self._dropout(self.input.unary(tokens))
        atoms = order.together(embeddings)
        for layer in self.layers:
            atoms = self._dropout(layer(atoms, order))
        states = order.back(atoms)
        given = [states, self._context(states, tokens)] + [embeddings] * self.options.embedding
        atoms = self._dropout(self.flow(order.together(torch.cat(given, 2)), order))
        atoms = scope.zero_unary(order.back(atoms))
        return Encoded(atoms, None, None, scope, self.input.words()), tokens

    def _context(self, states: Tensor, tokens: Tokens) -> Tensor:
        """What each token attends to among the tokens of other texts, [b, x, d]; zero where there are none."""
        other = tokens.types.unsqueeze(2) != tokens.types.unsqueeze(1)
        others = Scope.padding(tokens.real) & Scope.relation(other)
        return others.softmax(states @ states.transpose(1, 2)) @ states

"""absolute: a vector for each position, learned or made of sines and cosines."""

from __future__ import annotations

import math
from typing import Literal

import torch
from attrs import field, frozen, validators
from torch import Tensor

from peirce.errors import InputError
from peirce.parts import Dims, PlainMap, PlainScope, Tokens, UnaryPosition, new_table
from peirce_basics.positions.waves import angles

KINDS = ("learned", "sinusoidal")


@frozen(kw_only=True)
class AbsoluteOptions:
    """How a position becomes a vector.

    Args:
        kind: `learned`, a table of `model.input.max_length` vectors; or `sinusoidal`, which has no parameters
            and no longest sequence.
        first: where the first token stands: the table has so many more rows before, as RoBERTa's has.
    """

    kind: Literal["learned", "sinusoidal"] = field(default="learned", validator=validators.in_(KINDS))
    first: int = field(default=0, validator=validators.ge(0))


class Absolute(UnaryPosition):
    """u(x) += table[t], learned, or sin and cos of t / 10000 ** (2 i / d1) in channels 2 i and 2 i + 1.

    t is the position of x, counted from `first` over real tokens, so that padding on either side changes nothing.
    """

    name = "absolute"
    source = "Transformer (Vaswani et al., 2017), Section 3.5; BERT (Devlin et al., 2018), Figure 2"
    Options = AbsoluteOptions

    def __init__(self, options: AbsoluteOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.width = dims.unary
        self.max_length = dims.max_length
        rows = options.first + dims.max_length
        self.table = new_table(rows, dims.unary) if options.kind == "learned" else None
        # Without parameters, this follows the dtype and the device of the model.
        self.register_buffer("like", torch.zeros(()), persistent=False)

    def unary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, d1].

        Raises:
            InputError: a sequence has more real tokens than the learned table has positions.
        """
        index = tokens.rows(tokens.index)
        if self.options.first:
            index = index + self.options.first
        if self.table is None:
            return self._waves(index)
        if not torch.compiler.is_compiling() and tokens.length > self.max_length:
            # Padding alone may make a batch longer than the table; without values, nothing is known to be padding.
            count = tokens.length if tokens.index.is_meta else int(tokens.index.max()) + 1
            if count > self.max_length:
                raise InputError(
                    f"a sequence of {count} tokens is longer than the {self.max_length} learned positions of "
                    "'absolute'; shorten it, raise model.input.max_length before training, or use "
                    'kind = "sinusoidal"'
                )
        return self.table(index)

    def _waves(self, index: Tensor) -> Tensor:
        turned = angles(index, self.width, self.get_buffer("like"))
        waves = torch.stack([turned.sin(), turned.cos()], 3).flatten(2)
        return waves[..., : self.width].to(self.get_buffer("like").dtype)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token: a row of the table, or sines and cosines in turn."""
        if self.options.kind == "learned":
            return {"unary": [parameters["table.weight"][self.options.first + t] for t in scope.rows]}

        def wave(t: int, channel: int) -> float:
            angle = t / 10_000 ** ((channel - channel % 2) / dims.unary)
            return math.cos(angle) if channel % 2 else math.sin(angle)

        places = [self.options.first + t for t in scope.rows]
        return {"unary": [[wave(t, channel) for channel in range(dims.unary)] for t in places]}

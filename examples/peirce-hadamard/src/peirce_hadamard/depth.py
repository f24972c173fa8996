"""depth: how many brackets a token stands in, for formulas and code."""

from typing import ClassVar

from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.parts import Dims, PlainMap, PlainScope, Tokens, UnaryPosition


@frozen(kw_only=True)
class DepthOptions:
    """Which tokens are brackets.

    Args:
        opening: the token id of the opening bracket.
        closing: the token id of the closing bracket.
        deepest: depths beyond this one count as this one.
    """

    opening: int = field(validator=validators.ge(0))
    closing: int = field(validator=validators.ge(0))
    deepest: int = field(default=8, validator=validators.ge(1))


class Depth(UnaryPosition):
    """u(x) += table[depth of x], where a bracket is as deep as what it encloses.

    The depth of x counts the opening brackets up to x, itself included, less the closing brackets before x. Padding
    counts for nothing, and nothing after x matters, so causal models may use it too.
    """

    name = "depth"
    source = "examples/peirce-hadamard"
    Options = DepthOptions
    example: ClassVar = {"opening": 2, "closing": 3}

    @classmethod
    def check(cls, options: DepthOptions, dims: Dims, scope: str) -> str | None:
        """The brackets must be two different token ids of the vocabulary."""
        if options.opening == options.closing:
            return f"opening and closing are both {options.opening}; brackets need two different token ids"
        highest = max(options.opening, options.closing)
        if highest >= dims.vocabulary:
            return f"bracket {highest} is no token id below model.input.vocabulary = {dims.vocabulary}"
        return None

    def __init__(self, options: DepthOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.options = options
        self.table = nn.Embedding(options.deepest + 1, dims.unary)

    def unary(self, tokens: Tokens) -> Tensor:
        """[b, x, d1]."""
        return self.table(tokens.rows(self.depths(tokens)))

    def depths(self, tokens: Tokens) -> Tensor:
        """The depth of every token, int64 [b, x] in [0, deepest]."""
        ids = tokens.inputs["input_ids"]
        opens, closes = ids == self.options.opening, ids == self.options.closing
        if tokens.real is not None:
            opens, closes = opens & tokens.real, closes & tokens.real
        opened, closed = opens.long(), closes.long()
        inside = opened.cumsum(1) - (closed.cumsum(1) - closed)
        return inside.clamp(0, self.options.deepest)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """From the left, bracket by bracket: the table's row of the depth at each token."""
        options, table = self.options, parameters["table.weight"]
        depth, rows = 0, []
        for word in given["input_ids"]:
            depth += word == options.opening
            rows.append(table[min(max(depth, 0), options.deepest)])
            depth -= word == options.closing
        return {"unary": rows}

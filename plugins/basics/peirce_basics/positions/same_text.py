"""same_text: tokens attend to their own text alone."""

from __future__ import annotations

from attrs import frozen
from torch import Tensor

from peirce.parts import Dims, PlainMap, PlainScope, ScopePosition, Tokens


@frozen(kw_only=True)
class SameTextOptions:
    """How the tokens of several texts are counted.

    Args:
        restart: whether each text is counted by itself, so that every position sees texts that are packed into one
            row as it sees them alone; otherwise positions count on from text to text.
    """

    restart: bool = False


class SameText(ScopePosition):
    """x may attend to y if both have one token type: an encoder reads each text of a pair by itself."""

    name = "same_text"
    source = "siamese encoders (Conneau et al., 2017), as a scope"
    Options = SameTextOptions

    @classmethod
    def check(cls, options: SameTextOptions, dims: Dims, scope: str) -> str | None:
        """Token types must tell texts apart, and a prefix be counted from the first token."""
        if dims.token_types < 2:
            return "texts are told apart by token types; set model.input.token_types to 2"
        if options.restart and scope == "prefix":
            return (
                "a prefix is counted from the first token of all; leave out `restart`, or take another scope"
            )
        return None

    def __init__(self, options: SameTextOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.restart = options.restart

    def index(self, tokens: Tokens) -> Tensor:
        """int64 [b or 1, a]: how many real tokens of its own text stand before each token."""
        if not self.restart:
            return tokens.index
        types = tokens.types
        same = types.unsqueeze(2) == types.unsqueeze(1)
        if tokens.real is not None:
            same = same & tokens.real.unsqueeze(1)
        return (same.long().tril().sum(2) - 1).clamp_min(0)

    def scope(self, tokens: Tokens) -> Tensor:
        """bool [b, x, y]."""
        return tokens.rows(tokens.types).unsqueeze(2) == tokens.types.unsqueeze(1)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: whether both have one type; each token's place, or that in its text."""
        types = given["token_type_ids"]
        own = [sum(types[a] == kind for a in range(x)) for x, kind in enumerate(types)]
        index = own if self.options.restart else scope.rows
        return {"scope": [[one == other for other in types] for one in types], "index": index}

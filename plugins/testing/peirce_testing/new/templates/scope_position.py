"""new_part: a position that says which tokens attend to which.

A spec with it:

    [[model.positions]]
    use = "new_part"
    width = 8
"""

from typing import ClassVar

from attrs import field, frozen, validators
from peirce.parts import Dims, PlainMap, PlainScope, ScopePosition, Tokens, offsets
from torch import Tensor


@frozen(kw_only=True)
class NewPartOptions:
    """How far tokens see.

    Args:
        width: the most tokens between a token and one that it attends to, on either side, that one included.
    """

    width: int = field(default=8, validator=validators.ge(0))


class NewPart(ScopePosition):
    """x may attend to y if |y - x| <= width, counted over real tokens: a window that slides along the text."""

    name = "new_part"
    source = "Longformer (Beltagy et al., 2020), Section 3.1, the sliding window"
    Options = NewPartOptions
    example: ClassVar = {"width": 1}  # the texts of the checks are short

    def __init__(self, options: NewPartOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.width = options.width

    def scope(self, tokens: Tokens) -> Tensor:
        """bool [b or 1, x, a]."""
        return offsets(tokens).abs() <= self.width

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair, from the places of both."""
        return {"scope": [[abs(y - x) <= self.options.width for y in scope.columns] for x in scope.rows]}

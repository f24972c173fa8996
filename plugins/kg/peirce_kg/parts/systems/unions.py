"""Where the conjunctions of a query meet, for systems that unite them before they go on."""

from __future__ import annotations

from torch import Tensor

from peirce_kg.parts.systems.literals import DEPTH
from peirce_kg.parts.systems.system import Literals


class Unions:
    """Where the conjunctions of a query are united: at the variable below which alone they differ.

    together: literals that lead to one variable in one conjunction; united: those that lead to it in conjunctions which
    agree on everything else; branches: of these one for each set that is another: bool [b, x, y] each. What leads to
    the variable itself is intersected before it is united.
    """

    def __init__(self, literals: Literals) -> None:
        together, equal = literals.same_conjunction(), literals.equal()
        self.together = literals.same_variable(literals.targets, literals.targets)
        below = together & literals.same_variable(literals.sources, literals.targets)
        for _ in range(DEPTH - 1):
            below = below | compose(below, below)
        inside = self.together | compose(self.together, below)
        outside = together & ~inside
        # y is outside of x and x' has nothing outside that equals it
        lacks = compose(outside, ~compose(equal, outside.transpose(1, 2)))
        names = literals.same_target()
        self.united = names & ~lacks & ~lacks.transpose(1, 2)
        under = compose(self.together, below)
        alike = compose(compose(under, self.united), under.transpose(1, 2)) & self.united
        conjunction = literals.conjunctions()
        earlier = conjunction.unsqueeze(1) < conjunction.unsqueeze(2)
        # one literal for each conjunction, and no set twice that was united below
        first = ~self.together.tril(-1).any(2)
        again = (alike & earlier.transpose(1, 2)).any(2)
        self.branches = self.united & (first & ~again).unsqueeze(1)


def compose(left: Tensor, right: Tensor) -> Tensor:
    """Whether some y stands between: bool [b, x, y], [b, y, z] -> [b, x, z]."""
    return (left.float() @ right.float()) > 0

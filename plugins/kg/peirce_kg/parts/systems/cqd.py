"""cqd, qto, fit: the vectors of a link predictor, with which the heads of their names search for answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from peirce.parts import NoOptions
from peirce_kg.parts.systems.literals import Rule, Shape, inward, no_negation, tree
from peirce_kg.parts.systems.system import (
    Literals,
    Numbers,
    PlainLiteral,
    QuerySystem,
    as_complex,
    complex_product,
    embed_tokens,
)


class Cqd(QuerySystem):
    """ComplEx: the score of r(h, t) is Re(sum of h r conj(t)), real parts first, so that of all tails is a product.

    A literal's own state is h r, what its tail is compared with; of a variable's literal it says nothing. The search
    for the values of variables is the heads'.
    """

    name = "cqd"
    source = "CQD (Arakelyan et al., 2021); ComplEx: Trouillon et al. (2016)"
    Options = NoOptions
    expected_failures: ClassVar = {
        "dims": "it has the sizes of all systems, and no network that `feedforward` would be the width of"
    }
    rules: ClassVar[tuple[Rule, ...]] = (no_negation, tree)

    @classmethod
    def untrained(cls, shape: Shape) -> str | None:
        """It is trained as a link predictor."""
        if len(shape) > 1 or len(shape[0]) > 1:
            return "it is a link predictor, which is trained on one atom at a time"
        return super().untrained(shape)

    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Small normal numbers; trained vectors of a link predictor may take their place."""
        return torch.randn(count, width) * width**-0.5

    def execute(self, literals: Literals, words: Tensor) -> Tensor:
        """See `QuerySystem.execute`."""
        return complex_product(embed_tokens(words, literals.heads), embed_tokens(words, literals.relations))

    def plain_execute(
        self, literals: Sequence[PlainLiteral], vectors: Numbers, parameters: Mapping[str, Any]
    ) -> list[Numbers]:
        """See the class."""
        found = [as_complex(vectors[each.head]) * as_complex(vectors[each.relation]) for each in literals]
        return [np.append(each.real, each.imag) for each in found]


class Qto(Cqd):
    """ComplEx, as `cqd`, for a search that has negation: the head `qto_tree`."""

    name = "qto"
    source = "QTO (Bai et al., 2023); ComplEx: Trouillon et al. (2016)"
    rules = (tree,)


class Fit(Qto):
    """ComplEx, as `cqd`, for a search that has cycles and existential leaves, too: the head `fit_graph`."""

    name = "fit"
    source = "FIT (Yin et al., 2024); ComplEx: Trouillon et al. (2016)"
    rules = (inward,)

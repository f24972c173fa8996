"""What an architecture declares of queries: which of them it supports, and what it has to do with names and graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from peirce_queries import Floats, Groundings, Index, Template

if TYPE_CHECKING:
    from peirce.model import Model

Scorer: TypeAlias = Callable[[Template, Groundings], Floats]
"""Scores [n, entities] of every entity as an answer to n groundings of a template; higher is better.

It raises `UnsupportedQueryError` where it does not support the template."""


class QuerySupport:
    """The contract of an architecture that answers queries; here as it is of one that reads the tokens of their text.

    Training, evaluation, `peirce ask` and tables of experiments ask the architecture's class, by `support_of`.

    Attributes:
        task: the task that trains it.
        inductive: whether it knows no names and is given a graph. What it is asked it was not trained on.
    """

    task: ClassVar[str] = "kgqa"
    inductive: ClassVar[bool] = False

    @classmethod
    def why_unsupported(cls, template: Template) -> str | None:
        """Why it does not support a query; None if it does."""
        return None

    @classmethod
    def why_untrained(cls, template: Template) -> str | None:
        """Why it is not trained on a query; None if it is."""
        return cls.why_unsupported(template)

    @classmethod
    def graph_scorer(cls, model: Model, index: Index) -> Scorer:
        """The scores of an inductive model that is given the triples of an index."""
        raise NotImplementedError(f"{cls.__name__} does not score a given graph")


def support_of(part: type[Any]) -> type[QuerySupport]:
    """What an architecture declares of queries; what holds of one that reads tokens, if it declares nothing."""
    return part if issubclass(part, QuerySupport) else QuerySupport

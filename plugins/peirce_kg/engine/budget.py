"""What answering may cost: rows in all and seconds, an estimate before, and steps that end as soon as they are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from attrs import define, field, frozen

from peirce_kg.engine.template import Groundings, QueryTooLargeError, Template
from peirce_kg.graphs.index import Index

T = TypeVar("T")

ROWS = 1_000_000_000
"""Rows of all intermediate tables of a batch together, where nobody says more."""
SECONDS = 60.0
"""How long a query may take at the command line, where nobody says more."""
STEP = 1e-4
"""Seconds that an atom of a conjunction takes at least, on a small graph."""
ROW = 4e-8
"""Seconds that a row of an intermediate table takes."""
SHOWN = 160
"""Characters that are shown of a query."""
_TICK = 0.05


class Cancelled(BaseException):
    """Nobody waits for the answer any more."""


@define(eq=False)
class Budget:
    """What is left for answering a batch.

    Args:
        rows: rows of all intermediate tables together.
        seconds: from the first step on; any number if None.
        doing: the part of the query that is worked on, for errors.
    """

    rows: int = ROWS
    seconds: float | None = None
    doing: str = "the query"
    spent: int = field(default=0, init=False)
    begun: float = field(factory=time.monotonic, init=False)
    cancelled: bool = field(default=False, init=False)

    def spend(self, rows: int) -> None:
        """Account for a table before it is made.

        Raises:
            QueryTooLargeError: the budget does not allow it; the message names the part of the query.
        """
        if self.cancelled:
            raise Cancelled
        self.spent += rows
        if self.spent > self.rows:
            raise QueryTooLargeError(
                f"{self.doing}: its intermediate tables would have more than {self.rows:,} rows in all"
            )
        if self.over:
            raise self.late()

    @property
    def over(self) -> bool:
        """Whether the time is."""
        return self.seconds is not None and time.monotonic() - self.begun > self.seconds

    def late(self) -> QueryTooLargeError:
        """The refusal of a query that took too long."""
        return QueryTooLargeError(f"{self.doing}: it took more than its budget of {self.seconds:g} s")


@frozen
class Estimate:
    """What a query costs at most, before anything is done.

    Args:
        conjunctions: that are answered one after another.
        atoms: of all of them.
        rows: of intermediate tables, if no atom narrowed another one: the edges of all atoms between variables.
    """

    conjunctions: int
    atoms: int
    rows: int

    @property
    def least(self) -> float:
        """Seconds that its steps alone take."""
        return self.atoms * STEP

    @property
    def seconds(self) -> float:
        """Seconds that it takes if no atom narrows another one; a cycle may take more."""
        return self.least + self.rows * ROW

    def __str__(self) -> str:
        return f"{self.conjunctions:,} conjunctions of {self.atoms:,} atoms in all, up to {self.rows:,} rows"


def estimate(template: Template, groundings: Groundings, index: Index) -> Estimate:
    """What the answers of a batch cost at most.

    Args:
        template: the abstract query.
        groundings: the batch.
        index: the graph.
    """
    branches = template.branches
    start, stop = index.of_relation(np.arange(index.relations))
    sizes = stop - start
    own = {
        slot: int(sizes[groundings.relations[:, slot.relation]].sum())
        for slot in {slot for branch in branches for slot in branch.slots if len(slot.variables) == 2}
    }
    rows = sum(own.get(slot, 0) for branch in branches for slot in branch.slots)
    atoms = sum(len(branch.slots) + sum(map(len, branch.either)) for branch in branches)
    return Estimate(len(branches), atoms, rows)


def check_worth(template: Template, found: Estimate, budget: Budget) -> None:
    """Refuse a query whose steps alone take longer than the budget, before the first one.

    Raises:
        QueryTooLargeError: they do.
    """
    if budget.seconds is not None and found.least > budget.seconds:
        raise QueryTooLargeError(
            f"{shortened(str(template.query))}: {found} take about {found.least:,.0f} s or more, and the budget is "
            f"{budget.seconds:g} s; split the query, or give it more"
        )


def shortened(text: str) -> str:
    """A query that an error can show."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]} ..."


def waited(work: Callable[[], T], budget: Budget) -> T:
    """The result of some work, for which the main thread waits so that Ctrl-C and the budget end it at once.

    One step of numpy cannot be interrupted. So the work has a thread of its own, which ends after its step when nobody
    waits for it any more. In other threads than the main one the work is simply done.

    Raises:
        QueryTooLargeError: it takes longer than the budget.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="answering", daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_TICK)
            if budget.seconds is not None and time.monotonic() - budget.begun > budget.seconds + 1:
                raise budget.late()
    except BaseException:
        budget.cancelled = True
        raise
    if errors:
        raise errors[0]
    return results[0]

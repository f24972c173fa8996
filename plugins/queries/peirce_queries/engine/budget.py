"""What answering may cost: rows in all and seconds."""

from __future__ import annotations

import time

from attrs import define, field

from peirce.errors import TaskError

ROWS = 1_000_000_000
"""The default limit on rows of all intermediate tables of a batch together."""
SECONDS = 60.0
"""The default limit on a query at the command line, in seconds."""


class QueryTooLargeError(TaskError):
    """A query whose exact answer would need more memory or time than the engine may use."""


@define(eq=False)
class Budget:
    """What is left for answering a batch.

    Args:
        rows: rows of all intermediate tables together.
        seconds: from when the budget is made; any number if None. The step that is under way is finished.
        doing: the part of the query that is worked on, for errors.
    """

    rows: int = ROWS
    seconds: float | None = None
    doing: str = "the query"
    spent: int = field(default=0, init=False)
    started: float = field(factory=time.monotonic, init=False)

    def spend(self, rows: int) -> None:
        """Account for a table before it is made; a `QueryTooLargeError` names the part that is too large."""
        self.spent += rows
        if self.spent > self.rows:
            raise QueryTooLargeError(
                f"{self.doing}: its intermediate tables would have more than {self.rows:,} rows in all"
            )
        if self.is_out_of_time:
            raise QueryTooLargeError(f"{self.doing}: it took more than its budget of {self.seconds:g} s")

    @property
    def is_out_of_time(self) -> bool:
        """Whether `seconds` have passed since the start."""
        return self.seconds is not None and time.monotonic() - self.started > self.seconds

"""Which token ids heads rank: what every head that compares entities with sets is told."""

from __future__ import annotations

from attrs import field, frozen, validators


@frozen(kw_only=True)
class RankingOptions:
    """Which token ids are entities.

    Args:
        first: the token id of entity 0.
        count: the number of entities, whose ids follow each other; 0 for all ids from `first` on.
        free: the token id of the free variable.
    """

    first: int = field(default=0, validator=validators.ge(0))
    count: int = field(default=0, validator=validators.ge(0))
    free: int = field(default=1, validator=validators.ge(0))

"""Deliberately wrong parts, each a correct one plus one flaw, beside the correct one.

They are written as an outsider might write them. A flaw that its author believes in stands in `reference` as well, so
that only the check which is about the flaw can find it.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen


@frozen
class Pair:
    """A correct part, the same part with one flaw, and the check that must reject it."""

    right: type[Any]
    wrong: type[Any]
    check: str
    kind: str = "operators"

"""The three ways in which a check does not pass."""

from __future__ import annotations


class BrokenError(AssertionError):
    """A part breaks its contract; the message shows the values."""


class NotRunError(Exception):
    """A check that cannot run in this environment; a failure under `--peirce-strict`."""


class NotApplicableError(Exception):
    """A check that says nothing about this part, such as look-ahead in an operator that refuses causal scopes."""

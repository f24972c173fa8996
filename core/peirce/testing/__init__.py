"""The conformance suite and the hypothesis strategies, for the parts in the box and for everyone else's.

A plug-in's author adds one line to a test module, and pytest shows one test for each check and part:

    test_conformance = Conformance("my_lab.ops")

or runs `pytest --pyargs peirce.testing.suite --peirce-plugin my_lab.ops`. This package loads pytest and hypothesis
only when they are used, since pytest imports its `plugin` module in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peirce.testing.conformance import Conformance as Conformance

__all__ = ["Conformance"]


def __getattr__(name: str) -> Any:
    if name == "Conformance":
        from peirce.testing.conformance import Conformance

        return Conformance
    raise AttributeError(f"module 'peirce.testing' has no attribute {name!r}")

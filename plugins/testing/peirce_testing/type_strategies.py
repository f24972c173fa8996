"""What hypothesis calls where it is imported, by its entry point; a module that imports it may be half loaded then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def register() -> None:
    """Let `hypothesis.strategies.from_type` know the strategies of sizes, views and scopes."""
    from hypothesis import strategies as st

    from peirce.algebra import Scope
    from peirce.parts import Dims
    from peirce_testing.examples import View

    for kind, name in ((Dims, "dims"), (View, "views"), (Scope, "scopes")):
        st.register_type_strategy(kind, partial(_strategy, name))


def _strategy(name: str, _: type) -> SearchStrategy[object]:
    from peirce_testing import strategies

    found: SearchStrategy[object] = getattr(strategies, name)()
    return found

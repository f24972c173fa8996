"""The plug-in of `peirce_logic`. Its parts, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.parts import Augmenter


@hookimpl
def register_augmenters() -> list[type[Augmenter]]:
    """Logical projections of token embeddings."""
    from peirce_logic.logical import Logical

    return [Logical]


@hookimpl
def register_commands() -> dict[str, str]:
    """Logical relations of texts."""
    return {"logic": "Find the logical relations of texts: keywords and the spans that they join."}

"""The plug-in of `peirce_tpru`. Its parts, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.parts import Augmenter, RecurrentOperator


@hookimpl
def register_augmenters() -> list[type[Augmenter]]:
    """Token embeddings as bindings of fillers and roles."""
    from peirce_tpru.tpr import TensorProduct

    return [TensorProduct]


@hookimpl
def register_operators() -> list[type[RecurrentOperator]]:
    """The recurrent unit."""
    from peirce_tpru.operators.tpru import TPRU

    return [TPRU]


@hookimpl
def register_commands() -> dict[str, str]:
    """Models of published weights, and what a model binds."""
    return {
        "roles": "Show which roles each token of a text binds.",
        "import.tpru": "Import published weights of the recurrent unit TPRU.",
    }

"""The plug-in of `peirce_show`, which has commands and no parts."""

from __future__ import annotations

from peirce.registry import hookimpl


@hookimpl
def register_commands() -> dict[str, str]:
    """Pictures of models."""
    return {
        "draw": "Draw what a model is made of, and what differs from another.",
        "compare": "Compare models: sizes, work, inputs and outputs, curves and metrics.",
        "look": "Show what a trained model computes between the tokens of a text.",
    }

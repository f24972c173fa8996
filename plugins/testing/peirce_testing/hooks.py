"""The plug-in of `peirce_testing`: what its commands are for."""

from __future__ import annotations

from peirce.registry import hookimpl


@hookimpl
def register_commands() -> dict[str, str]:
    """What `peirce --help` says of them."""
    return {
        "new": "Write a part that works, a distribution of parts, or a commented spec.",
        "plugins.check": "Import a plug-in and run the conformance suite over its parts.",
        "spec.schema": "Print or write the JSON Schema of spec files, for editors.",
    }

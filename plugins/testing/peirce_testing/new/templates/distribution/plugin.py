"""The plug-in new-package: what it registers. A hook imports its parts, and torch with them, when it is asked."""

from __future__ import annotations

from pathlib import Path

import peirce


@peirce.hookimpl
def register_specs() -> list[Path]:
    """The ready specs of this package."""
    return [Path(__file__).parent / "specs"]

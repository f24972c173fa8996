"""What the distribution registers. Each hook imports its own, so that a session finds the runtime without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peirce

if TYPE_CHECKING:
    from peirce.model import AnyTask, Exporter
    from peirce.parts import Architecture


@peirce.hookimpl
def register_architectures() -> list[type[Architecture]]:
    """The network."""
    from peirce_averages.network import Averages

    return [Averages]


@peirce.hookimpl
def register_tasks() -> list[type[AnyTask]]:
    """The data."""
    from peirce_averages.lines import LabelledLines

    return [LabelledLines]


@peirce.hookimpl
def register_exporters() -> list[type[Exporter]]:
    """The format."""
    from peirce_averages.arrays import Arrays

    return [Arrays]


@peirce.hookimpl
def register_runtimes() -> dict[str, str]:
    """What opens its files."""
    return {".npz": "peirce_averages.runtime:ArraysRuntime"}

"""What the distribution registers."""

from __future__ import annotations

import peirce
from peirce.model import AnyTask, Exporter
from peirce.parts import Architecture

from peirce_averages.arrays import Arrays
from peirce_averages.lines import LabelledLines
from peirce_averages.network import Averages


@peirce.hookimpl
def register_architectures() -> list[type[Architecture]]:
    """The network."""
    return [Averages]


@peirce.hookimpl
def register_tasks() -> list[type[AnyTask]]:
    """The data."""
    return [LabelledLines]


@peirce.hookimpl
def register_exporters() -> list[type[Exporter]]:
    """The format."""
    return [Arrays]

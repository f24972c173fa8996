"""Every hook of Peirce. A plug-in is a module with functions of these names, each marked `@peirce.hookimpl`.

Hooks take no arguments and are called once, when a registry is made; what they return is frozen.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from peirce.model import AnyTask, Exporter
    from peirce.parts import (
        Architecture,
        Augmenter,
        Head,
        Position,
        PureOperator,
        RecurrentOperator,
        StateOperator,
    )

hookspec = pluggy.HookspecMarker("peirce")
"""Marks a function of the module of a `peirce.hooks` entry point as a hook that plug-ins may implement."""
hookimpl = pluggy.HookimplMarker("peirce")
"""Marks a function of a plug-in as an implementation of the hook of its name."""


@hookspec
def register_operators() -> Iterable[type[PureOperator | StateOperator | RecurrentOperator]]:
    """Add neural logic operators, which layers are made of."""


@hookspec
def register_positions() -> Iterable[type[Position]]:
    """Add positions, which tell a model where tokens stand."""


@hookspec
def register_augmenters() -> Iterable[type[Augmenter]]:
    """Add augmenters, which enrich the embeddings of tokens."""


@hookspec
def register_heads() -> Iterable[type[Head]]:
    """Add heads, which turn atoms into predictions."""


@hookspec
def register_architectures() -> Iterable[type[Architecture]]:
    """Add architectures, the networks between token ids and atoms."""


@hookspec
def register_tasks() -> Iterable[type[AnyTask]]:
    """Add tasks, each the data, loss and metric of one job."""


@hookspec
def register_exporters() -> Iterable[type[Exporter]]:
    """Add exporters, which write a model in another format."""


@hookspec
def register_specs() -> Iterable[Path]:
    """Add ready specs: files, or folders of files, each of which is called by its file's name without `.toml`."""


@hookspec
def register_commands() -> Mapping[str, str]:
    """Add lines of help, one for each command that the package announces in `peirce.commands`.

    `peirce --help` reads them from the source and runs nothing, so the function must return a literal dictionary.
    """

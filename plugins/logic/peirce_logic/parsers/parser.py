"""The contract of parsers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from attrs import frozen

from peirce.errors import TaskError
from peirce_logic.detection.trees import Tree


@frozen
class Parsed:
    """A text and its sentences.

    Args:
        text: what the offsets of the trees' tokens count in.
        trees: one a sentence, in their order.
    """

    text: str
    trees: tuple[Tree, ...]

    @property
    def failed(self) -> int:
        """How many sentences could not be parsed, and have flat trees."""
        return sum(not tree.parsed for tree in self.trees)


class Parser(ABC):
    """Splits a text into sentences and gives each a constituency tree.

    A plug-in announces one by `register_parsers`. It is made with what stands after the colon of `NAME:MODEL`.

    Args:
        model: the name of its model; its own choice if None.

    Attributes:
        name: what `--parser` takes.
        default: the model where none is named.
        needs: the packages that load its model, which must be installed. A downloaded model of Peirce may name the
            parser that it reads with, and what such packages keep is unpickled: a model is named, and no path.
        reads_trees: whether it reads trees in place of text; what it gives is then another text than it was given.
        example: what it reads, for checks.

    Raises:
        TaskError: it needs a package or a model that is not installed, or the model is a path.
    """

    name: ClassVar[str]
    default: ClassVar[str | None] = None
    needs: ClassVar[tuple[str, ...]] = ()
    reads_trees: ClassVar[bool] = False
    example: ClassVar[str] = "We stay if it rains. They didn't come."

    def __init__(self, model: str | None = None) -> None:
        self.model = model or self.default
        named = self.model or ""
        if self.needs and (not re.fullmatch(r"[\w.-]+", named) or ".." in named or Path(named).exists()):
            raise TaskError(
                f"the parser {self.name!r} loads models by the names under which they are installed, and {named!r} is "
                "a path; install the model where the parser looks for its own, and name it"
            )
        if missing := [package for package in self.needs if find_spec(package) is None]:
            raise TaskError(
                f"the parser {self.name!r} needs {' and '.join(missing)}, which is not installed; run "
                f"`pip install {' '.join(missing)}`"
            )

    @property
    def identity(self) -> str:
        """What its trees depend on, for caches: its name, its model and versions."""
        versions = [f"{each}={_version(each)}" for each in ("peirce", *self.packages)]
        return " ".join([f"{self.name}:{self.model}", *versions])

    @property
    def packages(self) -> tuple[str, ...]:
        """The distributions that its trees come from, its model's included."""
        return self.needs

    @abstractmethod
    def parse(self, text: str) -> Parsed:
        """The sentences of a text; one that cannot be parsed gets a flat tree.

        Raises:
            InputError: the text is not what the parser reads.
        """


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""

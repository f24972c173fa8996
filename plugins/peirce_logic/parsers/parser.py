"""The contract of parsers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from attrs import frozen

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

    Attributes:
        name: what `--parser` takes.
    """

    name: ClassVar[str]

    @abstractmethod
    def parse(self, text: str) -> Parsed:
        """The sentences of a text; one that cannot be parsed gets a flat tree.

        Raises:
            InputError: the text is not what the parser reads.
        """

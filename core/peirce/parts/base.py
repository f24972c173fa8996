"""What every part has, whatever its kind: a name, options, and the sizes that it may depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, final

from attrs import field, fields, frozen
from attrs.validators import in_

from peirce.errors import PlanError

API = 1
"""The version of these contracts; a part states the one it was written for."""
SUPPORTED_API = range(1, API + 1)
"""The versions that this core can use; a plug-in with a part outside them is quarantined."""


class UnknownVocabularyError(PlanError):
    """A part asked for the vocabulary before a task's data have given it."""


@frozen(kw_only=True)
class NoOptions:
    """The options of a part that has none."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"there is no option {name!r}: the part has no line `Options =` that names its class of options"
            )


@final
@frozen(kw_only=True)
class Dims:
    """The sizes that parts may depend on; every one is a count.

    `heads`, `head_size`, `feedforward_unary` and `recurrent` are there where the architecture has them. A part that
    asks for one that is not there is refused by a `PlanError`, which names the size and the architecture.

    Args:
        layers: layers on top of each other.
        unary: width of the unary atoms.
        binary: width of the binary atoms; 0 where there are none.
        heads: attention heads, or whatever an operator has several of.
        head_size: channels within a head.
        feedforward_unary: hidden width of networks on unary atoms.
        feedforward_binary: hidden width of networks on binary atoms; 0 where there are none.
        recurrent: width of what a recurrent operator gives.
        embedding: width of the word embeddings, which heads may be tied to; that of the unary atoms if 0.
        pooled: width of the pooled output; that of the unary atoms if 0.
        vocabulary: token ids; 0 until a task's data give them.
        token_types: token types; 0 where tokens have none.
        max_length: the most tokens of an input.
        pad_id: the token that fills up a batch.
        dropout: the rate of dropout.
        architecture: whose sizes they are, for errors.
    """

    layers: int
    unary: int
    binary: int = 0
    _heads: int = 0
    _head_size: int = 0
    _feedforward_unary: int = 0
    feedforward_binary: int = 0
    _recurrent: int = 0
    _embedding: int = 0
    _pooled: int = 0
    _vocabulary: int = 0
    token_types: int = 2
    max_length: int = 512
    pad_id: int = 0
    dropout: float = 0.0
    architecture: str = field(default="", eq=False)

    @property
    def heads(self) -> int:
        """Attention heads, or whatever an operator has several of."""
        return self._require_size("heads", self._heads)

    @property
    def head_size(self) -> int:
        """Channels within a head."""
        return self._require_size("head_size", self._head_size)

    @property
    def feedforward_unary(self) -> int:
        """Hidden width of networks on unary atoms."""
        return self._require_size("feedforward_unary", self._feedforward_unary)

    @property
    def recurrent(self) -> int:
        """Width of what a recurrent operator gives."""
        return self._require_size("recurrent", self._recurrent)

    @property
    def embedding(self) -> int:
        """Width of the word embeddings."""
        return self._embedding or self.unary

    @property
    def vocabulary(self) -> int:
        """Token ids.

        Raises:
            UnknownVocabularyError: the spec leaves them to a task's data, which have not been read.
        """
        if not self._vocabulary:
            raise UnknownVocabularyError(
                "it needs model.input.vocabulary, which only a task's data will give"
            )
        return self._vocabulary

    @property
    def pooled(self) -> int:
        """Width of the pooled output."""
        return self._pooled or self.unary

    def known(self) -> dict[str, int]:
        """The sizes that are there, by name; `pooled` where it is a width of its own."""
        named = {str(each.alias): getattr(self, each.name) for each in fields(Dims)}
        counts = {name: value for name, value in named.items() if name not in ("dropout", "architecture")}
        return {name: value for name, value in counts.items() if value}

    def _require_size(self, name: str, size: int) -> int:
        if not size:
            whose = f"architecture {self.architecture!r}" if self.architecture else "the architecture"
            raise PlanError(f"it needs the size {name!r}, which {whose} does not have")
        return size


def one_of(*values: str) -> Any:
    """A field of `Options` that takes one of some words, the first unless another is given."""
    return field(default=values[0], validator=in_(values))


class Part:
    """What every part has, whatever its kind.

    Attributes:
        name: the name that specs use, `[a-z][a-z0-9_]*`.
        api: the version of the contracts that the part was written for.
        source: the paper and the equation, table or section that defines the part.
        Options: a frozen, keyword-only attrs class; no field may be called `use` or `as`.
        renamed: older names of options, each with today's; specs with the older ones are read as before.
        example: options for the conformance checks and the documentation, where the defaults will not do.
        expected_failures: conformance checks that the part is known to fail, each with its reason.
    """

    name: ClassVar[str]
    api: ClassVar[int] = 1
    source: ClassVar[str] = ""
    if not TYPE_CHECKING:  # undeclared, so that type checkers and editors know the fields of each part's own
        Options = NoOptions
    renamed: ClassVar[Mapping[str, str]] = {}
    example: ClassVar[Mapping[str, Any]] = {}
    expected_failures: ClassVar[Mapping[str, str]] = {}

    @final
    @classmethod
    def upgrade_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options of a spec by their names of today."""
        return {cls.renamed.get(name, name): value for name, value in options.items()}


class SizedPart(Part):
    """A part that is built as `cls(options, dims)`: all kinds but architectures."""

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        """Why the part cannot work with these options, sizes and kind of scope; None when it can."""
        return None

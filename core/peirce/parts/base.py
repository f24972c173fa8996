"""What every part has, whatever its kind: a name, options, and the sizes that it may depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

API = 1
"""The version of these contracts; a part states the one it was written for."""
SUPPORTED_API = range(1, API + 1)
"""The versions that this core can use; a plug-in with a part outside them is quarantined."""


@frozen(kw_only=True)
class NoOptions:
    """The options of a part that has none."""


@frozen(kw_only=True)
class Dims:
    """The sizes that parts may depend on, whatever the architecture; every one is a count."""

    layers: int
    unary: int
    binary: int = 0
    heads: int
    head_size: int
    feedforward_unary: int
    feedforward_binary: int = 0
    vocabulary: int
    token_types: int = 2
    max_length: int = 512
    pad_id: int = 0
    dropout: float = 0.0


class Part:
    """What every part has, whatever its kind.

    Attributes:
        name: the name that specs use, `[a-z][a-z0-9_]*`.
        api: the version of the contracts that the part was written for.
        source: the paper and the equation, table or section that defines the part.
        Options: a frozen, keyword-only attrs class; no field may be called `use` or `as`.
        example: options for the conformance checks and the documentation, where the defaults will not do.
        expected_failures: conformance checks that the part is known to fail, each with its reason.
    """

    name: ClassVar[str]
    api: ClassVar[int] = 1
    source: ClassVar[str] = ""
    Options: ClassVar[type] = NoOptions
    example: ClassVar[Mapping[str, Any]] = {}
    expected_failures: ClassVar[Mapping[str, str]] = {}

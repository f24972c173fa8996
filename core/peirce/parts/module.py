"""What parts with parameters of their own share, whatever their kind."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from peirce.parts.base import Dims, SizedPart
from peirce.parts.signature import TensorSpec
from peirce.parts.tracing import annotate_part

if TYPE_CHECKING:
    from peirce.parts.operator import PlainScope
    from peirce.parts.plain import PlainMap

T = TypeVar("T")


class ModulePart(SizedPart, nn.Module, ABC):
    """A part with parameters that runs before or after the operators and may declare further inputs of the model."""

    def __init__(self, options: Any, dims: Dims) -> None:
        nn.Module.__init__(self)
        self.options = options

    @classmethod
    def example_in(cls, folder: Path, dims: Dims) -> Mapping[str, Any]:
        """Further options for the conformance checks, beside `example`; writes the files that `begin` reads.

        Args:
            folder: an empty folder; it is gone when a saved model is loaded.
            dims: the sizes that the part is made for.
        """
        return {}

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs that the part needs beside the standard ones."""
        return ()

    def example_inputs(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> Mapping[str, Tensor]:
        """Inputs for the conformance checks in place of some drawn ones, where random numbers do not fit together.

        Args:
            drawn: the inputs by name, random ones.
            generator: of what is drawn.
        """
        return {}

    def begin(self) -> None:
        """Take what a new model starts with from outside its spec, such as a file of trained vectors.

        It is called once, after a model is built and initialised, and never when one is loaded: what it changes is in
        the state dict.
        """

    def reference(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap | None:
        """The equations written out over nested lists, for one example without padding; None where none are stated.

        Args:
            given: the inputs by name, `token_type_ids` among them. An augmenter finds `embeddings` [x][d1] there, a
                position inside attention `query` and `key` [x][h][s], the number of the `layer`, and `read`, which maps
                atoms [r][d1] of an `AtomBias` to [r][h * s]. A head finds `unary` [x][d1], `binary` [x][y][d2],
                `pooled` [p] and `embeddings` [v][d1].
            scope: who may attend to whom, and where the tokens stand.
            parameters: the parameters and buffers, nested lists by their names; it reads every parameter.
            dims: the sizes that the part was made for.

        Returns:
            By name: a head's outputs; an augmenter's `embeddings`; and of a position what its places are given,
            `unary` [x][d1], `binary` [x][y][d2], `scope` [x][a] and `index` [a], what it adds in the layer to each
            pair's `score` [x][a][h] and `value` [x][a][h][s], and the turned `query` and `key`.
        """
        return None


def call_named(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a part; errors get a note with its name, such as `position 'shaw'`, and so do nodes of an exported graph."""
    if torch.compiler.is_exporting():
        with annotate_part(what):
            return function(*arguments)
    if torch.compiler.is_compiling():
        return function(*arguments)
    try:
        return function(*arguments)
    except Exception as error:
        error.add_note(f"raised in {what}")
        raise

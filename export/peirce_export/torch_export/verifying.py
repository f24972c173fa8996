"""A `.pt2` file as verification sees it: the names, dtypes and dims of a program, and values by running the file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

import torch

from peirce.parts import Signature, TensorSpec
from peirce_export.casting import DTYPES
from peirce_export.failures import DtypeMismatch, NameMismatch, check_dims
from peirce_export.torch_export.archive import Archive
from peirce_export.torch_export.program import ProgramFile
from peirce_export.verification import THROUGHOUT, TOLERANCES, Verifiable

WHOLE = {"int64": torch.int64, "bool": torch.bool}


class ProgramGraph(Verifiable):
    """A `.pt2` file, to verify; torch loads it when it is checked."""

    def __init__(self, archive: Archive) -> None:
        self.path, self.metadata, self._archive = archive.path, archive.metadata, archive
        if archive.compiled:
            self.notes = ("Compiled by AOTInductor: its dims were checked by running it.",)

    def check(self, signature: Signature) -> None:
        """Names as the metadata have them; of a program, dtypes and dims as its graph has them."""
        if self.metadata.signature != signature:
            raise NameMismatch(
                f"{self.path} was exported for other inputs and outputs than the model's; export the model again"
            )
        if self._archive.compiled:
            return
        with self.path.open("rb") as file:
            program = torch.export.load(file)
        given = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        sides = (
            ("input", signature.inputs, [given[name] for name in program.graph_signature.user_inputs]),
            ("output", signature.outputs, program.graph.output_node().args[0]),
        )
        for side, specs, nodes in sides:
            if len(nodes) != len(specs):
                raise NameMismatch(
                    f"{self.path} has {len(nodes)} {side}s, and the signature {len(specs)}: "
                    + ", ".join(spec.name for spec in specs)
                )
            for spec, node in zip(specs, nodes, strict=True):
                self._check_tensor(f"{side} {spec.name!r}", spec, node.meta["val"])

    def _check_tensor(self, where: str, spec: TensorSpec, value: Any) -> None:
        """Check one tensor of the graph against its spec."""
        wanted = WHOLE.get(spec.dtype, DTYPES[self.metadata.precision])
        if value.dtype != wanted:
            raise DtypeMismatch(f"{self.path}: {where} is {value.dtype}, but the signature says {wanted}")
        found = [size if isinstance(size, int) else str(size) for size in value.shape]
        check_dims(str(self.path), where, found, spec.dims, named=False)

    def shape(self, output: str) -> tuple[str | int, ...]:
        """The dims of an output."""
        return self.metadata.signature.output(output).dims

    def tolerance(self) -> tuple[float, str]:
        """The tolerance of the precision; values in bfloat16 are computed in it, unlike those of an ONNX file."""
        return TOLERANCES[THROUGHOUT] if self.metadata.precision == "bfloat16" else super().tolerance()

    def open_file(self, providers: Sequence[str] | None) -> AbstractContextManager[ProgramFile]:
        """The file in torch."""
        return closing(ProgramFile(self._archive))

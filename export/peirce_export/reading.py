"""Verification of a file of any exporter, by whatever reads it: a runtime, or the exporter's own `read`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import evolve
from numpy.typing import NDArray

from peirce.errors import InputError, check_known, one_line
from peirce.model import Exportable, Model
from peirce.parts import Signature
from peirce_export.casting import DTYPES, precision_of
from peirce_export.failures import DtypeMismatch, NameMismatch, check_dims
from peirce_export.metadata import Metadata
from peirce_export.report import Verification
from peirce_export.roles import exportable_for
from peirce_export.runtimes import LoadedModel, Progress
from peirce_export.verification import CEILINGS, Verifiable, verify

LEFT_OUT = "The file leaves out "
"""How the note begins on what a file lacks of its model's inputs and outputs."""


def verify_read(
    read: Callable[[Path, Model], Any],
    path: Path,
    model: Model,
    *,
    precision: str | None = None,
    tolerance: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Verification:
    """Read a file and verify it against its model: names, dtypes and dims, then values at sizes unlike the traced ones.

    The file may lack outputs of the model, and inputs that are optional; a note says so.

    Args:
        read: opens the file, as `Exporter.read` does.
        path, model: the file, and the model that it was made from, which is not changed.
        precision: of the file, as in `peirce.model.Report`; by default that of the model's weights.
        tolerance: the largest accepted error of an output, as a part of its largest value; by default the largest that
            a file of this precision may state.
        seed: of the random inputs.
        progress: called with a few words before each step.

    Raises:
        NameMismatch, DtypeMismatch, DimMismatch, ValueMismatch: the file differs from the model; see `peirce.verify`.
        InputError: there is no such precision.
    """
    precision = precision or precision_of(model)
    check_known("precision of an exported file", precision, CEILINGS)
    with closing(_open(read, path, model)) as opened:
        view = exportable_for(opened.role, model)
        notes = _check_signature(path, opened.signature, view.signature)
        view.signature = Signature(
            [view.signature.input(spec.name) for spec in opened.signature.inputs],
            [view.signature.output(spec.name) for spec in opened.signature.outputs],
        )
        most, reason = tolerance, "stated by the exporter."
        if most is None:
            most, reason = CEILINGS[precision], f"the largest that a file in {precision} may have."
        file = _ReadFile(path, opened, view, precision, (most, reason), notes)
        report = verify(file, view, seed=seed, progress=progress)
    return evolve(report, precision=precision, tolerance=most)


def _open(read: Callable[[Path, Model], Any], path: Path, model: Model) -> LoadedModel:
    shell = deepcopy(model).eval()
    for tensor in shell.state_dict().values():
        if tensor.is_floating_point():
            tensor.fill_(float("nan"))
    found = read(path, shell)
    if not isinstance(found, LoadedModel) and not callable(found):
        raise InputError(
            f"reading {path} returned {found!r}; return a function that is called as the model is"
        )
    return found if isinstance(found, LoadedModel) else CalledFile(found, path, model.signature)


def _check_signature(path: Path, found: Signature, whole: Signature) -> tuple[str, ...]:
    """Check what a file takes and gives against the model's signature; return a note on what it leaves out.

    Raises:
        NameMismatch, DtypeMismatch, DimMismatch: the first fault, of one tensor after the other.
    """
    missing: list[str] = []
    for side, its, wanted in (
        ("input", found.inputs, whole.inputs),
        ("output", found.outputs, whole.outputs),
    ):
        known = {spec.name: spec for spec in wanted}
        for spec in its:
            if (model_spec := known.pop(spec.name, None)) is None:
                names = ", ".join(each.name for each in wanted)
                raise NameMismatch(f"{path} has an {side} {spec.name!r}, and the model has {names}")
            where = f"{side} {spec.name!r}"
            if spec.dtype != model_spec.dtype:
                raise DtypeMismatch(f"{path}: {where} is {spec.dtype}, but the model's is {model_spec.dtype}")
            check_dims(str(path), where, spec.dims, model_spec.dims)
        if needed := [name for name in known if (side == "input" and known[name].required) or not its]:
            raise NameMismatch(f"{path} lacks the {side} {', '.join(needed)}")
        missing += known
    return (f"{LEFT_OUT}{', '.join(missing)}.",) if missing else ()


class CalledFile(LoadedModel):
    """A function from the inputs of a signature by name to its outputs by name, in torch, as an opened file.

    A function that `Exporter.read` returns has the signature of the model; one with fewer outputs is returned as this.
    """

    providers = ("torch",)

    def __init__(self, function: Any, path: Path, signature: Signature) -> None:
        self.function, self.path, self.signature = function, path, signature
        weighed = isinstance(function, torch.nn.Module)
        self._real = DTYPES[precision_of(function)] if weighed else torch.float32

    def dtype(self, name: str) -> np.dtype[Any]:
        """float32 for all floats."""
        specs = (*self.signature.inputs, *self.signature.outputs)
        kind = next(spec.dtype for spec in specs if spec.name == name)
        return np.dtype("float32" if kind == "float" else kind)

    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Call the function."""
        tensors = {name: torch.from_numpy(array) for name, array in feeds.items()}
        given = {name: t.to(self._real) if t.is_floating_point() else t for name, t in tensors.items()}
        try:
            with torch.no_grad():
                found = self.function(**given)
        except Exception as error:  # whatever a stranger's function raises
            raise InputError(f"{type(error).__name__}: {one_line(error)}") from error
        if missing := [name for name in outputs if name not in found]:
            raise NameMismatch(f"{self.path} gives {', '.join(found)}, and lacks {', '.join(missing)}")
        values = [torch.as_tensor(found[name]).detach().cpu() for name in outputs]
        return [(value.float() if value.is_floating_point() else value).numpy() for value in values]

    def close(self) -> None:
        """Nothing is held open."""


class _ReadFile(Verifiable):
    """An opened file whose signature has been checked, to verify its values."""

    def __init__(
        self,
        path: Path,
        opened: LoadedModel,
        view: Exportable,
        precision: str,
        allowed: tuple[float, str],
        notes: tuple[str, ...],
    ) -> None:
        self.path, self.opened, self.allowed, self.notes = path, opened, allowed, notes
        real: Any = precision if precision in DTYPES else "float32"
        self.metadata = Metadata(
            signature=view.signature, spec=view.spec.to_toml(), provenance={}, precision=real
        )

    def check(self, signature: Signature) -> None:
        """It has been checked."""

    def shape(self, output: str) -> tuple[str | int, ...]:
        """The dims of an output."""
        return self.opened.signature.output(output).dims

    def open_file(self, providers: Sequence[str] | None) -> AbstractContextManager[LoadedModel]:
        """The file, which is open."""
        return nullcontext(self.opened)

    def tolerance(self) -> tuple[float, str]:
        """What the exporter states, or what the precision allows."""
        return self.allowed

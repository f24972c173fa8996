"""An exported file of any format against its model: structure first, then values at shapes unlike the traced one.

The reference is torch in float64 with the weights as the file's precision rounds them, so that the error is
that of the exported arithmetic alone.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import evolve
from numpy.typing import NDArray
from torch import nn

from peirce.errors import InputError, SpecError
from peirce.files import parse_toml
from peirce.model import Exportable, Model
from peirce.parts import Signature
from peirce.spec import Spec, join_key
from peirce_export.arrays import save_arrays
from peirce_export.cases import Case, cases, inputs, seen
from peirce_export.casting import DTYPES, cast_copy, outputs_of, precision_of, rounded_copy
from peirce_export.failures import DimMismatch, Mismatch, ValueMismatch
from peirce_export.metadata import BITS, DYNAMIC, INT4, INT8, WEIGHTS, WEIGHTS4, Metadata
from peirce_export.report import Line, Verification
from peirce_export.roles import exportable_for
from peirce_export.runtimes import LoadedModel, Progress

THROUGHOUT, TF32 = "bfloat16 throughout", "tf32"
"""What a runtime computes in that does not widen bfloat16, and products of float32 on GPUs that round their factors."""
TOLERANCES: Mapping[str, tuple[float, str]] = {
    "float32": (
        1e-4,
        "float32 rounds at 6e-8; twelve layers with fresh weights show 1e-6, trained weights amplify more.",
    ),
    "float16": (
        2e-2,
        "float16 rounds at 5e-4 after every operator; twelve layers with fresh weights show 6e-4, trained "
        "weights amplify more.",
    ),
    "bfloat16": (
        1e-2,
        "constants of the graph are rounded to bfloat16 (4e-3); the checked copy computes in float32.",
    ),
    THROUGHOUT: (
        1e-1,
        "bfloat16 rounds at 4e-3 after every operator, norms and softmaxes apart: eight times as much as float16.",
    ),
    TF32: (5e-3, "TF32 rounds the factors of products at 5e-4."),
    WEIGHTS: (
        5e-2,
        "weights of products have 8 bits, a scale for each block of 32: 4e-3 of the largest in a block.",
    ),
    WEIGHTS4: (
        4e-1,
        "weights of products have 4 bits, a scale for each block of 32: 7e-2 of the largest in a block; two layers "
        "with fresh weights show 1.6e-1.",
    ),
    DYNAMIC: (
        2e-1,
        "weights of products have 7 bits, a scale for each column, and what they are multiplied with has 8, a scale "
        "for each tensor.",
    ),
}
"""The largest accepted error for each precision, of integers for each way to quantise, and why."""
CEILINGS: Mapping[str, float] = {
    precision: max(
        tolerance
        for kind, (tolerance, _) in TOLERANCES.items()
        if BITS.get(kind, kind.partition(" ")[0]) == precision
    )
    for precision in (*DTYPES, TF32, INT8, INT4)
}
"""The largest error that an exporter may accept of a file in a precision."""
AGREEMENT: Mapping[str, float] = {INT8: 0.9, INT4: 0.7}
"""The least share of rows in which a quantised file and the model agree on the best score. With fresh
weights, whose scores are close to each other, int4 shows 0.82 to 0.88."""
SCORES = "logits"
"""How the names of scores end: of those the best one is the answer."""
HALF = float(torch.finfo(torch.float16).max)
"""The largest number of float16."""
_MOST = 8
"""The most differences of two specs that a message lists; two specs with more are simply two models."""


class Verifiable(ABC):
    """A file of some format as verification sees it.

    Attributes:
        path: the file.
        metadata: what it says about itself.
        notes: what the reader of the report should know, a sentence each.
    """

    path: Path
    metadata: Metadata
    notes: tuple[str, ...] = ()

    @abstractmethod
    def check(self, signature: Signature) -> None:
        """Check the file's inputs and outputs against a signature, and the file against the rules of its format.

        Raises:
            NameMismatch, DtypeMismatch, DimMismatch: the first fault, looked for in this order.
        """

    @abstractmethod
    def shape(self, output: str) -> tuple[str | int, ...]:
        """The dims of an output, as the file states them."""

    @abstractmethod
    def open_file(self, providers: Sequence[str] | None) -> AbstractContextManager[LoadedModel]:
        """The file in its runtime; None takes providers that need no special hardware, where there is a choice."""

    def tolerance(self) -> tuple[float, str]:
        """The largest accepted error and why; by default that of the precision in the metadata."""
        return TOLERANCES[self.metadata.quantisation or self.metadata.precision]

    def largest(self, signature: Signature) -> Mapping[str, int]:
        """The largest size of each symbolic dim that has one, which the cases respect; by default the signature's."""
        return signature.largest


def verify(
    file: Verifiable,
    model: Model | Exportable,
    *,
    seed: int = 0,
    providers: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Verify an exported file against the model it was made from.

    Args:
        file: the file.
        model: the model, or what the file shows of it; it is not changed.
        seed: of the random inputs.
        providers: what computes, in the runtime's own names.
        progress: called with a few words before each step.

    Returns:
        What was measured; every output is within its tolerance. A note says where the file's spec is not the model's.

    Raises:
        NameMismatch, DtypeMismatch, DimMismatch, ValueMismatch: the first kind of fault, in this order. The
            last one has the report, and the inputs of the worst case are in a file beside the exported one.
        ModelFileError: the file is damaged, or was not exported by Peirce.
    """
    say = progress or (lambda words: None)
    say("checking names, dtypes and dims")
    view = exportable_for(file.metadata.role, model)
    other_spec = spec_difference(file.metadata.spec, view.spec.to_toml())
    try:
        file.check(view.signature)
        with file.open_file(providers) as opened:
            report = _ValueCheck(file, view, opened, seed, say).check()
    except Mismatch as fault:
        if other_spec is None:
            raise
        # If the model is the wrong one, this is what the user can act on.
        raise fault.with_message(f"{fault}\n{other_spec}") from fault
    return report if other_spec is None else evolve(report, notes=(*report.notes, other_spec))


class _ValueCheck:
    """The check of one file's values: runs the cases and keeps the worst error of each output."""

    def __init__(
        self, file: Verifiable, model: Exportable, opened: LoadedModel, seed: int, say: Progress
    ) -> None:
        self.file, self.path, self.metadata = file, file.path, file.metadata
        self.opened, self.seed, self.say = opened, seed, say
        self.signature: Signature = model.signature
        self.reference = rounded_copy(model, DTYPES[self.metadata.precision])
        changed = precision_of(model) != self.metadata.precision
        self.before = cast_copy(model, torch.float64) if changed else None
        self.worst: dict[str, tuple[float, Case]] = {}
        self.rounded: dict[str, float] = {}
        self.answers: dict[str, list[bool]] = {}
        self.silent = {spec.name for spec in self.signature.outputs}
        self.undefined: dict[str, str] = {}
        self.overflow = ""

    def check(self) -> Verification:
        plan = cases(self.signature, self.file.largest(self.signature))
        for number, case in enumerate(plan, 1):
            self.say(f"case {number} of {len(plan)}: {case}")
            self._run(case)
        report = self._report(plan)
        if not report.passed:
            raise self._value_mismatch(report)
        return report

    def _run(self, case: Case) -> None:
        feeds = self._inputs(case)
        names = [spec.name for spec in self.signature.outputs]
        try:
            found = self.opened.run(feeds, names)
        except InputError as cause:
            saved = self._save(feeds)
            raise DimMismatch(
                f"{self.path} does not run at {case}, so a dim inside the graph is fixed: {cause}\n"
                f"The inputs (seed {self.seed}) are in {saved}"
            ) from cause
        expected = outputs_of(self.reference, feeds)
        with self._watched(case):
            before = outputs_of(self.before, feeds) if self.before is not None else None
        for spec, array in zip(self.signature.outputs, found, strict=True):
            name, wanted = spec.name, expected[spec.name]
            if array.shape != wanted.shape:
                raise DimMismatch(
                    f"{self.path}: output {name!r} is {list(array.shape)} at {case}, and the model's is "
                    f"{list(wanted.shape)}\nThe inputs (seed {self.seed}) are in {self._save(feeds)}"
                )
            if before is not None:  # what rounding alone makes infinite is the file's fault
                wanted = np.where(is_comparable(wanted), wanted, before[name])
            seeing, real = seen(self.signature, spec, feeds)
            places = np.broadcast_to(seeing, wanted.shape)
            error = relative_error(array, wanted, places, real)
            if name not in self.worst or error > self.worst[name][0]:
                self.worst[name] = (error, case)
            told = is_comparable(wanted) & places
            if (wanted != 0)[told].any():
                self.silent.discard(name)
            if error < float("inf") and (odd := places & ~told & (array != wanted)).any():
                what = (
                    "where the file has numbers" if np.isfinite(array[odd]).any() else "and so does the file"
                )
                self.undefined[name] = f"has NaN or infinity in {name!r} at {case}, {what}"
            if self.metadata.quantisation and name.endswith(SCORES):
                same = array.argmax(-1) == wanted.argmax(-1)
                self.answers.setdefault(name, []).extend(
                    same[(told & (wanted != 0)).any(-1)].ravel().tolist()
                )
            if before is not None:
                loss = relative_error(array, before[name], places, real)
                self.rounded[name] = max(loss, self.rounded.get(name, 0.0))

    @contextmanager
    def _watched(self, case: Case) -> Iterator[None]:
        """Note the first module whose outputs are too large for a file in float16, before weights were cast to it.

        The file may pass all the same, since CPUs compute wider between its nodes.
        """
        if self.before is None or self.metadata.precision != "float16":
            yield
            return
        names = {module: name for name, module in self.before.named_modules()}

        def note(module: nn.Module, _: Any, given: Any) -> None:
            values = list(given.values()) if isinstance(given, dict) else given
            for value in values if isinstance(values, list | tuple) else [values]:
                if self.overflow or module not in names or not isinstance(value, torch.Tensor):
                    continue
                if value.is_floating_point() and value.numel() and (largest := value.abs().max()) > HALF:
                    name = re.sub(r"^model\b\.?(network\b\.?)?", "", names[module]) or "the model"
                    self.overflow = f"{name} gives {largest:.1e} at {case}, and float16 ends at {HALF:.0f}"

        # Parts may run without the hooks of their own modules.
        handle = nn.modules.module.register_module_forward_hook(note)
        try:
            yield
        finally:
            handle.remove()

    def _inputs(self, case: Case) -> dict[str, NDArray[Any]]:
        real = np.float16 if self.metadata.precision == "float16" else np.float32
        return inputs(self.signature, case, self.seed, np.dtype(real))

    def _report(self, plan: tuple[Case, ...]) -> Verification:
        precision, quantisation = self.metadata.precision, self.metadata.quantisation
        tolerance, reason = self.file.tolerance()
        lines = []
        for spec in self.signature.outputs:
            (error, case), agreed = self.worst[spec.name], self.answers.get(spec.name)
            lines.append(
                Line(
                    output=spec.name,
                    shape=self.file.shape(spec.name),
                    dtype=self.metadata.dtype(spec.name),
                    error=error,
                    tolerance=tolerance if spec.dtype == "float" else 0.0,
                    case=case.name,
                    rounded=self.rounded.get(spec.name),
                    agreement=sum(agreed) / len(agreed) if agreed else None,
                    least_agreement=AGREEMENT[BITS[quantisation]] if quantisation else 0.0,
                )
            )
        notes = [*self.file.notes]
        if quantisation:
            notes.append(
                f"{BITS[quantisation]}, {quantisation}: weights of products; all else is as in float32."
            )
        if self.overflow:
            notes.append(
                f"Overflow: {self.overflow}. Where a runtime does not compute wider, as GPUs do not, the file gives "
                "infinity or NaN; export in bfloat16 or float32."
            )
        if self.silent:
            notes.append(
                f"Nothing is known of {', '.join(sorted(self.silent))}: the model gives zero for all of these "
                "inputs; try another seed."
            )
        notes += [
            f"The model in float64, the reference, {what}: no fault of the file; these places were not compared."
            for what in self.undefined.values()
        ]
        return Verification(
            file=self.path,
            precision=BITS[quantisation] if quantisation else precision,
            opset_requested=self.metadata.opset_requested,
            opset_actual=self.metadata.opset_actual,
            seed=self.seed,
            providers=self.opened.providers,
            cases=tuple(map(str, plan)),
            lines=tuple(lines),
            reason=reason,
            notes=tuple(notes),
        )

    def _value_mismatch(self, report: Verification) -> Mismatch:
        failed = [line for line in report.lines if not line.passed]
        worst = max(failed, key=lambda line: line.error)
        case = self.worst[worst.output][1]
        saved = self._save(self._inputs(case))
        difference = (
            f"differs from the model by {worst.error:.1e} of its largest value at {case} (tolerance "
            f"{worst.tolerance:.0e})"
        )
        if worst.error == float("inf") and self.overflow:
            difference += f": overflow, {self.overflow}; export in bfloat16 or float32"
        if worst.error <= worst.tolerance and worst.agreement is not None:
            difference = (
                f"has another best score than the model in {1 - worst.agreement:.0%} of the rows, and at most "
                f"{1 - worst.least_agreement:.0%} may differ"
            )
        fault = ValueMismatch(
            f"{self.path}: output {worst.output!r} {difference}; {len(failed)} of "
            f"{len(report.lines)} outputs differ.\n"
            f"The inputs (seed {self.seed}) are in {saved}; repeat the run with\n"
            f"peirce run {self.path} --inputs {saved} -o OUT.npz"
        )
        fault.report, fault.inputs = report, saved
        return fault

    def _save(self, feeds: Mapping[str, NDArray[Any]]) -> Path:
        return save_arrays(self.path.with_name(f"{self.path.stem}.failed-inputs.npz"), feeds)


def is_comparable(expected: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a reference has numbers of float32: what it gives beyond, as a mask in float64, hides all other errors."""
    return np.abs(expected) < np.finfo(np.float32).max


def relative_error(
    found: NDArray[Any],
    expected: NDArray[Any],
    places: NDArray[np.bool_] | bool = True,
    real: NDArray[np.bool_] | bool = True,
) -> float:
    """max |found - expected| / max |expected| over some places, as far as the expected value is a number.

    It is inf where only one of them is zero throughout, and where, at any place of `real`, what was found is not finite
    and what was expected is.
    """
    finite = is_comparable(expected)
    if found.shape != expected.shape or (real & finite & ~np.isfinite(found)).any():
        return float("inf")
    counted = finite & places
    difference = np.abs(found[counted].astype(np.float64) - expected[counted]).max(initial=0.0)
    largest = np.abs(expected[counted]).max(initial=0.0)
    if largest == 0.0:
        return 0.0 if difference == 0.0 else float("inf")
    return float(difference / largest)


def spec_difference(of_file: str, of_model: str) -> str | None:
    """A sentence that names the keys that differ, with both values; None where the specs are equal."""
    one, two = ({} if of_file == of_model else dict(_keys(text)) for text in (of_file, of_model))
    found = [
        f"{key} is {one.get(key, 'absent')} in the file and {two.get(key, 'absent')} in the model"
        for key in dict.fromkeys([*one, *two])
        if one.get(key) != two.get(key)
    ]
    items = "; ".join(found[:_MOST]) + (f"; and {len(found) - _MOST} more" if len(found) > _MOST else "")
    return f"The file was exported from another spec than that of the model: {items}." if found else None


def _keys(text: str) -> Iterator[tuple[str, str]]:
    """The keys of a spec and their values, defaults written out, so that leaving one out makes no difference."""
    with suppress(SpecError):  # a key that this version does not know is a difference to tell
        text = Spec.from_toml(text).to_toml()
    left: list[tuple[tuple[str, ...], Any]] = [((), parse_toml(text))]
    while left:
        path, value = left.pop(0)
        if isinstance(value, list):
            value = {str(i): item for i, item in enumerate(value)}
        if isinstance(value, dict) and value:
            left[:0] = [((*path, key), item) for key, item in value.items()]
        else:
            yield join_key(path), repr(value)

"""What an exporter's `read` returned, held against the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_specs import TRANSFORMER

from peirce import Model, build
from peirce.errors import InputError
from peirce.parts import Signature
from peirce_export import verify_read
from peirce_export.failures import DimMismatch, Mismatch, NameMismatch, ValueMismatch
from peirce_export.reading import LEFT_OUT, CalledFile
from peirce_export.verification import CEILINGS


@pytest.fixture(scope="module")
def model() -> Model:
    return build(TRANSFORMER.replace({"model.dims.layers": 1}), seed=1).eval()


def narrowed(model: Model, names: set[str]) -> Signature:
    """The model's signature with these tensors alone."""
    sides = (
        [s for s in side if s.name in names] for side in (model.signature.inputs, model.signature.outputs)
    )
    return Signature(*sides)


def test_a_shell_that_is_filled_passes_and_is_no_longer_than_its_tolerance(
    model: Model, tmp_path: Path
) -> None:
    def read(path: Path, shell: Model) -> Model:
        assert all(value.isnan().all() for value in shell.parameters())
        shell.load_state_dict(model.state_dict())
        return shell

    report = verify_read(read, tmp_path / "a.w", model, tolerance=1e-5)
    assert (report.passed, report.precision, report.tolerance, report.notes) == (True, "float32", 1e-5, ())
    assert len(report.lines) == len(model.signature.outputs)


def test_what_a_file_leaves_out_is_noted(model: Model, tmp_path: Path) -> None:
    names = {"input_ids", "attention_mask", "pooled"}

    def read(path: Path, shell: Model) -> CalledFile:
        return CalledFile(model, path, narrowed(model, names))

    (note,) = verify_read(read, tmp_path / "a.w", model).notes
    others = [s.name for s in (*model.signature.inputs, *model.signature.outputs) if s.name not in names]
    assert note == f"{LEFT_OUT}{', '.join(others)}."


def _fixed(model: Model) -> Any:
    return lambda **inputs: model(**{name: value[:, :1] for name, value in inputs.items()})


def _summed(model: Model) -> Any:
    return lambda **inputs: {name: value.sum(0) for name, value in model(**inputs).items()}


def _fails(model: Model) -> Any:
    return lambda **inputs: [][len(inputs)]


def _renamed(model: Model) -> Any:
    return lambda **inputs: {f"my_{name}": value for name, value in model(**inputs).items()}


def _off(model: Model) -> Any:
    return lambda **inputs: {name: value * 1.001 for name, value in model(**inputs).items()}


def _without_ids(model: Model) -> Any:
    return CalledFile(model, Path("a.w"), narrowed(model, {"attention_mask", "pooled"}))


def _without_outputs(model: Model) -> Any:
    return CalledFile(model, Path("a.w"), narrowed(model, {"input_ids"}))


def _foreign(model: Model) -> Any:
    return CalledFile(model, Path("a.w"), Signature(model.signature.inputs, model.signature.inputs))


@pytest.mark.parametrize(
    ("read", "fault", "said"),
    [
        (_fixed, DimMismatch, r"is \[3, 1, .*\] at odd length .* and the model's is \[3, 7,"),
        (_summed, DimMismatch, r"at one token .* and the model's is \[1, 1,"),
        (_fails, DimMismatch, "does not run at one token .*IndexError: list index out of range"),
        (_renamed, NameMismatch, "a.w gives my_.*, and lacks "),
        (_off, ValueMismatch, r"differs from the model by 1.0e-03 .*tolerance 1e-04"),
        (_without_ids, NameMismatch, "a.w lacks the input input_ids"),
        (_without_outputs, NameMismatch, "a.w lacks the output "),
        (_foreign, NameMismatch, "a.w has an output 'input_ids', and the model has "),
        (lambda model: 3, InputError, "reading .*a.w returned 3; return a function"),
    ],
)
def test_each_fault_by_its_class(
    read: Callable[[Model], Any], fault: type[Mismatch], said: str, model: Model, tmp_path: Path
) -> None:
    with pytest.raises(fault, match=said):
        verify_read(lambda path, shell: read(model), tmp_path / "a.w", model)
    assert not any(value.requires_grad and value.isnan().any() for value in model.parameters())


def test_a_model_in_half_precision_and_an_unknown_precision(model: Model, tmp_path: Path) -> None:
    half = build(TRANSFORMER.replace({"model.dims.layers": 1}), seed=1).to(torch.bfloat16).eval()

    def read(path: Path, shell: Model) -> Model:
        shell.load_state_dict(half.state_dict())
        return shell

    report = verify_read(read, tmp_path / "a.w", half)
    assert (report.precision, report.tolerance) == ("bfloat16", CEILINGS["bfloat16"])
    with pytest.raises(InputError, match="float23"):
        verify_read(read, tmp_path / "a.w", half, precision="float23")


def test_the_largest_tolerance_of_each_precision() -> None:
    assert CEILINGS == {
        "float32": 1e-4, "tf32": 5e-3, "float16": 2e-2, "bfloat16": 1e-1, "int8": 2e-1, "int4": 4e-1,
    }  # fmt: skip

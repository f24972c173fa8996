"""`peirce export`, `peirce verify` and `peirce run`.

`run` loads no torch, so that it works where only the runtime is installed; the others import it late.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from peirce.commands import Json, as_json
from peirce.errors import InputError, ModelFileError

from peirce_export.failures import Mismatch
from peirce_export.report import SCHEMA, Report

SCHEMA_OF_RUN = "peirce.run/1"


def export(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A saved model's folder, or a spec: a .toml file or a ready spec's name."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
    to: Annotated[
        str, typer.Option("--to", metavar="NAME", help="The exporter; `peirce list exporters` shows them.")
    ] = "onnx",
    opset: Annotated[int | None, typer.Option(help="The version of ONNX's operators.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32, float16 or bfloat16; the model's own by default.")
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k", help="Rank the scores of entities inside the graph and give so many of the best."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another option of the exporter.")
    ] = None,
    json: Json = False,
) -> None:
    """Export a model to another format and verify it; exit with 1 if it differs from the model."""
    from peirce.compose import export as write
    from peirce.compose import is_saved
    from peirce.spec import parse_override

    options: dict[str, Any] = {"opset": opset, "precision": precision, "top_k": top_k}
    options = {name: value for name, value in options.items() if value is not None}
    options.update(parse_override(setting) for setting in settings or ())
    if not is_saved(model):
        typer.echo(f"note: {model} is a spec, so the weights are random (seed 0)", err=True)
    try:
        report = write(model, path=output, to=to, **options)
    except Mismatch as fault:
        raise _failed(fault, json) from fault
    _show(report, json)


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An exported ONNX file.")],
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="MODEL", help="The saved model; FILE's folder by default."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random inputs.")] = 0,
    provider: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An execution provider of ONNX Runtime; the CPU by default."),
    ] = None,
    json: Json = False,
) -> None:
    """Verify an exported file against its model; exit with 1 if they differ."""
    if not file.is_file():
        raise ModelFileError(f"{file} is not a file; `peirce export` writes one")
    from peirce.compose import load

    from peirce_export.session import CPU
    from peirce_export.steps import steps
    from peirce_export.verify import verify as hold

    folder = file.parent if model is None else model
    if model is None and not (folder / "spec.toml").is_file():
        raise ModelFileError(
            f"{folder} holds no saved model to verify {file.name} against; name one with --model MODEL"
        )
    try:
        with steps(f"verifying {file.name}") as say:
            report = hold(file, load(folder), seed=seed, providers=tuple(provider or (CPU,)), progress=say)
    except Mismatch as fault:
        raise _failed(fault, json) from fault
    _show(report, json)


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An exported ONNX file.")],
    inputs: Annotated[
        Path, typer.Option("--inputs", metavar="FILE", help="An .npz file: arrays by input name.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The .npz file to write the outputs to.")
    ],
    provider: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="An execution provider of ONNX Runtime; CUDA, then the CPU by default."
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads within an operator.")] = None,
    json: Json = False,
) -> None:
    """Run an exported file on the arrays of an .npz file, without torch."""
    from peirce_export.arrays import read_arrays, save_arrays
    from peirce_export.session import Session

    if not output.parent.is_dir():
        raise InputError(f"folder {output.parent} does not exist; create it, or write elsewhere")
    with Session(file, providers=provider, threads=threads) as session:
        results = session.run(read_arrays(inputs))
        providers = session.providers
    save_arrays(output, results)
    shapes = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in results.items()
    }
    if json:
        as_json(SCHEMA_OF_RUN, file=str(output), providers=list(providers), outputs=shapes)
        return
    for name, shape in shapes.items():
        typer.echo(f"{name}  {shape['dtype']} {shape['shape']}")
    typer.echo(f"written to {output} ({', '.join(providers)})")


def _show(report: Report, json: bool) -> None:
    if json:
        as_json(**report.to_dict())
        return
    from rich.console import Console

    Console().print(report.table())


def _failed(fault: Mismatch, json: bool) -> typer.Exit:
    """Print what was measured and what is wrong; exit with 1."""
    if json:
        nothing = {"schema": SCHEMA, "lines": [], "passed": False}
        measured = nothing if fault.report is None else fault.report.to_dict()
        as_json(**measured, error={"kind": type(fault).__name__, "message": str(fault)})
    elif fault.report is not None:
        _show(fault.report, json)
    typer.secho(f"error: {type(fault).__name__}: {fault}", err=True, fg="red")
    return typer.Exit(1)

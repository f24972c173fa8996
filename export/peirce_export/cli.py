"""`peirce export`, `peirce verify` and `peirce run`.

`run` loads no torch, so that it works where only the runtime is installed; the others import it late.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import attrs
import typer
from typer.core import TyperCommand

from peirce.commands import Json, print_json
from peirce.errors import InputError, renamed
from peirce.extras import require
from peirce.model import Report
from peirce_export.failures import Mismatch
from peirce_export.report import SCHEMA

SCHEMA_OF_RUN = "peirce.run/1"
DEFAULT = "onnx"
_RENAMED = {"--lean": "--optimize", "--no-lean": "--no-optimize"}
"""Current names of options by their older ones, which version 2.0 removes."""
File = Annotated[Path, typer.Argument(metavar="FILE", help="An exported file.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the random inputs.")]
Providers = Annotated[
    list[str] | None,
    typer.Option(
        "--provider", metavar="NAME", help="What computes, such as an execution provider of ONNX Runtime."
    ),
]


class ExportCommand(TyperCommand):
    """`peirce export` with the options of the exporter that `--to` names, which is known once it is called."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        """The context of the whole command: the fixed options, and each field of the exporter's `Options`.

        Raises:
            RegistryError: no such exporter.
        """
        for given in filter(_RENAMED.get, args):
            renamed(given, _RENAMED[given], "2.0")
        args = [_RENAMED.get(given, given) for given in args]
        require("`peirce export`", "torch", extra="peirce-export[onnx]")
        return _full_command(_exporter_name(args)).make_context(info_name, args, *rest, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the whole command."""
        return ctx.command.invoke(ctx)


def export(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A saved model's folder, or a spec: a .toml file or a ready spec's name."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write, or the folder to add to."),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="NAME",
            help="The exporter, whose options `--to NAME --help` shows; `peirce list exporters` shows them all.",
        ),
    ] = DEFAULT,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An option of the exporter.")
    ] = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Export a model to another format and verify it; exit with 1 if it differs from the model."""
    from peirce.compose import is_saved
    from peirce.registry import load_spec
    from peirce.spec import parse_override
    from peirce_export.exporting import export as write

    options.update(parse_override(setting) for setting in settings or ())
    if not is_saved(model):
        load_spec(model)  # refuse what is not a spec before weights are mentioned
    if output is None:
        folder = Path(model) if is_saved(model) else Path()
        raise InputError(f"give the file to write with -o, such as -o {folder / 'model.onnx'}")
    if not is_saved(model):
        typer.echo(f"note: {model} is a spec, so the weights are random (seed 0)", err=True)
    _print_report(lambda: write(model, path=output, to=to, **options), json)


_FIXED = list(inspect.signature(export, eval_str=True).parameters.values())[:-1]
"""The parameters of `export` whatever the exporter: all but `options`."""
export.__signature__ = inspect.Signature(_FIXED)  # type: ignore[attr-defined]
export_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
"""The command `export`."""
export_app.command(cls=ExportCommand)(export)


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="PATH", help="An exported file, or the folder of a saved model.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="The saved model, or its SPEC; FILE's folder by default."
        ),
    ] = None,
    seed: Seed = 0,
    provider: Providers = None,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone", help="Check FILE against its own signature, without a model and without torch."
        ),
    ] = False,
    matrix: Annotated[
        bool,
        typer.Option(
            "--matrix",
            help="Export the model to ONNX in each opset from 20 on, and verify each file on each "
            "provider, or on those named.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Verify an exported file against its model, or the files of a saved model against their digests.

    On the CPU by default. Exits with 1 where something differs.
    """
    from peirce_export.report import progress_spinner

    if alone and (model is not None or matrix):
        raise InputError("--alone compares with no model; leave out --model and --matrix, or --alone")
    if not (alone or file.is_dir()) or matrix:
        require(
            "comparing a file with its model", "torch", extra="peirce-export[onnx]", instead="give --alone"
        )

    def work() -> Report:
        with progress_spinner(f"verifying {file.name}") as say:
            if alone and not file.is_dir():
                from peirce_export.self_check import self_check

                return self_check(file, seed=seed, providers=provider, progress=say)
            if matrix:
                from peirce_export.onnx.matrix import matrix_of

                return matrix_of(file, model, seed=seed, providers=provider, progress=say)
            from peirce_export.exporting import verify as hold

            return hold(file, model, seed=seed, providers=provider, progress=say)

    _print_report(work, json)


def run(
    file: File,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", metavar="FILE", help="An .npz file: arrays by input name.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The .npz file to write the outputs to."),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(
            "--ask",
            metavar="FIELD=VALUE",
            help="In place of arrays a question, such as text='It rains.'; once more for each further field and each "
            "further value of a list. The file lies in the folder of its saved model.",
        ),
    ] = None,
    provider: Providers = None,
    threads: Annotated[int | None, typer.Option(help="Threads within an operator.")] = None,
    json: Json = False,
) -> None:
    """Run an exported file on the arrays of an .npz file, or ask it a question, without torch."""
    from peirce_export.arrays import read_arrays, save_arrays
    from peirce_export.session import Session

    if ask:
        from peirce_export.questions import answer_question

        if inputs is not None or output is not None:
            raise InputError("--ask is given beside --inputs or --output; ask a question, or give arrays")
        with Session(file, providers=provider, threads=threads) as session:
            answer = answer_question(file, session, ask)
        if json:
            print_json(SCHEMA_OF_RUN, file=str(file), answer=answer)
            return
        for name, value in answer.items():
            typer.echo(f"{name}  {', '.join(map(str, value)) if isinstance(value, list) else value}")
        return
    if inputs is None or output is None:
        raise InputError("give --inputs FILE and --output FILE, or a question with --ask FIELD=VALUE")
    if not output.parent.is_dir():
        raise InputError(f"folder {output.parent} does not exist; create it, or write elsewhere")
    with Session(file, providers=provider, threads=threads) as session:
        results, providers = session.run(read_arrays(inputs)), session.providers
    save_arrays(output, results)
    if json:
        shapes = {name: {"dtype": a.dtype.name, "shape": list(a.shape)} for name, a in results.items()}
        print_json(SCHEMA_OF_RUN, file=str(output), providers=list(providers), outputs=shapes)
        return
    for name, array in results.items():
        typer.echo(f"{name}  {array.dtype.name} {list(array.shape)}")
    typer.echo(f"written to {output} ({', '.join(providers)})")


def _exporter_name(args: Sequence[str]) -> str:
    """The exporter that the arguments name."""
    for this, following in pairwise([*args, ""]):
        name, equals, value = this.partition("=")
        if name == "--to" and (value if equals else following):
            return value if equals else following
    return DEFAULT


def _full_command(to: str) -> Any:
    """The command with an exporter's own options."""
    from peirce.registry import default_registry, fields
    from peirce.spec import parse_override

    kind = default_registry().get("exporters", to).Options
    taken = {parameter.name for parameter in _FIXED} | {"set"}
    options_of_exporter = {each["name"]: each for each in fields(kind) if each["name"] not in taken}
    types = {field.alias or field.name: _scalar(field.type) for field in attrs.fields(kind)}

    def export_with_options(**given: Any) -> None:
        for name in options_of_exporter:
            value = given.pop(name)
            if value is not None:
                given[name] = value if types[name] else parse_override(f"{name}={value}")[1]
        export(**given)

    defaults = {
        name: "" if each["default"] is None else f" [default: {each['default']}]"
        for name, each in options_of_exporter.items()
    }
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None,
            annotation=Annotated[(types[name] or str) | None, typer.Option(help=each["meaning"] + defaults[name])],
        )
        for name, each in options_of_exporter.items()
    ]  # fmt: skip
    export_with_options.__signature__ = inspect.Signature([*_FIXED, *parameters])  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command("export", help=inspect.getdoc(export))(export_with_options)
    return typer.main.get_command(app)


def _scalar(kind: Any) -> Any:
    """The type that an option's text is read as, a list for a repeatable one; None where the text is TOML."""
    members = get_args(kind) if type(None) in get_args(kind) else (kind,)
    (first, *more) = [member for member in members if member is not NoneType]
    if (get_origin(first), get_args(first)) == (tuple, (str, ...)):
        return list[str]
    if get_origin(first) is Literal:
        first = type(get_args(first)[0])
    return first if not more and first in (bool, int, float, str) else None


def _print_report(work: Callable[[], Report], json: bool) -> None:
    """Print the report that some work gives; exit with 1 if it did not pass."""
    report: Report | None
    error: dict[str, Any] = {}
    try:
        report = work()
    except Mismatch as fault:
        report = fault.report
        typer.secho(f"error: {type(fault).__name__}: {fault}", err=True, fg="red")
        error = {"error": {"kind": type(fault).__name__, "message": str(fault)}}
    if json:
        empty = {"schema": SCHEMA, "lines": [], "passed": False}
        print_json(**(empty if report is None else report.to_dict()), **error)
    elif report is not None:
        from rich.console import Console

        Console().print(report)
    if error or report is None or not report.passed:
        raise typer.Exit(1)

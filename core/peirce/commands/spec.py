"""`peirce spec` and `peirce summary`: the ready specs, what is wrong with one, and the size of a model."""

from __future__ import annotations

from typing import Annotated

import typer
from attrs import asdict

from peirce.commands.show import Json, print_json, print_table
from peirce.errors import PeirceError
from peirce.registry import default_catalogue, default_registry, load_spec
from peirce.resources import machine_memory
from peirce.spec import parse_override, summary_of

SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC", help="A path (it ends in .toml or has a separator) or a ready spec's name."
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value first, such as model.dims.layers=2."),
]


def list_specs(json: Json = False) -> None:
    """List the ready specs, which every command that takes a spec takes by name."""
    catalogue = default_catalogue()
    rows = [
        {"name": entry.name, "summary": summary_of(entry.part), "plugin": entry.plugin}
        for entry in catalogue.entries("specs")
    ]
    if json:
        print_json("peirce.spec.list/1", specs=rows)
    else:
        print_table(("spec", "what it is", "plug-in"), (list(row.values()) for row in rows))
    for broken in catalogue.quarantined:
        typer.echo(f"plug-in {broken.plugin} was not loaded: {broken.cause}", err=True)


def check(file: SpecArgument, changes: Changes = None, json: Json = False) -> None:
    """Check that a spec can be read and that its parts fit together."""
    from peirce.compose import resolve

    try:
        read = load_spec(file, dict(map(parse_override, changes or ())))
        resolve(read, default_registry())
    except PeirceError as error:
        if not json:
            raise
        print_json("peirce.spec.check/1", spec=file, ok=False, error=str(error))
        raise typer.Exit(2) from None
    if json:
        print_json("peirce.spec.check/1", spec=file, ok=True, error=None)
    else:
        typer.echo(f"OK: {file} ({read.name}, {read.architecture})")


def _joined(cell: object) -> object:
    """A cell as a table shows it; several named texts are joined."""
    return "; ".join(" ".join(item) for item in cell.items()) if isinstance(cell, dict) else cell


def summary(
    spec: SpecArgument,
    batch: Annotated[int, typer.Option(min=1, help="Examples.")] = 1,
    length: Annotated[
        int | None, typer.Option(min=1, help="Tokens of each example; 128, or as many as the spec allows.")
    ] = None,
    changes: Changes = None,
    json: Json = False,
) -> None:
    """Show a spec's typed plan, its parameters, and the FLOPs and bytes of one forward pass."""
    from peirce.compose import summarise

    read = load_spec(spec, dict(map(parse_override, changes or ())))
    found = summarise(read, batch=batch, length=length, registry=default_registry())
    if json:
        print_json("peirce.summary/2", **asdict(found))
        return
    print_table(
        ("layers", "index", "operator", "typing", "reads", "output", "scope", "activation"),
        ([*map(_joined, operator.values())] for operator in found.operators),
        title=f"{found.name} ({found.architecture})",
    )
    print_table(("input", ""), found.inputs.items())
    print_table(("output", ""), found.outputs.items())
    counts = [*((part, count, found.weights[part]) for part, count in found.groups.items())]
    counts.append(("all", found.parameters, sum(found.weights.values())))
    rows = [(part, f"{count:,}", f"{weights:,}") for part, count, weights in counts]
    print_table(("parameters of", "count", "without biases and norms"), rows)
    typer.echo(f"one forward pass at batch {batch}, length {found.length}, in float32:")
    typer.echo(f"  FLOPs                {found.flops:>18,}")
    typer.echo(f"  bytes of parameters  {found.parameter_bytes:>18,}")
    typer.echo(f"  bytes written        {found.activation_bytes:>18,}")
    memory = machine_memory()
    beyond = {
        "the parameters alone do": found.parameter_bytes,
        "a training, which keeps four numbers for each parameter, does": 4 * found.parameter_bytes,
    }
    for what, needed in beyond.items():
        if needed > memory:
            typer.echo(
                f"{what} not fit into the {memory / 1e9:,.1f} GB of this machine: {needed / 1e9:,.1f} GB"
            )
            break

"""new-part: a command that lists the parts of a spec.

$ peirce new-part bert-base
"""

import json as json_module
from typing import Annotated

import peirce
import typer
from peirce.compose import resolve

COMMAND_EXAMPLES = {"new-part": [["bert-base"], ["bert-base", "--json"]]}
"""Calls that the conformance suite tries."""


def new_part(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A path that ends in .toml, or a ready spec.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the parts of a spec, each with the source that defines it."""
    plan = resolve(peirce.load_spec(spec), peirce.default_registry())
    sources = {f"{part.kind}.{part.name}": part.part.source for part in plan.parts}
    if json:
        typer.echo(json_module.dumps({"schema": "new-part/1", "parts": sources}, indent=2))
        return
    for name, source in sources.items():
        typer.echo(f"{name}: {source}")

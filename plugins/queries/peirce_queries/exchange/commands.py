"""`peirce kg convert`: graphs and queries from one project's files to another's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, print_json, print_table


def convert(
    source: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder or a file; what is in it says its format.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="A new folder for the graph and its queries."),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="peirce, as `kg sample` writes; betae; query2box; sqe; efok; tsv or nt for the graph.",
        ),
    ] = "peirce",
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH",
            help="The graph of the queries, with what their numbers mean, if it lies elsewhere.",
        ),
    ] = None,
    types: Annotated[
        Path | None,
        typer.Option(
            "--types",
            metavar="FILE",
            help="Query types of your own, in the form of --types-file: these alone, by their names.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Convert graphs and queries: BetaE, Query2box, +H, SQE, EFOK-CQA, TSV, N-Triples, own samples."""
    from peirce_queries.exchange.formats import convert_files

    content = convert_files(source, to, output, graph, types)
    if json:
        rows = [row._asdict() for row in content.counts]
        print_json(
            "peirce.kg.convert/1", output=str(output), format=to, graph=content.graph.summary(), types=rows
        )
        return
    typer.echo(f"{output}: {content.graph.summary()}")
    if content.counts:
        reasons = [(*row, f"left out: {why}" if why else "") for *row, why in content.counts]
        print_table(("split", "type", "queries", "exact", ""), reasons)
    if any(row.exact is not None for row in content.counts):
        typer.echo("exact: how many have exactly the answers of the graph")

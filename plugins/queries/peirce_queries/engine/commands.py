"""`peirce kg answer`: a file of queries, answered exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from peirce.commands import Json, print_json
from peirce_queries.graphs.commands import GraphOption, progress_console


def answer(
    graph: GraphOption,
    queries: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help='JSON lines: {"formula": "...", "grounding": {"r1": "...", "s1": "..."}} or {"query": "..."}.',
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The same lines, each with its answers.")
    ],
    split: Annotated[
        Literal["train", "valid", "test"],
        typer.Option(help="Which triples: valid has those of train too, test all of them."),
    ] = "test",
    limit: Annotated[int, typer.Option(min=1, help="Rows that an intermediate table may have.")] = 20_000_000,
    budget: Annotated[float, typer.Option(min=0, help="Seconds that a query may take, 0 for any time.")] = 60,
    json: Json = False,
) -> None:
    """Answer queries exactly, a file of them at a time."""
    from peirce_queries.engine.files import answer_file
    from peirce_queries.graphs.graph import load_graph

    loaded, console = load_graph(graph), progress_console()
    count, empty, found = answer_file(loaded, split, queries, output, limit, console, budget or None)
    if json:
        counts = {"queries": count, "without_answers": empty, "answers": found}
        print_json("peirce.kg.answer/1", output=str(output), split=split, **counts)
    else:
        typer.echo(f"{output}: {count:,} queries, {found:,} answers; {empty:,} have none")

"""`peirce kg answer`: a file of queries, answered exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from peirce.commands import Json, as_json

from peirce_kg.graphs.commands import GRAPH_HELP


def answer(
    graph: Annotated[str, typer.Option("--graph", metavar="GRAPH", help=GRAPH_HELP)],
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
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Rows that an intermediate table may have; 20 million where not given."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds that a query may take, 0 for any time; 60 where not given."),
    ] = None,
    json: Json = False,
) -> None:
    """Answer queries exactly, a file of them at a time."""
    from rich.console import Console

    from peirce_kg.engine.answers import LIMIT
    from peirce_kg.engine.budget import SECONDS
    from peirce_kg.engine.files import answer_file
    from peirce_kg.graphs.graph import load_graph

    errors = Console(stderr=True)
    console = errors if errors.is_terminal else None
    seconds = SECONDS if budget is None else budget or None
    found = answer_file(
        load_graph(graph), split, queries, output, limit or LIMIT, console, seconds,
        lambda text: errors.print(text, highlight=False, markup=False, soft_wrap=True),
    )  # fmt: skip
    if json:
        as_json(
            "peirce.kg.answer/1",
            output=str(output),
            split=split,
            queries=found.queries,
            without_answers=found.empty,
            answers=found.answers,
        )
        return
    typer.echo(f"{output}: {found.queries:,} queries, {found.answers:,} answers; {found.empty:,} have none")

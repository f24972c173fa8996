"""`peirce ask`: answer a first-order query with an exported model. Loads neither torch nor pykeen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, as_json
from peirce.errors import escaped
from rich.console import Console
from rich.table import Table
from rich.text import Text

SCHEMA = "peirce.ask/1"


def ask(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Its folder, which holds spec.toml, provenance.json, model.onnx and assets/.",
        ),
    ],
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help='Such as "isa(alga,f) & !affects(e1,f)": f is asked for, e1, e2, ... exist; '
            "& | ! and parentheses combine atoms; quote names with spaces or punctuation.",
        ),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many answers to show.")] = 10,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds that the exact answers may take, 0 for any time; 60 where not given."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Answer a first-order query with an exported model."""
    from peirce_kg.ask import Asker, Reply
    from peirce_kg.engine.budget import SECONDS

    asker = Asker(directory, SECONDS if budget is None else budget or None)
    reply: Reply = asker.ask(query, top)
    if json:
        as_json(
            SCHEMA,
            query=str(reply.query),
            graph=asker.graph.name,
            provider=reply.provider,
            exact=reply.exact,
            answers=[
                {"rank": a.rank, "entity": a.entity, "score": a.score, "known": list(a.known)}
                for a in reply.answers
            ],
        )
        return
    table = Table(
        title=Text(escaped(reply.query)), caption="known: the smallest graph that entails the answer"
    )
    for column in ("rank", "entity", "score", "known"):
        table.add_column(column, justify="right" if column in ("rank", "score") else "left")
    for a in reply.answers:
        table.add_row(str(a.rank), Text(escaped(a.entity)), f"{a.score:.3f}", a.known[0] if a.known else "")
    console = Console()
    console.print(table, markup=False)
    if reply.exact is None:
        console.print(
            "The exact answers are too many to compute, or take too long (--budget), so none is marked."
        )
    else:
        counts = ", ".join(f"{count} on {split}" for split, count in reply.exact.items())
        console.print(f"Exact answers: {counts}. Ran on {reply.provider}.", highlight=False)

"""`peirce ask`: answer a first-order query with an exported model. Loads neither torch nor pykeen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from attrs import asdict
from peirce.commands import Json, as_json, as_table
from peirce.errors import escaped


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
            "& | ! and parentheses combine atoms; quote names with spaces or punctuation. f1 and f2 ask for pairs. "
            "SPARQL and openCypher are read, too.",
        ),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many answers to show.")] = 10,
    budget: Annotated[
        float, typer.Option(min=0, help="Seconds that the exact answers may take, 0 for any time.")
    ] = 60,
    json: Json = False,
) -> None:
    """Answer a first-order query with an exported model."""
    from peirce_kg.ask import Asker

    asker = Asker(directory, budget or None)
    reply = asker.ask(query, top)
    if json:
        as_json(
            "peirce.ask/1", query=str(reply.query), graph=asker.graph.name, provider=reply.provider,
            exact=reply.exact, answers=[asdict(each) for each in reply.answers],
        )  # fmt: skip
        return
    typer.echo(escaped(reply.query))
    named = [a.entity if isinstance(a.entity, str) else ", ".join(a.entity) for a in reply.answers]
    rows = [
        (a.rank, name, f"{a.score:.3f}", a.known[0] if a.known else "")
        for a, name in zip(reply.answers, named, strict=True)
    ]
    as_table(("rank", "entity", "score", "known"), rows)
    typer.echo("known: the smallest graph that entails the answer")
    said = "The exact answers are too many to compute, or take too long (--budget), so none is marked."
    if reply.exact is not None:
        counts = ", ".join(f"{count} on {split}" for split, count in reply.exact.items())
        said = f"Exact answers: {counts}. Ran on {reply.provider}."
    typer.echo(said)

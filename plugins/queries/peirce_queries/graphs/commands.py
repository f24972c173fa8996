"""`peirce kg info`: what a graph holds; and what the commands about graphs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from peirce.commands import Json, print_json, print_table

if TYPE_CHECKING:
    from rich.console import Console

GRAPH_HELP = "A folder of train, valid and test files (.tsv, .txt, .nt, also .gz), one such file, or a pykeen data set."
GraphOption = Annotated[str, typer.Option("--graph", metavar="GRAPH", help=GRAPH_HELP)]
SHOWN_RELATIONS = 10
"""Relations that `info` shows; `--json` gives all."""


def progress_console() -> Console | None:
    """A console for progress bars on standard error; None if it is not a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal else None


def info(graph: Annotated[str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP)], json: Json = False) -> None:
    """Show a graph's sizes, splits, duplicates, late entities, memory and relations."""
    from peirce_queries.graphs.facts import memory, relation_facts, split_facts
    from peirce_queries.graphs.graph import load_graph

    loaded = load_graph(graph)
    splits, relations, bytes_ = split_facts(loaded), relation_facts(loaded), memory(loaded)
    if json:
        sizes = {"name": loaded.name, "entities": loaded.entities, "relations": loaded.relations}
        print_json("peirce.kg.info/1", **sizes, splits=splits, memory=bytes_, by_relation=relations)
        return
    typer.echo(f"{loaded.name}: {loaded.entities:,} entities, {loaded.relations:,} relations")
    headings = ("split", "adds", "cumulative", "duplicates dropped", "new entities", "new relations")
    print_table(headings, [(name, *(f"{n:,}" for n in sizes)) for name, *sizes in map(dict.values, splits)])
    rows = [
        (r["relation"], *(f"{n:,}" for n in (sum(r["added"].values()), r["heads"], r["tails"])))
        for r in relations[:SHOWN_RELATIONS]
    ]
    print_table(("relation", "triples", "heads", "tails"), rows)
    if len(relations) > SHOWN_RELATIONS:
        typer.echo(f"and {len(relations) - SHOWN_RELATIONS:,} relations with fewer triples; --json lists all")
    typer.echo(
        f"memory: {bytes_['index']:,} bytes for the triples, {bytes_['ratio']:.2f} times as many as three int32 each; "
        f"{bytes_['names']:,} for the names"
    )

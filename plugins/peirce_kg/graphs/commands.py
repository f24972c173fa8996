"""The commands of `peirce kg` about graphs: info, answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer
from peirce.commands import Json, as_json, as_table

GRAPH_HELP = (
    "A folder of train, valid and test files (.tsv, .nt, also .gz), one such file, or a data set of pykeen."
)
SHOWN_RELATIONS = 10
"""Relations that `info` shows; `--json` gives all."""


SplitName: TypeAlias = Literal["train", "valid", "test"]


def info(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP)],
    json: Json = False,
) -> None:
    """Show a graph's sizes, splits, duplicates, late entities, memory and relations."""
    from attrs import asdict

    from peirce_kg.graphs.facts import memory, relation_facts, split_facts
    from peirce_kg.graphs.graph import load_graph

    loaded = load_graph(graph)
    splits, relations, bytes_ = split_facts(loaded), relation_facts(loaded), memory(loaded)
    if json:
        as_json(
            "peirce.kg.info/1",
            name=loaded.name,
            entities=loaded.entities,
            relations=loaded.relations,
            splits=[asdict(split) for split in splits],
            memory={**asdict(bytes_), "ratio": bytes_.ratio},
            by_relation=[asdict(relation) for relation in relations],
        )
        return
    typer.echo(f"{loaded.name}: {loaded.entities:,} entities, {loaded.relations:,} relations")
    as_table(
        ("split", "adds", "cumulative", "duplicates dropped", "new entities", "new relations"),
        [
            (
                s.split,
                *(f"{n:,}" for n in (s.added, s.cumulative, s.duplicates, s.new_entities, s.new_relations)),
            )
            for s in splits
        ],
    )
    as_table(
        ("relation", "triples", "heads", "tails"),
        [(r.relation, f"{r.triples:,}", f"{r.heads:,}", f"{r.tails:,}") for r in relations[:SHOWN_RELATIONS]],
    )
    if len(relations) > SHOWN_RELATIONS:
        typer.echo(f"and {len(relations) - SHOWN_RELATIONS:,} relations with fewer triples; --json lists all")
    typer.echo(
        f"memory: {bytes_.index:,} bytes for the triples, {bytes_.ratio:.2f} times as many as three int32 each; "
        f"{bytes_.names:,} for the names"
    )


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
        SplitName, typer.Option(help="Which triples: valid has those of train too, test all of them.")
    ] = "test",
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Rows that an intermediate table may have; 20 million where not given."),
    ] = None,
    json: Json = False,
) -> None:
    """Answer queries exactly, a file of them at a time."""
    from rich.console import Console

    from peirce_kg.engine.answers import LIMIT
    from peirce_kg.engine.files import answer_file
    from peirce_kg.graphs.graph import load_graph

    errors = Console(stderr=True)
    console = errors if errors.is_terminal else None
    found = answer_file(load_graph(graph), split, queries, output, limit or LIMIT, console)
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

"""`peirce kg attention`: what the tokens of a query attend to in trained models, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from peirce.commands import Json, as_json
from peirce.extras import check_picture

if TYPE_CHECKING:
    from peirce_kg.attention.drawing import Column
    from peirce_kg.attention.maps import Maps, QueryAttention

SCHEMA = "peirce.kg.attention/1"
DIGITS = 6


def attention(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help='With names of the graph, in EFO syntax, such as "isa(alga,f) & !affects(virus,f)", or in the '
            "Lisp-like one.",
        ),
    ],
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL",
            help="Folders of trained models, such as `peirce train --task kgqa` and the runs of experiments write.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The picture; .svg, .png or .pdf says its format. attention.svg if absent, or none with --json.",
        ),
    ] = None,
    layer: Annotated[str, typer.Option(help="A layer, counted from 1, `last` or `all`.")] = "last",
    head: Annotated[
        int | None, typer.Option(help="A head, counted from 1; the mean of all if absent.")
    ] = None,
    json: Json = False,
) -> None:
    """Draw how much the tokens of a query attend to each other, a column for each trained model."""
    from peirce_kg.attention.drawing import figure_of
    from peirce_kg.attention.maps import read_attention
    from peirce_kg.queries.conversion import read_query
    from peirce_kg.queries.drawing import write_picture

    path = output if output is not None or json else Path("attention.svg")
    if path is not None:
        check_picture(path, extra="kg")
    asked = read_query(query)
    read = [read_attention(folder, asked) for folder in models]
    maps = [each.maps(layer, head) for each in read]
    if path is not None:
        write_picture(path, lambda: figure_of(_columns(read, maps, head)), str(asked))
    if json:
        found, file = list(map(_plain, read, maps)), None if path is None else str(path)
        as_json(SCHEMA, query=str(asked), file=file, head=head, models=found)
    else:
        typer.echo(f"{path}: {', '.join(map(_said, read, maps))}")


def _columns(read: list[QueryAttention], maps: list[Maps], head: int | None) -> list[Column]:
    from peirce_kg.attention.drawing import Column

    names = [each.model for each in read]
    columns = []
    for each, its in zip(read, maps, strict=True):
        # Runs of one spec with several seeds are told apart by their folders.
        name = each.model if names.count(each.model) == 1 else f"{each.model} ({each.folder.name})"
        heads = f"mean of {each.heads} heads" if head is None else f"head {head} of {each.heads}"
        titles = tuple(f"{name}\nlayer {layer} of {each.layers}, {heads}" for layer in its)
        columns.append(Column(titles, each.tokens, tuple(its.values())))
    return columns


def _said(each: QueryAttention, maps: Maps) -> str:
    layers = f"layer {min(maps)} of {each.layers}" if len(maps) == 1 else f"{len(maps)} layers"
    return f"{each.model} ({layers})"


def _plain(each: QueryAttention, maps: Maps) -> dict[str, Any]:
    """One model as JSON has it."""
    return {
        "model": str(each.folder), "name": each.model, "architecture": each.architecture,
        "syntax": each.vocabulary.syntax, "reversed": each.vocabulary.reversed_, "layers": each.layers,
        "heads": each.heads, "tokens": list(each.tokens),
        "maps": [{"layer": layer, "weights": own.round(DIGITS).tolist()} for layer, own in maps.items()],
    }  # fmt: skip

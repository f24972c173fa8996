"""`peirce tokenizer`: train a tokenizer on files of text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, print_json

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True
)


@app.callback()
def tokenizer() -> None:
    """Train a tokenizer on files of text."""


@app.command()
def train(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="Files, folders or patterns of .txt, .jsonl, .parquet or .arrow; text and JSON also compressed.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where the tokenizer's JSON goes.")
    ],
    vocabulary: Annotated[
        int, typer.Option(min=1, help="How many entries, special tokens and characters included.")
    ] = 32768,
    cased: Annotated[bool, typer.Option("--cased", help="Keep capitals and accents.")] = False,
    column: Annotated[str, typer.Option(help="The column of a row that holds the text.")] = "text",
    json: Json = False,
) -> None:
    """Train a WordPiece tokenizer like BERT's; the same text gives the same tokenizer, to the bit."""
    from peirce.extras import require
    from peirce_text.text.shards import find_shards
    from peirce_text.text.training import train_tokenizer

    require("peirce tokenizer train", "datasets", extra="peirce-text[train]")
    shards = find_shards(files)
    trained = train_tokenizer(shards, output, vocabulary=vocabulary, cased=cased, column=column)
    facts = {"tokenizer": str(output), "vocabulary": trained.vocabulary, "shards": len(shards)}
    if json:
        print_json("peirce.tokenizer/1", **facts, cased=cased)
        return
    fewer = f", not {vocabulary:,}: the text holds no more" if trained.vocabulary < vocabulary else ""
    typer.echo(f"{output}: {trained.vocabulary:,} entries{fewer}")

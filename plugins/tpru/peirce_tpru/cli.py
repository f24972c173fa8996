"""`peirce import tpru`: a model of published weights; `peirce entailment`: pairs of propositions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import (
    Json,
    NewModel,
    Overwrite,
    add_moved_command,
    application,
    group,
    print_json,
    print_new_model,
    print_table,
    refuse_existing,
)


def tpru(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The published settings, as JSON.")],
    weights: Annotated[
        Path, typer.Argument(metavar="WEIGHTS", help="Its tensors: a torch or a safetensors file.")
    ],
    output: NewModel,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Import published weights of the recurrent unit TPRU; the states are the output `unary`."""
    refuse_existing(output, ("spec.toml",), overwrite)
    from peirce_tpru.published import import_tpru

    model = import_tpru(config, weights, output)
    print_new_model(json, model, output)


roles = application()
add_moved_command(roles, "roles", "peirce roles", "peirce look MODEL TEXT -o FILE")


entailment = group("Make pairs of propositions to learn entailment from.")


@entailment.callback()
def _entailment() -> None:
    """A group, even of one command."""


@entailment.command()
def generate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where train.txt goes.")],
    pairs: Annotated[int, typer.Option(min=4, help="How many pairs, rounded up to fours.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="What is drawn depends on it.")] = 0,
    workers: Annotated[
        int, typer.Option(min=1, help="How many processes draw; the file is the same for any number.")
    ] = 1,
    published: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A folder of validate.txt and test_*.txt, whose pairs are left out whatever their variables are "
            "called.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a train.txt that is there.")
    ] = False,
    json: Json = False,
) -> None:
    """Make balanced pairs of propositions with exact labels, of the sizes of the published validation file."""
    from peirce_tpru.entailment.files import HEURISTICS, read_pairs
    from peirce_tpru.entailment.generation import generate as make
    from peirce_tpru.entailment.generation import histograms, published_histograms

    result = make(folder, pairs, seed, workers=workers, published=published, overwrite=overwrite)
    read = read_pairs(result.file)
    ours, theirs = histograms(read), published_histograms()
    accuracies = {
        name: sum(pair.guesses[i] == pair.entails for pair in read) / len(read)
        for i, name in enumerate(HEURISTICS)
    }
    if json:
        print_json(
            "peirce.entailment/1",
            file=str(result.file),
            pairs=result.pairs,
            duplicates=result.duplicates,
            published=result.published,
            entailed=sum(pair.entails for pair in read),
            heuristics=accuracies,
            shares={what: {"here": ours[what], "validate": theirs[what]} for what in ours},
        )
        return
    typer.echo(
        f"{result.file}: {result.pairs:,} pairs; {result.duplicates:,} left out as duplicates, "
        f"{result.published:,} of them of published pairs"
    )
    typer.echo("heuristics: " + ", ".join(f"{name} {share:.1%}" for name, share in accuracies.items()))
    for what in ours:
        rows = [
            (number, f"{ours[what].get(number, 0):.1%}", f"{theirs[what].get(number, 0):.1%}")
            for number in sorted({*ours[what], *theirs[what]})
        ]
        print_table((what, "here", "validate"), rows)

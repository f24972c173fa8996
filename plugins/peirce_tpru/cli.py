"""`peirce import tpru`: a model of published weights; `peirce roles`: what it binds; `peirce entailment`: pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, as_json, as_table, group, made, vacant
from peirce.errors import TaskError, escaped
from peirce.extras import check_picture

DIGITS = 6


def tpru(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The published settings, as JSON.")],
    weights: Annotated[
        Path, typer.Argument(metavar="WEIGHTS", help="Its tensors: a torch or a safetensors file.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the model goes.", show_default=False)
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in DIR.")] = False,
    json: Json = False,
) -> None:
    """Import published weights of the recurrent unit TPRU; the states are the output `unary`."""
    vacant(output, ("spec.toml",), overwrite)
    from peirce_tpru.published import import_tpru

    model = import_tpru(config, weights, output)
    parameters = sum(p.numel() for p in model.parameters())
    made(json, {"model": str(output), "name": model.spec.name, "parameters": parameters})


def roles(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a trained model.")],
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT",
            help="A text, or two of a pair; token ids with spaces between them where the model has no tokenizer.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The picture; .svg, .png or .pdf says its format. A new roles.svg if absent, or none with --json.",
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many of the strongest roles are shown.")] = 8,
    json: Json = False,
) -> None:
    """Show which roles each token of a text binds in a model with the recurrence `tpru`."""
    from peirce_tpru.roles import draw, read_roles

    if len(text) > 2:
        raise TaskError(f"{len(text)} texts are given; give one, or two of a pair")
    path = output if output is not None or json else Path("roles.svg")
    if path is not None:
        check_picture(path, extra="train")
        if output is None and path.exists():
            raise TaskError(f"{path} is there already; name a picture with -o, or that one to replace it")
    found = read_roles(model, text)
    if path is not None:
        draw(found, count, path, " ".join(text))
    if not json:
        typer.echo(f"{path}: {len(found.tokens)} tokens, {len(found.bindings)} recurrences")
        for binding in found.bindings:
            best = ", ".join(map(str, binding.strongest(count)))
            typer.echo(f"{escaped(binding.name)}: the strongest roles are {best}")
        return
    recurrences = []
    for binding in found.bindings:
        strongest = [
            [
                {"role": int(role), "share": round(float(row[role]), DIGITS)}
                for role in (-row).argsort(kind="stable")[:count]
            ]
            for row in binding.shares
        ]
        own = {"name": binding.name, "roles": binding.shares.shape[1], "strongest": strongest}
        recurrences.append(own)
    file = None if path is None else str(path)
    as_json("peirce.roles/1", model=str(model), file=file, tokens=list(found.tokens), recurrences=recurrences)


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
    from peirce_tpru.entailment.generating import generate as make
    from peirce_tpru.entailment.generating import histograms, published_histograms

    result = make(folder, pairs, seed, workers=workers, published=published, overwrite=overwrite)
    read = read_pairs(result.file)
    ours, theirs = histograms(read), published_histograms()
    accuracies = {
        name: sum(pair.guesses[i] == pair.entails for pair in read) / len(read)
        for i, name in enumerate(HEURISTICS)
    }
    if json:
        as_json(
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
        as_table((what, "here", "validate"), rows)

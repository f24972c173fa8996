"""`peirce generate`: texts that a saved model or an exported file writes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from attrs import asdict

from peirce.commands import Json, print_json
from peirce.errors import TaskError, escape_controls
from peirce.files import read_text

SCHEMA = "peirce.generate/1"
STDIN = "-"


def generate(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="The folder of a trained model, or a file exported with --set generate=true.",
        ),
    ],
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to go on with, or the source of the text to write."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="Prompts, one a line; - reads them from standard input."),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            "--tokenizer",
            metavar="PATH",
            help="A tokenizers JSON, a BERT vocab.txt, or a folder with one; the model's own if absent.",
        ),
    ] = None,
    max_new: Annotated[
        int | None,
        typer.Option(min=1, help="The most tokens of a text; if absent 32, or as many as there is room for."),
    ] = None,
    beams: Annotated[int, typer.Option(min=1, help="How many partial texts are followed; 1 is greedy.")] = 1,
    length_penalty: Annotated[
        float, typer.Option(help="With beams: texts are judged by log-probability over length to this power.")
    ] = 1.0,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw tokens; so do the three options below.")
    ] = False,
    temperature: Annotated[float, typer.Option(help="Below 1 probable tokens become more so.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Draw among so many most probable tokens; 0 for all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Draw among the most probable tokens that make up this probability.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="What all that is random depends on.")] = 0,
    whole: Annotated[
        bool | None,
        typer.Option(
            "--whole/--go-on",
            help="Whether a prompt is a text of its own that another follows; if absent, as the model's inputs say.",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="Such as cpu or cuda:0.")] = None,
    json: Json = False,
) -> None:
    """Write texts with a trained model or an exported file, one for each prompt."""
    from peirce_text.text.writer import open_writer

    texts = _read_prompts(prompts or [], file)
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    settings: dict[str, Any] = {"beams": beams, "length_penalty": length_penalty}
    if max_new is not None:
        settings["max_new"] = max_new
    if sample or sampling != {"temperature": 1.0, "top_k": 0, "top_p": 1.0}:
        settings |= {"sample": True, "seed": seed, **sampling}
    written = open_writer(model, tokenizer, device=device, whole=whole).write(texts, **settings)
    if json:
        print_json(SCHEMA, model=str(model), texts=[asdict(one) for one in written])
        return
    for one in written:
        typer.echo(escape_controls(one.text))


def _read_prompts(given: list[str], file: str | None) -> list[str]:
    if file is None:
        if not given:
            raise TaskError('give a prompt, such as "once upon a time", or a file of them with --file')
        return given
    if given:
        raise TaskError("prompts are given both as arguments and with --file; give one of them")
    if file == STDIN:
        return sys.stdin.read().splitlines()
    try:
        return read_text(file).splitlines()
    except (OSError, ValueError) as error:
        raise TaskError(f"{file} cannot be read: {error}; give a text file with one prompt a line") from error

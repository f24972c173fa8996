"""`peirce pretrain`: a language model from files of text, by a recipe."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from peirce.commands import Json
from peirce.errors import TaskError
from peirce_training import Overwrite, Resume, Seed, check_fresh

pretrain = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

TOKENIZER, SOURCE = "tokenizer.json", "tokenizer-source.json"
"""The tokenizer that is trained where none is given, and what it was trained on."""


class _ManyFiles(TyperCommand):
    """A command whose `--data` and `--valid` take all up to the next option, as a shell expands patterns."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_repeat_options(args, ("--data", "--valid"))))


def _repeat_options(arguments: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """The arguments with an option before each of its values."""
    option, first = "", False
    for argument in arguments:
        if argument.startswith("-"):
            option, first = (argument if argument in options else ""), True
        elif option and not first:
            yield option
            first = False
        else:
            first = False
        yield argument


@pretrain.command(cls=_ManyFiles)
def pretrain_command(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE", help="A recipe file, or the name of a ready recipe, such as folnet-base-16g."
        ),
    ],
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            metavar="FILES",
            help="Files, folders or patterns of .txt, .jsonl, .parquet or .arrow; text and JSON also compressed.",
        ),
    ],
    directory: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the trained model goes.")
    ],
    valid: Annotated[
        list[str] | None, typer.Option("--valid", metavar="FILES", help="Text to evaluate on.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            "--tokenizer",
            metavar="PATH",
            help="A tokenizers JSON, a BERT vocab.txt, or a folder with one; trained on the data if absent.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Something other than the recipe says: an option of the task (length=256), of the training "
            "(train.steps=1000), or a key of the spec (model.dims.layers=2). Repeatable.",
        ),
    ] = None,
    seed: Seed = 0,
    resume: Resume = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Pretrain a language model by a recipe on files of text, and save it in DIR."""
    check_fresh(resume=resume, overwrite=overwrite)

    from rich.console import Console

    from peirce.registry import load_spec
    from peirce_text.pretraining.recipes import load_recipe
    from peirce_text.pretraining.record import FILE, Record
    from peirce_text.pretraining.task import Pretraining
    from peirce_training import (
        exclusive_lock,
        make_task,
        read_settings,
        settings_by_part,
        show_result,
        train,
        training_options,
    )

    found = load_recipe(recipe)
    given = read_settings(settings, Pretraining)
    named: dict[str, Any] = {"task.files": data, **({"task.valid_files": valid} if valid else {})}
    if tokenizer is not None:
        named["task.tokenizer"] = str(tokenizer)
    if not {**found.settings, **named, **given}.get("task.valid_files"):
        named |= {"train.test_split": "", "train.evaluate_every": 0, "train.patience": 0}
    of_model, task_settings, training = settings_by_part(found.settings, named, given)
    spec = load_spec(found.spec, of_model)
    options = make_task("pretraining", task_settings).options
    if "train.accumulate" not in given:
        accumulate = found.accumulation(options.batch_size, int(os.environ.get("WORLD_SIZE", 1)))
        training |= {} if accumulate is None else {"accumulate": accumulate}
    how = training_options(training)
    if directory.exists() and not directory.is_dir():
        raise TaskError(f"{directory} is a file; give a directory for the trained model")
    with exclusive_lock(directory):
        if not options.tokenizer:
            path = _find_or_train_tokenizer(options, found.vocabulary, directory, resume=resume)
            options = make_task("pretraining", {**task_settings, "tokenizer": str(path)}).options
        task = Pretraining(options, Record(directory / FILE, holds=resume))
        console = Console(stderr=True)
        result = train(
            spec, task, how, directory, seed=seed, resume=resume, overwrite=overwrite, console=console
        )
    facts = {"directory": str(directory), "recipe": found.name, "seed": seed}
    show_result(result, how.test_split, "peirce.pretrain/1" if json else None, facts)


def _find_or_train_tokenizer(options: Any, vocabulary: int, directory: Path, *, resume: bool) -> Path:
    """The tokenizer of a directory, trained on the data unless it is there already.

    One process trains it, and the others of the same training find it.
    """
    from peirce.files import digest_of, hold_lock, read_json, write_json
    from peirce_text.pretraining.record import FILE
    from peirce_text.text.shards import find_shards
    from peirce_text.text.training import train_tokenizer

    path, source = directory / TOKENIZER, directory / SOURCE
    shards = find_shards(options.files)
    files = [[str(s.path), s.size, s.path.stat().st_mtime_ns] for s in shards]
    wanted = {"vocabulary": vocabulary, "shards": files}
    known = None
    with hold_lock(path, folder=False, wait=True):
        # A training that is resumed holds the tokenizer against its own record.
        holds = resume and (directory / FILE).is_file()
        with suppress(OSError, ValueError):
            known = read_json(source)
        there = path.is_file() and (holds or known == {**wanted, "tokenizer": digest_of(path)})
        if not there:
            train_tokenizer(
                shards, path, vocabulary=vocabulary, column=options.column, skip=options.damaged == "skip"
            )
            write_json(source, {**wanted, "tokenizer": digest_of(path)})
    return path

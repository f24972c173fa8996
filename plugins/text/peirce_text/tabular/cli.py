"""`peirce predict`: the classes of texts, or the tags of words, for a whole file."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from peirce.commands import Json, print_json, print_table
from peirce.errors import TaskError
from peirce.files import read_json
from peirce.model import SPEC
from peirce_text.reading import count_rows, read_rows
from peirce_text.tabular.columns import Roles, class_name, peek, shown
from peirce_text.tabular.options import BatchSize, Device, Label, Second, Text

if TYPE_CHECKING:
    from peirce_text.tabular.predictor import Predictions


def predict(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A saved model's folder, an exported file in it, or a served model: http://HOST:PORT/NAME.",
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A .csv, .tsv, .jsonl, .parquet or .conll file, or a folder of .parquet files.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The .csv, .tsv, .jsonl or .parquet file to write: all columns, and prediction and probability. "
            "Of a folder, the folder of such files.",
        ),
    ],
    text: Text = None,
    second: Second = None,
    label: Label = None,
    confusion: Annotated[
        Path | None,
        typer.Option(
            "--confusion", metavar="FILE", help="A picture of the confusion matrix: .png, .svg or .pdf."
        ),
    ] = None,
    batch_size: BatchSize = 32,
    device: Device = None,
    provider: Annotated[
        list[str] | None,
        typer.Option("--provider", metavar="NAME", help="What computes an exported file; repeatable."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Threads within an operator of an exported file; of a folder, those of each worker, one.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1, help="Processes that share the files of a folder, of a Ray cluster; one needs no Ray."
        ),
    ] = 1,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace what another model or other options predicted of a folder."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Predict the classes of texts, or the tags of words, for a whole file, or for a folder of them.

    The columns are those that the model was trained on, unless others are named. Rows without a text have no
    prediction. Where the right classes are there too, the predictions are measured. An exported file needs no torch.
    Of a folder, files that have their predictions already are left as they are, so that a run that was ended goes on.
    """
    from rich.console import Console

    from peirce.extras import check_picture
    from peirce.files import replace_file
    from peirce.progress import progress_bars
    from peirce_text.tabular.folders import Job, predict_folder
    from peirce_text.tabular.lists import split_lists
    from peirce_text.tabular.predictor import Predictions, predict_rows, predictor
    from peirce_text.tabular.words import join_words
    from peirce_text.tabular.writer import table_writer, written_kind
    from peirce_text.text.encoding import CHUNK

    if confusion is not None:
        check_picture(confusion, "a picture of the confusion", extra="peirce-text[train]")
    console = Console(stderr=True)
    bars_on = console if console.is_terminal else None
    if (file / SPEC).is_file():
        raise TaskError(
            f"{file} is a saved model, where the table goes; the model comes first, and then the table"
        )
    if file.is_dir():
        job = Job(
            source=file, target=output, model=model, batch_size=batch_size, threads=threads or 1, device=device,
            providers=provider,
        )  # fmt: skip
        names = {"text": text, "pair": second, "label": label}
        predictions = predict_folder(job, names, workers=workers, overwrite=overwrite, console=bars_on)
        _report(predictions, model, str(file), confusion, json=json)
        return
    if workers > 1:
        raise TaskError(
            f"--workers share the files of a folder, and {file} is one file; leave it out, or give a folder"
        )
    if output.exists() and file.exists() and output.samefile(file):
        raise TaskError(f"{output} is the table itself, which stays as it is; name another file with -o")
    if output.is_dir():
        raise TaskError(f"{output} is a folder; name a file in it, such as {output / 'predictions.csv'}")
    written_kind(output)
    if not output.parent.is_dir():
        raise TaskError(f"folder {output.parent} does not exist; create it, or write elsewhere")
    first, rows = peek(read_rows(file), str(file))
    with predictor(model, device, provider, threads) as found:
        if taken := [name for name in found.kind.added if name in first.values]:
            raise TaskError(f"{file} has a column {taken[0]!r} already, which would be added; rename it")
        roles = Roles.of(first, found.columns, tags=found.tags, text=text, pair=second, label=label)
        if taken_from := roles.untrained(found.columns):
            typer.echo(taken_from, err=True)
        if found.tags:
            known = found.columns.get("sentence", "")
            rows = join_words(rows, roles.texts[0], known if known in first.values else "")
        elif found.kind_name == "rank":
            rows = split_lists(rows, roles.texts[-1], roles.label)
        measured = found.kind.measurement(found.classes)
        count = empty = 0
        bars = progress_bars(bars_on)
        bar = bars.add_task("predicting", total=count_rows(file), shown="")
        with bars, replace_file(output) as fresh, table_writer(fresh, output) as write:
            for chunk in iter(lambda: list(islice(rows, CHUNK)), []):
                predicted = predict_rows(found, chunk, roles, batch_size, measured)
                write(
                    [
                        {**row.values, **dict(zip(found.kind.added, prediction, strict=True))}
                        for row, prediction in zip(chunk, predicted, strict=True)
                    ]
                )
                count, empty = count + len(chunk), empty + sum(guess is None for guess, *_ in predicted)
                bars.advance(bar, len(chunk))
    predictions = Predictions(
        output=output, rows=count, empty=empty, measured=measured, classes=found.classes, label=roles.label
    )
    _report(predictions, model, str(file), confusion, json=json)


def _has_learned(model: str, file: str) -> bool:
    """Whether the training of a saved model read this file."""
    folder = Path(model) if Path(model).is_dir() else Path(model).parent
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = read_json(folder / "training.json")["task"]["options"]["data"]
        return Path(data).resolve() == Path(file).resolve()
    return False


def _report(found: Predictions, model: str, file: str, confusion: Path | None, *, json: bool) -> None:
    """Draw and print what was predicted; end with status 1 where files of a folder could not be."""
    from peirce_text.tabular.measures import Confusion

    taken_for = found.measured.found
    metrics = {} if taken_for is None else taken_for.scores
    if confusion is not None:
        if not isinstance(taken_for, Confusion):
            raise TaskError(f"{file} has no true classes to draw; name their column with --label")
        taken_for.draw(confusion)
    if json:
        facts = {"file": str(found.output), "rows": found.rows, "without_text": found.empty}
        print_json("peirce.predict/1", **facts, metrics=metrics, **(found.folder or {}))
    else:
        if taken_for is not None:
            print_table(("metric", "value"), [(name, f"{value:.4f}") for name, value in metrics.items()])
            for sentence in taken_for.sentences():
                typer.echo(sentence)
            if _has_learned(model, file):
                typer.echo(
                    f"most of these rows are those that {model} learned from; `peirce explain` measures those that "
                    "were kept out of the training"
                )
            own = {class_name(each, model) for each in found.classes}
            named = taken_for.classes if isinstance(taken_for, Confusion) else ()
            if own and (strange := [name for name in named if name not in own]):
                few = ", ".join(map(shown, strange[:10]))
                typer.echo(
                    f"{len(strange):,} of the classes in column {found.label!r} are none of the model's: {few}"
                )
        without = (
            f", {found.empty:,} of them without a text and so without a prediction" if found.empty else ""
        )
        of_folder = ""
        if found.folder is not None:
            before = f", {found.folder['kept']:,} of them before" if found.folder["kept"] else ""
            of_folder = f" in {found.folder['files']:,} files{before}"
        typer.echo(f"{found.rows:,} rows written to {found.output}{of_folder}{without}")
    if failed := (found.folder or {}).get("failed"):
        for name, error in failed.items():
            typer.echo(f"not predicted: {name}: {error}", err=True)
        raise typer.Exit(1)

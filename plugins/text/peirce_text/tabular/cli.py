"""`peirce predict`: the classes of texts, or the tags of words, for a whole file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peirce.commands import Json, print_json, print_table
from peirce.errors import TaskError
from peirce_text.reading import Row, count_rows, read_rows
from peirce_text.tabular.columns import Roles, class_name, peek, shown
from peirce_text.tabular.lists import items

if TYPE_CHECKING:
    from peirce_text.tabular.measures import Measurement

NEW = ("prediction", "probability")
"""The columns that are added."""


def predict(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A saved model's folder, an exported file in it, or a served model: http://HOST:PORT/NAME.",
        ),
    ],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .csv, .tsv, .jsonl, .parquet or .conll file.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The .csv, .tsv, .jsonl or .parquet file to write: all columns, and prediction and probability.",
        ),
    ],
    text: Annotated[
        str | None, typer.Option("--text", metavar="NAME", help="The column of the texts, or of the words.")
    ] = None,
    second: Annotated[
        str | None, typer.Option("--second", metavar="NAME", help="The column of the second texts.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="NAME", help="The column of right classes or tags, if any."),
    ] = None,
    confusion: Annotated[
        Path | None,
        typer.Option(
            "--confusion", metavar="FILE", help="A picture of the confusion matrix: .png, .svg or .pdf."
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Rows computed at once.")] = 32,
    device: Annotated[
        str | None, typer.Option("--device", help="Where a saved model computes, such as cuda:0.")
    ] = None,
    provider: Annotated[
        list[str] | None,
        typer.Option("--provider", metavar="NAME", help="What computes an exported file; repeatable."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads within an operator of an exported file.")
    ] = None,
    json: Json = False,
) -> None:
    """Predict the classes of texts, or the tags of words, for a whole file.

    The columns are those that the model was trained on, unless others are named. Rows without a text have no
    prediction. Where the right classes are there too, the predictions are measured. An exported file needs no torch.
    """
    from rich.console import Console

    from peirce.extras import check_picture
    from peirce.files import replace_file
    from peirce.progress import progress_bars
    from peirce_text.tabular.measures import Measurement
    from peirce_text.tabular.predictor import predictor, read_cell
    from peirce_text.tabular.words import join_words
    from peirce_text.tabular.writer import table_writer, written_kind
    from peirce_text.text.encoding import CHUNK

    written_kind(output)
    if not output.parent.is_dir():
        raise TaskError(f"folder {output.parent} does not exist; create it, or write elsewhere")
    if confusion is not None:
        check_picture(confusion, "a picture of the confusion", extra="peirce-text[train]")
    console = Console(stderr=True)
    first, rows = peek(read_rows(file), str(file))
    if taken := [name for name in NEW if name in first.values]:
        raise TaskError(f"{file} has a column {taken[0]!r} already, which would be added; rename it")
    with predictor(model, device, provider, threads) as found:
        roles = Roles.of(first, found.columns, tags=found.tags, text=text, pair=second, label=label)
        if found.tags:
            known = found.columns.get("sentence", "")
            rows = join_words(rows, roles.texts[0], known if known in first.values else "")
        measured = Measurement(tags=found.tags)
        count = empty = 0
        bars = progress_bars(console if console.is_terminal else None)
        bar = bars.add_task("predicting", total=count_rows(file), shown="")
        with bars, replace_file(output) as fresh, table_writer(fresh, output) as write:
            for chunk in _chunks(rows, CHUNK):
                columns = [
                    [
                        read_cell(row.value(name), f"{row.where}: column {name!r}", words=found.tags)
                        for row in chunk
                    ]
                    for name in roles.texts
                ]
                full = [i for i, each in enumerate(zip(*columns, strict=True)) if all(each)]
                texts = [[column[i] for i in full] for column in columns]
                inputs = [
                    found.input_columns.of_row(chunk[i], len(columns[0][i]) if found.tags else None)
                    for i in full
                ]
                predictions = found.predict(texts, batch_size, inputs) if full else []
                guessed = dict(zip(full, predictions, strict=True))
                predicted: list[dict[str, Any]] = []
                for i, row in enumerate(chunk):
                    prediction = guessed.get(i, (None, None))
                    predicted.append({**row.values, **dict(zip(NEW, prediction, strict=True))})
                    if i in guessed and roles.label:
                        _measure(measured, row, roles.label, prediction[0])
                write(predicted)
                count, empty = count + len(chunk), empty + len(chunk) - len(full)
                bars.advance(bar, len(chunk))
    metrics, taken_for = measured.metrics(), measured.confusion
    if confusion is not None:
        if taken_for is None:
            raise TaskError(f"{file} has no true classes to draw; name their column with --label")
        taken_for.draw(confusion)
    if json:
        print_json("peirce.predict/1", file=str(output), rows=count, without_text=empty, metrics=metrics)
        return
    if taken_for is not None:
        print_table(("metric", "value"), [(name, f"{value:.4f}") for name, value in metrics.items()])
        for sentence in taken_for.sentences():
            typer.echo(sentence)
        own = {class_name(each, model) for each in found.classes}
        if own and (strange := [name for name in taken_for.classes if name not in own]):
            few = ", ".join(map(shown, strange[:10]))
            typer.echo(
                f"{len(strange):,} of the classes in column {roles.label!r} are none of the model's: {few}"
            )
    without = f", {empty:,} of them without a text and so without a prediction" if empty else ""
    typer.echo(f"{count:,} rows written to {output}{without}")


def _measure(measured: Measurement, row: Row, name: str, predicted: Any) -> None:
    """Count a prediction, where the true class is known."""
    value, tags = row.value(name), isinstance(predicted, list)
    where = f"{row.where}: column {name!r}"
    right = [class_name(each, where) for each in (items(value, where) if tags else [value])]
    # Models of older versions have classes such as `1.0`, which is `1` in a table.
    guesses = [str(class_name(each, where)) for each in (predicted if tags else [predicted])]
    if tags and len(right) != len(guesses):
        raise TaskError(f"{where} has {len(right)} tags for {len(guesses)} words; give every word one tag")
    known = [each for each in right if each is not None]
    if len(known) == len(right):
        measured.add(known, guesses)


def _chunks(rows: Iterator[Any], size: int) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk

"""`peirce explain`: where a model of a table is wrong, which labels look wrong, and what to try next."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peirce.commands import Json, print_json
from peirce.errors import TaskError
from peirce_text.progress import print_line
from peirce_text.tabular.options import BatchSize, Device, Label, Second, Text

if TYPE_CHECKING:
    from peirce_text.tabular.checks import Labelled
    from peirce_text.tabular.diagnosis import Diagnosis, Finding
    from peirce_text.tabular.predictor import LocalPredictor
    from peirce_text.tabular.tables import TableTask

SCHEMA = "peirce.explain/1"
MOST_ROWS = 10_000
"""The most rows that are looked at; of a longer file every second, third, ... one."""
MOST_PRINTED = 10


def explain(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A saved model's folder, or an exported file in it.")
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A .csv, .tsv, .jsonl, .parquet or .conll file with the right classes or tags. Of the file that the "
            "model was trained on, the rows that were kept aside are measured.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The .html page to write.")
    ] = None,
    text: Text = None,
    second: Second = None,
    label: Label = None,
    batch_size: BatchSize = 32,
    device: Device = None,
    json: Json = False,
) -> None:
    """Say why a model of a table is bad: what it takes for what, its surest errors, labels that look wrong.

    Also how far its probabilities can be trusted, its scores by length and by class, and what to try next, where the
    figures support it.
    """
    from peirce_text.tabular.diagnosis import diagnose
    from peirce_text.tabular.predictor import LocalPredictor, predictor
    from peirce_text.tabular.report import write_report

    if output is not None and (output.suffix.lower() != ".html" or not output.parent.is_dir()):
        raise TaskError(
            f"{output} must be an .html file in a folder that exists; name one, such as -o explained.html"
        )
    folder = Path(model) if Path(model).is_dir() else Path(model).parent
    with predictor(model, device) as found:
        if not isinstance(found, LocalPredictor):
            raise TaskError(
                f"{model} is served elsewhere; give the saved model's folder, or its exported file"
            )
        if found.kind_name not in ("classify", "tag"):
            raise TaskError(
                f"{model} has no classes or tags that exclude each other, which is what is explained; `peirce predict` "
                "measures its predictions"
            )
        task = None if text or second or label else _task_of(folder, file)
        read = {} if task is None else task.read()
        if task is not None and found.scorer.aside not in ("", task.aside_digest(read)):
            print_line(
                f"{file} has changed since the training; all rows are measured, also those that it learned from"
            )
            task = None
        where = str(file)
        if task is None:
            rows = _rows(found, file, text, second, label)
            diagnosis = diagnose(found, rows, folder=folder, unseen=False, batch_size=batch_size)
        else:
            diagnosis, split = task.diagnose(found, read, folder, batch_size)
            where = str(task.options.files.get(split, file))
        if diagnosis.unseen:
            where += " that were kept out of the training"
        if output is not None:
            title, curves = f"{folder.name} on {file.name}", folder / "learning-curves.png"
            write_report(output, diagnosis, found, title=title, where=where, curves=curves)
    if json:
        print_json(SCHEMA, file=None if output is None else str(output), **_facts(diagnosis))
        return
    for line in _lines(diagnosis, where):
        typer.echo(line)
    typer.echo(f"written to {output}" if output is not None else "-o FILE.html writes all of it as a page")


def _task_of(folder: Path, file: Path) -> TableTask[Any, Any, Any] | None:
    """The task that a model was trained on, if it learned from this file."""
    from peirce_text.tabular.tables import TableTask
    from peirce_training import make_task, read_training

    record = (read_training(folder) or {}).get("task", {})
    options = record.get("options", {})
    if not options.get("data") or Path(options["data"]).resolve() != file.resolve():
        return None
    task = make_task(record["name"], options)
    return task if isinstance(task, TableTask) else None


def _rows(
    found: LocalPredictor, file: Path, text: str | None, second: str | None, label: str | None
) -> list[Labelled]:
    """The rows of a file that have a text and a label."""
    from peirce_text.reading import count_rows, read_rows
    from peirce_text.tabular.columns import Roles, peek
    from peirce_training import make_task

    if file.is_dir():
        raise TaskError(f"{file} is a folder that the model was not trained on; give one file of it")
    first, _ = peek(read_rows(file), str(file))
    roles = Roles.of(first, found.columns, tags=found.tags, text=text, pair=second, label=label)
    if not roles.label:
        names = ", ".join(map(str, first.values))
        raise TaskError(
            f"{file} has no column of right {'tags' if found.tags else 'classes'} to hold the model against, only "
            f"{names}; name it with --label COLUMN"
        )
    columns = dict(zip(("text", "pair"), roles.texts, strict=False), label=roles.label)
    if found.tags:
        known = found.columns.get("sentence", "")
        sentence = known if known in first.values else ""
        columns = {"tokens": roles.texts[0], "tags": roles.label, "sentence": sentence}
    options = {"data": str(file), "inputs": dict(found.input_columns.columns), **columns}
    task: Any = make_task(found.kind_name, options)
    examples = (
        each for _, each in task.examples_of(task.rows()["train"], "train") if not isinstance(each, str)
    )
    step = 1 + count_rows(file) // (MOST_ROWS + 1)
    kept = [task.labelled(each) for each in islice(examples, 0, None, step)]
    if not kept:
        raise TaskError(
            f"{file} has no row with a text and a label; name their columns with --text and --label"
        )
    return kept


def _facts(found: Diagnosis) -> dict[str, object]:
    """What is found as JSON has it."""
    judged, matrix = found.judged, found.judged.matrix
    return {
        "items": len(judged.labels),
        "unseen": found.unseen,
        "metrics": judged.confusion.scores,
        "baseline_accuracy": None if found.baseline is None else float(found.baseline.mean()),
        "next_steps": found.next_steps(),
        "classes": list(judged.classes),
        "confusion": matrix.tolist(),
        "errors": [_finding(each, "prediction") for each in judged.errors(100)],
        "doubtful_labels": [_finding(each, "suggested") for each in found.doubts],
        "calibration": [
            dict(zip(("from", "to", "items", "mean", "right"), band, strict=True)) for band in judged.calibration()
        ],
        "by_length": [
            dict(zip(("from", "to", "items", "right"), band, strict=True)) for band in judged.by_length()
        ],
    }  # fmt: skip


def _finding(found: Finding, other: str) -> dict[str, object]:
    return {
        "row": found.row.number, "word": found.word, "texts": list(found.row.texts), "label": found.label,
        other: found.other, "probability": found.probability,
    }  # fmt: skip


def _lines(found: Diagnosis, where: str) -> list[str]:
    """What is found, for a terminal."""
    from peirce.errors import escape_controls
    from peirce_text.tabular.columns import shown

    judged = found.judged
    measured = ", ".join(f"{name} {value:.4f}" for name, value in judged.confusion.scores.items())
    lines = [f"{len(judged.labels):,} {'words' if judged.tags else 'rows'} of {where}: {measured}"]
    lines += judged.confusion.sentences()

    def line(each: Finding, other: str) -> str:
        text = escape_controls(" ".join(" ".join(each.row.texts).split()))
        text = text if len(text) <= 100 else f"{text[:99]}…"
        place = f"row {each.row.number}: " if each.row.number else ""
        word = "" if each.word is None else f"{each.row.texts[each.word]!r} is "
        classes = f"{shown(each.label)}{other} {shown(each.other)}"
        return f"  {word}{classes} ({each.probability:.2f}); {place}{text}"

    if errors := judged.errors(MOST_PRINTED):
        lines += ["", "the surest errors:", *(line(each, " taken for") for each in errors)]
    if found.doubts:
        lines += ["", f"{len(found.doubts):,} labels look wrong, the first:"]
        lines += [line(each, ", perhaps") for each in found.doubts[:MOST_PRINTED]]
    steps = found.next_steps() or ["no figure points to one cause"]
    return [*lines, "", "what to try next:", *(f"  {i}. {step}" for i, step in enumerate(steps, 1))]

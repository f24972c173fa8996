"""`peirce senteval`: how much the sentence vectors of a model know, by SentEval's tasks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, print_json, print_table
from peirce.errors import TaskError
from peirce.files import write_json

SCHEMA = "peirce.senteval/1"
DIGITS = 6


def senteval(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The folder of a saved model; or of an encoder of transformers, or its name on the hub; or a text "
            "file of word vectors.",
        ),
    ],
    data: Annotated[
        Path, typer.Option(metavar="PATH", help="The folder of the tasks' files.", show_default=False)
    ],
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this task, such as MR; repeatable. All in DIR if absent."),
    ] = None,
    pool: Annotated[
        str,
        typer.Option(
            help="mean, max, last, ends, first or pooled; if absent, as the model's head for pairs, or else mean."
        ),
    ] = "",
    vectors: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Where the vectors of words lie that the model reads, if not where they lay in training.",
        ),
    ] = "",
    cache: Annotated[
        str, typer.Option(metavar="DIR", help="A folder that keeps an encoder's vectors of words.")
    ] = "",
    folds: Annotated[int, typer.Option(min=2, help="Of cross validation.")] = 10,
    limit: Annotated[
        int, typer.Option(min=0, help="The most examples of a file of classes, at even distances; 0 for all.")
    ] = 0,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences that are read at once.")] = 64,
    device: Annotated[str, typer.Option(help="What reads sentences, such as cuda.")] = "cpu",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Keep the figures as JSON.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure a model's sentence vectors on the tasks of SentEval, which is left unmaintained, by its protocol."""
    from peirce_tpru.senteval.evaluation import evaluate, means
    from peirce_tpru.senteval.files import TASKS
    from peirce_tpru.senteval.sentences import sentences_of
    from peirce_training.experiments import commit

    if output is not None and not output.parent.is_dir():
        raise TaskError(f"folder {output.parent} does not exist; create it, or write elsewhere")
    if not data.is_dir():
        raise TaskError(f"there is no folder {data}; --data names the folder of the tasks' files")
    began = time.perf_counter()
    sentences = sentences_of(
        model, pool=pool, vectors=vectors, cache=cache, batch_size=batch_size, device=device
    )
    found = evaluate(sentences, data, task or (), folds=folds, limit=limit)
    figures = {task: _round(measured) for task, measured in found.items()}
    content = {
        "model": model, "about": sentences.about, "commit": commit(), "folds": folds, "limit": limit,
        "seconds": round(time.perf_counter() - began, 1), "tasks": figures, "means": _round(means(found)),
    }  # fmt: skip
    if output is not None:
        write_json(output, {"schema": SCHEMA, **content})
    if json:
        print_json(SCHEMA, **content)
        return
    most = f", at most {limit:,} examples a file" if limit else ""
    typer.echo(f"{sentences.about}; {folds} folds{most}")
    rows = []
    for name, measured in figures.items():
        main = TASKS[name].measure
        others = [
            f"{each} {100 * measured[each]:.1f}" for each in measured if each != main and "/" not in each
        ]
        rows.append((name, main, f"{100 * measured[main]:.1f}", ", ".join(others)))
    print_table(("task", "measure", "%", "others"), rows)
    shown = [(name, f"{100 * value:.1f}") for name, value in means(found).items()]
    print_table(("mean, as in TPRU's Table 3", "%"), shown)


def _round(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, DIGITS) for name, value in figures.items()}

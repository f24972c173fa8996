"""`peirce ask --queries`: the scores of all entities for a file of queries."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
from rich.console import Console

from peirce.errors import TaskError
from peirce.files import open_file, replace_file
from peirce.progress import progress_bars
from peirce_queries.answering.answerer import BatchAnswerer
from peirce_queries.engine.files import query_lines

ROWS = 256
"""Queries of a file that are answered together, at most."""


def score_file(answerer: BatchAnswerer, source: Path, output: Path, console: Console | None = None) -> int:
    """Write how far every entity is an answer of every query of a file, and give the number of queries.

    Args:
        answerer: what answers.
        source: JSON lines, as `peirce kg answer` reads them.
        output: an .npz file: `scores`, float32 [queries, entities]; `entities`, their names; `queries`, the lines.
        console: where a progress bar is shown; nowhere when None.

    Raises:
        TaskError: a line is malformed, or its query is not supported; or a file cannot be read or written.
    """
    graph = answerer.graph
    try:
        with open_file(source) as file:
            lines = list(query_lines(file, source, graph))
        if not lines:
            raise TaskError(f"{source} has no queries")
        for line in lines:
            try:
                answerer.check(line)
            except TaskError as error:
                raise TaskError(f"{line.place}: {error}") from error
        with (
            progress_bars(console) as progress,
            replace_file(output) as fresh,
            zipfile.ZipFile(fresh, "w") as archive,
        ):
            bar = progress.add_task("answering", total=len(lines), shown="")
            with archive.open(zipfile.ZipInfo("scores.npy"), "w", force_zip64=True) as out:
                shape = len(lines), graph.entities
                np.lib.format.write_array_header_1_0(
                    out, {"descr": "<f4", "fortran_order": False, "shape": shape}
                )
                for start in range(0, len(lines), ROWS):
                    some = lines[start : start + ROWS]
                    out.write(answerer.scores(some).astype("<f4").tobytes())
                    progress.advance(bar, len(some))
            texts = [json.dumps(line.given, ensure_ascii=False) for line in lines]
            for name, values in (("entities", graph.entity_names), ("queries", texts)):
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as out:
                    np.save(out, np.array(values), allow_pickle=False)
    except OSError as error:
        where, message = source if error.filename == str(source) else output, error.strerror or str(error)
        raise TaskError(message if str(where) in message else f"{where}: {message}") from error
    return len(lines)

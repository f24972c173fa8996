"""`peirce relations` makes problems of a calculus and solves them; `peirce relate` asks a model."""

from __future__ import annotations

import gzip
import json as json_module
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from peirce.commands import Json, as_json, as_table, group
from peirce.errors import InputError, ModelFileError, TaskError
from peirce.files import locked, replacing, writing
from peirce.progress import progress_bars

if TYPE_CHECKING:
    from peirce_relations.calculi.algebra import RelationAlgebra
    from peirce_relations.graphs import Problem

BLOCK = 250
"""Problems of a block."""
Algebra = Annotated[str, typer.Option("--algebra", metavar="NAME", help="The calculus: rcc8 or interval.")]
app = group("Make problems of a calculus of relations, and solve them exactly.")


@app.command()
def generate(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A .jsonl or .jsonl.gz file.")
    ],
    algebra: Algebra,
    problems: Annotated[int, typer.Option(min=1, help="How many problems.")] = 10_000,
    steps: Annotated[str, typer.Option(metavar="SIZES", help="The edges of a path, K.")] = "2,3",
    paths: Annotated[str, typer.Option(metavar="SIZES", help="How many paths there are, B.")] = "1,2,3",
    seed: Annotated[int, typer.Option(min=0, help="What the problems depend on, beside the sizes.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE.")] = False,
    json: Json = False,
) -> None:
    """Make problems with one right answer each, the same bytes for the same options."""
    from peirce_relations.calculi.algebra import calculus
    from peirce_relations.calculi.problems import Paths, block

    _free(output, overwrite)
    sizes = {"steps": _numbers(steps, "--steps", 2), "branches": _numbers(paths, "--paths", 1)}
    ways = Paths(calculus(algebra), max(sizes["steps"]))

    def lines() -> Iterator[str]:
        for number in range(-(-problems // BLOCK)):
            count = min(BLOCK, problems - number * BLOCK)
            for problem in block(ways, sizes, seed, number, count):
                yield problem.line()

    _write(output, lines(), problems, "problems")
    _told(json, {"file": str(output), "problems": problems})


@app.command()
def solve(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Problems as JSON lines, gzipped or not.")],
    algebra: Algebra,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A .jsonl or .jsonl.gz file.")
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    json: Json = False,
) -> None:
    """Say which relations are left for each problem's pair: `possible`, and `unique` where there is one."""
    from peirce_relations.calculi.algebra import calculus
    from peirce_relations.graphs import read_problems

    _free(output, overwrite)
    known, problems = calculus(algebra), list(read_problems(file))
    counts = {"problems": len(problems), "unique": 0, "agree": 0, "disagree": 0, "inconsistent": 0}

    def lines() -> Iterator[str]:
        for problem in problems:
            row = _solved(known, problem)
            counts["unique"] += "unique" in row
            counts["inconsistent"] += "inconsistent" in row
            if problem.answer is not None:
                counts["agree" if row.get("unique") == problem.answer else "disagree"] += 1
            yield json_module.dumps(row, separators=(",", ":")) + "\n"

    _write(output, lines(), len(problems), "problems")
    _told(json, {"file": str(output), **counts})


def _solved(algebra: RelationAlgebra, problem: Problem) -> dict[str, Any]:
    """What is left for a problem's pair."""
    from peirce_relations.calculi.closure import InconsistentError, closure

    try:
        left = closure(algebra, problem.nodes, problem.edges, problem.labels)[problem.query]
    except InconsistentError as error:
        return {"query": problem.query, "possible": [], "inconsistent": str(error)}
    except InputError as error:
        raise TaskError(f"{problem.where}: {error}") from error
    possible = [algebra.relations[r] for r in left.nonzero()[0]]
    return {
        "query": problem.query,
        "possible": possible,
        **({"unique": possible[0]} if len(possible) == 1 else {}),
    }


def relate(
    directory: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Its folder, with spec.toml, model.onnx and assets/.")
    ],
    facts: Annotated[str, typer.Argument(metavar="TEXT", help="The graph, such as 'a NTPP b, b PO c'.")],
    pair: Annotated[tuple[str, str], typer.Option("--pair", metavar="TEXT", help="The two nodes.")],
    json: Json = False,
) -> None:
    """Name the relation of two nodes of a graph with an exported model."""
    import peirce

    from peirce_relations.serving import Relates

    file = directory / "model.onnx"
    if not file.is_file():
        raise ModelFileError(
            f"{directory} has no model.onnx; `peirce export {directory} -o {file}` writes it"
        )
    found: dict[str, Any] = {}
    with peirce.Session(file) as session:
        Relates(directory, session).ask({"facts": facts, "pair": pair}, found.update)
    if json:
        as_json("peirce.relate/1", pair=pair, **found)
        return
    columns = (found["relations"], found["scores"], found["probabilities"])
    rows = [(name, f"{score:.3f}", f"{share:.3f}") for name, score, share in zip(*columns, strict=True)]
    as_table((f"{pair[0]} to {pair[1]}", "score", "probability"), rows)


def _numbers(text: str, option: str, least: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) >= least for part in parts):
        raise InputError(f"{option} is {text!r}; give whole numbers of {least} or more, with commas between")
    return tuple(map(int, parts))


def _free(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise InputError(f"{path} is there already; choose another file, or give --overwrite to replace it")


def _told(json: bool, facts: dict[str, Any]) -> None:
    if json:
        as_json("peirce.relations/1", **facts)
        return
    for name, value in facts.items():
        typer.echo(f"{name}: {value}")


def _write(path: Path, lines: Iterator[str], count: int, noun: str) -> None:
    """Write lines whole or not at all, with a bar; a gzipped file has no time in it, so that it is the same twice."""
    from rich.console import Console

    console = Console(stderr=True)
    with (
        writing(str(path)),
        locked(path, folder=False),
        replacing(path) as place,
        place.open("wb") as raw,
        progress_bars(console if console.is_terminal else None) as bars,
    ):
        bar = bars.add_task(noun, total=count, shown="")
        file = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
        for line in lines:
            file.write(line.encode())
            bars.advance(bar)
        if file is not raw:
            file.close()

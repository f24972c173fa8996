"""`peirce relations` makes problems with exact answers and solves them; `peirce relate` asks a model."""

from __future__ import annotations

import gzip
import json as json_module
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from peirce.commands import WEB_RUNTIME, Json, PageFile, WebRuntime, group, print_json, print_table
from peirce.errors import InputError, ModelFileError, TaskError
from peirce.extras import require
from peirce.files import explain_disk_errors, hold_lock, open_file, replace_file
from peirce.progress import progress_bars
from peirce.workers import part_file, write_parts

if TYPE_CHECKING:
    from peirce_relations.calculi.sources import Source
    from peirce_relations.graphs import Problem

T = TypeVar("T")
Algebra = Annotated[
    str,
    typer.Option(
        "--algebra",
        metavar="NAME",
        help="rcc8, interval, or the calculus of a plug-in; random:N:SEED or associative:N:SEED for N relations with a "
        "random table; reach; or offpath:1 to offpath:3.",
    ),
]
_KEPT = "the blocks that were done are kept, and the same command goes on from there"
app = group("Make problems of relations with exact answers, and solve them exactly.")


@app.command()
def generate(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A .jsonl or .jsonl.gz file.")
    ],
    algebra: Algebra,
    problems: Annotated[int, typer.Option(min=1, help="How many problems.")] = 10_000,
    steps: Annotated[str, typer.Option(metavar="SIZES", help="The edges of a path, K.")] = "2,3",
    paths: Annotated[
        str,
        typer.Option(
            metavar="SIZES", help="How many paths there are, B; 1,2,3 unless given, and 1 with offpath."
        ),
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="What the problems depend on, beside the sizes.")] = 0,
    workers: Annotated[
        int, typer.Option(min=1, help="How many processes draw; the file is the same for any number.")
    ] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE.")] = False,
    json: Json = False,
) -> None:
    """Make problems with one right answer each; a call that was interrupted goes on where it was."""
    from peirce_relations.calculi.sources import BLOCK, lines, source

    sizes = _read_sizes(steps, "--steps", 2)
    kind = source(algebra, max(sizes))
    branches = _read_sizes(paths, "--paths", 1) if paths else kind.branches
    settings = (sizes, branches, seed, problems)
    parts = output.with_name(f".{output.name}-{zlib.crc32(repr((kind.name, settings)).encode()):08x}.parts")
    _check_free(output, overwrite)
    numbers = range(-(-problems // BLOCK))
    with explain_disk_errors(str(output), _KEPT), hold_lock(output, folder=False):
        part = partial(lines, kind.name, *settings)
        for _ in _with_progress(write_parts(parts, numbers, part, workers), len(numbers), "blocks"):
            pass
        _write(output, (_read_part(part_file(parts, number)) for number in numbers))
        rmtree(parts)
    _report(json, {"file": str(output), "problems": problems})


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
    from peirce_relations.calculi.sources import source
    from peirce_relations.graphs import read_problems

    _check_free(output, overwrite)
    known, problems = source(algebra), list(read_problems(file))
    counts = {"problems": len(problems), "unique": 0, "agree": 0, "disagree": 0, "inconsistent": 0}

    def lines() -> Iterator[str]:
        for problem in problems:
            row = _solve_problem(known, problem)
            counts["unique"] += "unique" in row
            counts["inconsistent"] += "inconsistent" in row
            if problem.answer is not None and "inconsistent" not in row:
                counts["agree" if row.get("unique") == problem.answer else "disagree"] += 1
            yield json_module.dumps(row, separators=(",", ":")) + "\n"

    with hold_lock(output, folder=False):
        _write(output, _with_progress(lines(), len(problems), "problems"))
    _report(json, {"file": str(output), **counts})


def _solve_problem(known: Source, problem: Problem) -> dict[str, Any]:
    """What is left for a problem's pair."""
    from peirce_relations.calculi.closure import InconsistentError

    try:
        possible = known.possible(problem)
    except InconsistentError as error:
        return {"query": problem.query, "possible": [], "inconsistent": str(error)}
    except InputError as error:
        raise TaskError(f"{problem.where}: {error}") from error
    unique = {"unique": possible[0]} if len(possible) == 1 else {}
    return {"query": problem.query, "possible": possible, **unique}


def relate(
    directory: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Its folder, with spec.toml, model.onnx and assets/.")
    ],
    facts: Annotated[str, typer.Argument(metavar="TEXT", help="The graph, such as 'a NTPP b, b PO c'.")],
    pair: Annotated[tuple[str, str], typer.Option("--pair", metavar="TEXT", help="The two nodes.")],
    page: PageFile = None,
    runtime: WebRuntime = WEB_RUNTIME,
    json: Json = False,
) -> None:
    """Name the relation of two nodes of a graph with an exported model."""
    if page is not None:
        require("--page", "peirce_show", extra="show")
    import peirce
    from peirce.model import WEIGHTS, saved_files
    from peirce_export import exported_file
    from peirce_relations.serving import SCORES, RelationPipeline

    found: dict[str, Any] = {}
    with peirce.Session(exported_file(directory)) as session:
        with saved_files(directory, without=(WEIGHTS,)) as files:
            fits = RelationPipeline.answers(session.signature, files.assets, False)
        if not fits:
            raise ModelFileError(
                f"{directory} holds no model of relations; `peirce train SPEC --task relations -o DIR` makes one"
            )
        model, question = RelationPipeline(directory, session), {"facts": facts, "pair": pair}
        model.ask(question, found.update)
        if page is not None:
            from peirce_show import write_page

            known = {"relations": model.relations.names, "kinds": model.relations.kinds, "scores": SCORES}
            folder, title = Path(__file__).parent / "page", "Which relation follows?"
            write_page(page, session, folder, known | question, title=title, layer="Round", runtime=runtime)
            typer.echo(f"written to {page}", err=True)
    if json:
        print_json("peirce.relate/1", pair=pair, **found)
        return
    columns = (found["relations"], found["scores"], found["probabilities"])
    rows = [(name, f"{score:.3f}", f"{share:.3f}") for name, score, share in zip(*columns, strict=True)]
    print_table((f"{pair[0]} to {pair[1]}", "score", "probability"), rows)


def _read_sizes(text: str, option: str, least: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) >= least for part in parts):
        raise InputError(f"{option} is {text!r}; give whole numbers of {least} or more, with commas between")
    return tuple(map(int, parts))


def _check_free(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists already; choose another file, or replace it with --overwrite")


def _report(json: bool, facts: dict[str, Any]) -> None:
    if json:
        print_json("peirce.relations/1", **facts)
        return
    for name, value in facts.items():
        typer.echo(f"{name}: {value}")


def _with_progress(done: Iterable[T], count: int, noun: str) -> Iterator[T]:
    """The items as they come, with a progress bar on a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    with progress_bars(console if console.is_terminal else None) as bars:
        bar = bars.add_task(noun, total=count, shown="")
        for each in done:
            yield each
            bars.advance(bar)


def _read_part(path: Path) -> str:
    try:
        with open_file(path) as file:
            return file.read().decode()
    except OSError as error:
        raise TaskError(f"{path} cannot be read ({error}); remove it, and run the command again") from error


def _write(path: Path, texts: Iterable[str]) -> None:
    """Write texts whole or not at all; a gzipped file has no time in it, so that it is the same twice."""
    with replace_file(path) as place, place.open("wb") as raw:
        file = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
        for text in texts:
            file.write(text.encode())
        if file is not raw:
            file.close()

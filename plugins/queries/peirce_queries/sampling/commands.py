"""`peirce kg sample`: sampled queries with exact answers, in Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from peirce.commands import Json, print_json, print_table
from peirce.progress import progress_bars
from peirce_queries.graphs.commands import GraphOption, progress_console
from peirce_queries.languages.commands import TypesFile

if TYPE_CHECKING:
    from peirce_queries.sampling.files import Description
    from peirce_queries.sampling.jobs import Sampled, Watch


def sample(
    graph: GraphOption,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the queries go, in DIR/SPLIT.")
    ],
    types: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="seen, unseen, all, or names with commas between, such as 2p,3in."
        ),
    ] = "all",
    types_file: TypesFile = None,
    split: Annotated[
        str, typer.Option(metavar="SPLIT", help="train, valid, test, or all of them.")
    ] = "train",
    count: Annotated[
        int | None, typer.Option(min=1, help="Queries of each type; as in TEGA's Table 9 unless given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 0,
    max_answers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Answers that a query may have on the graph of its split; 100 if not given, any number if hard.",
        ),
    ] = None,
    hard: Annotated[
        bool,
        typer.Option(
            "--hard",
            help="Queries of valid and test with an answer that needs all of its links; "
            "--types are those of the +H benchmarks.",
        ),
    ] = False,
    engine: Annotated[str, typer.Option(metavar="NAME", help="local, or ray for a Ray cluster.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; one, or all of the Ray cluster's, unless given.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace queries that were sampled with other options.")
    ] = False,
    json: Json = False,
) -> None:
    """Sample queries with exact answers to Parquet files."""
    from peirce.errors import TaskError, unknown
    from peirce_queries.graphs.graph import SPLITS, load_graph
    from peirce_queries.languages.types import hard_types, load_types, select
    from peirce_queries.sampling.jobs import describe, quantities, run
    from peirce_queries.sampling.sampler import most_answers

    splits = SPLITS if split == "all" else tuple(each for each in SPLITS if each == split)
    if not splits:
        raise TaskError(unknown("split", split, (*SPLITS, "all")))
    known = hard_types() if hard and types_file is None else load_types(types_file)
    kinds = select([name.strip() for name in types.split(",")], known)
    loaded = load_graph(graph)
    typer.echo(loaded.summary(), err=True)
    sampled = {}
    for each in splits:
        counts = quantities(kinds, loaded, each) if count is None else {kind.name: count for kind in kinds}
        most = max_answers or most_answers(each, hard=hard)
        wanted = describe(kinds, counts, loaded, each, seed, most, hard=hard)
        with _progress(wanted) as watch:
            sampled[each] = run(output, wanted, loaded, engine, workers, watch, overwrite=overwrite)
    if json:
        rows = [_row(each, one) for each, of_split in sampled.items() for one in of_split]
        print_json("peirce.kg.sample/1", graph=loaded.name, directory=str(output), types=rows)
    else:
        for each, of_split in sampled.items():
            _print(f"{each} queries of {loaded.name} in {output / each}", of_split)


@contextmanager
def _progress(wanted: Description) -> Iterator[Watch]:
    """A bar for all types, beside it the one that is being sampled and its queries per second of one CPU."""
    counts = {request.name: request.count for request in wanted.types}
    with progress_bars(progress_console()) as progress:
        total = progress.add_task(f"{wanted.split} queries", total=sum(counts.values()), shown="")
        have = dict.fromkeys(counts, 0)

        def watch(name: str, count: int, seconds: float) -> None:
            rate = f"{count / seconds:,.0f}/s" if seconds else ""
            progress.update(total, advance=count - have[name], shown=f"{name} {rate}")
            have[name] = count

        yield watch


def _row(split: str, one: Sampled) -> dict[str, object]:
    found = {
        "split": split,
        "type": one.request.name,
        "asked": one.request.count,
        "queries": len(one.answers),
    }
    return {**found, "per_second": one.rate, "answers": one.histogram()}


def _print(title: str, sampled: Sequence[Sampled]) -> None:
    """A row per type: how many queries, how fast, and the histogram of their numbers of answers."""
    bins = max((one.histogram() for one in sampled), key=len)
    rows = []
    for one in sampled:
        found, counts = len(one.answers), one.histogram()
        of = "" if found == one.request.count else f" of {one.request.count:,}"
        rate = f"{one.rate:,.0f}" if one.rate else ""
        rows.append(
            (one.request.name, f"{found:,}{of}", rate, *(f"{counts.get(name, 0):,}" for name in bins))
        )
    headings = [name if number else f"with {name} answer" for number, name in enumerate(bins)]
    typer.echo(title)
    print_table(("type", "queries", "per second", *headings), rows)

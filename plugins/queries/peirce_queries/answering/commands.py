"""`peirce ask`: a first-order query, answered exactly or by a model. The command itself needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from peirce.commands import WEB_RUNTIME, Json, PageFile, WebRuntime, print_json, print_table
from peirce.errors import InputError, TaskError, escape_controls
from peirce_queries.graphs.commands import GRAPH_HELP

if TYPE_CHECKING:
    from peirce_queries.answering.answerer import GivenGraph
    from peirce_queries.answering.replies import Ranked, Reply
    from peirce_queries.graphs.graph import Graph

ZERO_SHOT_MODEL = Path("ultra")
"""The default model of --zero-shot."""


def ask(
    directory: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="Its folder: an exported model with its assets, or with --graph what `peirce import ultra` made, or a "
            "checkpoint. Without it --graph is asked exactly.",
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY",
            help='Such as "isa(alga,f) & !affects(e1,f)": f is asked for, e1, e2, ... exist; '
            "& | ! and parentheses combine atoms; quote names with spaces or punctuation. f1 and f2 ask for pairs. "
            "SPARQL and openCypher are read, too.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many answers of a model to show.")] = 10,
    budget: Annotated[
        float, typer.Option(min=0, help="Seconds that the exact answers may take, 0 for any time.")
    ] = 60,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="GRAPH", help=f"The graph that is asked. {GRAPH_HELP}")
    ] = None,
    zero_shot: Annotated[
        bool,
        typer.Option(
            "--zero-shot", help="Ask the graph by the model in the folder `ultra` where none is named."
        ),
    ] = False,
    split: Annotated[
        Literal["train", "valid", "test"],
        typer.Option(
            help="Which triples of the graph are known: valid has those of train too, test all of them."
        ),
    ] = "test",
    exact: Annotated[
        bool, typer.Option("--exact", help="The answers that the graph entails, and no others.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="With --graph: show the likeliest values of the variables.")
    ] = False,
    logic: Annotated[
        Literal["product", "godel", "lukasiewicz"],
        typer.Option(help="With --graph: how fuzzy sets are joined."),
    ] = "product",
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --graph: JSON lines, as `peirce kg answer` reads them."),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where --queries goes: an .npz file with the scores of all entities."
        ),
    ] = None,
    page: PageFile = None,
    runtime: WebRuntime = WEB_RUNTIME,
    json: Json = False,
) -> None:
    """Answer a first-order query: exactly, with an exported model, or on any graph untrained."""
    seconds = budget or None
    if graph is None:
        if zero_shot:
            raise TaskError(
                "--zero-shot asks a graph that the model was not trained on: give it with --graph"
            )
        if directory is None or query is None or exact or explain or queries or scores:
            raise TaskError(
                "give a model's folder and a query; --graph GRAPH asks another graph than the model's, as --exact, "
                "--explain and --queries do"
            )
        _ask_own_graph(Path(directory), query, top, seconds, page, runtime, json)
        return
    if (queries is None) != (scores is None):
        raise TaskError("--queries FILE has its answers in --scores FILE; give both")
    if page is not None:
        raise TaskError("--page is of an exported model on its own graph; leave --graph or --page out")
    if exact and (explain or queries is not None):
        raise TaskError(
            "--exact has no values of variables to --explain, and `peirce kg answer` is for a file; give it alone"
        )
    if queries is None and query is None:
        directory, query = None, directory
    model = ZERO_SHOT_MODEL if directory is None and zero_shot else directory and Path(directory)
    if queries is None and query is None:
        raise TaskError("give a query, or a file of them with --queries")
    if queries is not None and model is None:
        raise TaskError("--queries needs a model; `peirce kg answer` answers a file exactly")

    from peirce_queries.answering.answerer import GivenGraph
    from peirce_queries.graphs.graph import load_graph

    given = GivenGraph(graph=load_graph(graph), split=split, logic=logic)
    if queries is not None and scores is not None and model:
        _score_queries(model, given, queries, scores, json)
    elif query is not None:
        _ask_graph(None if exact or not model else model, given, query, top, seconds, explain, json)


def _ask_own_graph(
    place: Path, text: str, top: int, seconds: float | None, page: Path | None, runtime: Path, json: bool
) -> None:
    """Show what a model answers over the graph that it was trained on."""
    from peirce_queries.answering.answerer import PageAnswerer, open_answerer
    from peirce_queries.answering.replies import model_reply
    from peirce_queries.languages.conversion import parse_any, to_query

    query, answerer = parse_any(text), open_answerer(place, None)
    reply = model_reply(answerer, query, top, seconds)
    if page is not None:
        if not isinstance(answerer, PageAnswerer):
            raise InputError(f"the model in {place} cannot become a page; leave --page out")
        answerer.write_page(page, to_query(query, pairs=True), top, runtime)
        typer.echo(f"written to {page}", err=True)
    if json:
        answers = [
            {"rank": a.rank, "entity": a.entity, "score": a.score, "known": a.known} for a in reply.answers
        ]
        print_json(
            "peirce.ask/1", query=str(reply.query), graph=answerer.graph.name, provider=reply.provider,
            exact=reply.exact, answers=answers,
        )  # fmt: skip
        return
    typer.echo(escape_controls(reply.query))
    rows = [(a.rank, _name(a), f"{a.score:.3f}", a.known[0] if a.known else "") for a in reply.answers]
    print_table(("rank", "entity", "score", "known"), rows)
    typer.echo("known: the smallest graph that entails the answer")
    message = "The exact answers are too many to compute, or take too long (--budget), so none is marked."
    if reply.exact is not None:
        counts = ", ".join(f"{count} on {split}" for split, count in reply.exact.items())
        message = f"Exact answers: {counts}. Ran on {reply.provider}."
    typer.echo(message)


def _score_queries(place: Path, given: GivenGraph, queries: Path, scores: Path, json: bool) -> None:
    """Write the scores of all entities for the queries of a file."""
    from peirce_queries.answering.answerer import BatchAnswerer, open_answerer
    from peirce_queries.answering.scores import score_file
    from peirce_queries.graphs.commands import progress_console

    answerer = open_answerer(place, given)
    if not isinstance(answerer, BatchAnswerer):
        raise InputError(f"the model in {place} answers one query at a time; leave --queries out")
    count, entities = score_file(answerer, queries, scores, progress_console()), given.graph.entities
    if json:
        print_json("peirce.ask.scores/1", output=str(scores), queries=count, entities=entities)
    else:
        typer.echo(f"{scores}: scores of {entities:,} entities for {count:,} queries")


def _ask_graph(
    place: Path | None,
    given: GivenGraph,
    text: str,
    top: int,
    seconds: float | None,
    explain: bool,
    json: bool,
) -> None:
    """Show what a graph entails, or what a model that was not trained on it answers."""
    from peirce_queries.answering.answerer import open_answerer
    from peirce_queries.answering.replies import exact_reply, model_reply
    from peirce_queries.graphs.commands import progress_console
    from peirce_queries.languages.conversion import parse_any

    query = parse_any(text)
    if place is None:
        reply = exact_reply(query, given.graph, given.split, seconds)
    else:
        answerer = open_answerer(place, given)
        reply = model_reply(answerer, query, top, seconds, (given.split,), progress_console())
    _show_graph_reply(reply, given.graph, explain, json)


def _show_graph_reply(reply: Reply, graph: Graph, explain: bool, json: bool) -> None:
    variables = reply.variables if explain else {}
    count = None if reply.exact is None else sum(reply.exact.values())
    known = [None if count is None else bool(a.known) for a in reply.answers]
    if json:
        answers = [
            {"entity": a.entity, "score": a.score, "known": mark}
            for a, mark in zip(reply.answers, known, strict=True)
        ]
        likely = {
            name: [{"entity": a.entity, "score": a.score, "known": None} for a in values]
            for name, values in variables.items()
        }
        print_json(
            "peirce.ask.graph/1", query=str(reply.query), graph=graph.name, exact=count, answers=answers,
            variables=likely,
        )  # fmt: skip
        return
    typer.echo(escape_controls(reply.query))
    marks = {True: "known", False: "predicted", None: ""}
    rows = [
        (a.rank, _name(a), f"{a.score:.4f}", marks[mark])
        for a, mark in zip(reply.answers, known, strict=True)
    ]
    print_table(("rank", "entity", "score", ""), rows)
    for name, values in variables.items():
        typer.echo(escape_controls(f"{name}: {', '.join(f'{_name(a)} {a.score:.4f}' for a in values)}"))
    unmarked = "What the graph entails is not known: too much, too slow (--budget), or no formula says it."
    many = "s" * (count != 1)
    typer.echo(unmarked if count is None else f"The graph entails {count:,} answer{many}.")


def _name(answer: Ranked) -> str:
    """An entity, or a pair with a comma between."""
    return answer.entity if isinstance(answer.entity, str) else ", ".join(answer.entity)

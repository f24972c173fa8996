"""`peirce ask`: answer a first-order query. With an exported model it loads neither torch nor pykeen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from attrs import asdict
from peirce.commands import WEB_RUNTIME, Json, PageFile, WebRuntime, as_json, as_table
from peirce.errors import TaskError, escaped

from peirce_queries.graphs.commands import GRAPH_HELP

if TYPE_CHECKING:
    from peirce_queries.graphs.graph import Split
    from peirce_kg.ultra.answering import Logic


def ask(
    directory: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="Its folder, which holds spec.toml, provenance.json, model.onnx and assets/. With --zero-shot, what "
            "`peirce import ultra` made, or a checkpoint; the folder `ultra` if absent.",
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
    top: Annotated[int, typer.Option(min=1, help="How many answers to show.")] = 10,
    budget: Annotated[
        float, typer.Option(min=0, help="Seconds that the exact answers may take, 0 for any time.")
    ] = 60,
    zero_shot: Annotated[
        bool, typer.Option("--zero-shot", help="Ask any graph, by a model that was not trained on it.")
    ] = False,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="GRAPH", help=f"With --zero-shot. {GRAPH_HELP}")
    ] = None,
    split: Annotated[
        Literal["train", "valid", "test"],
        typer.Option(
            help="Which triples of the graph are known: valid has those of train too, test all of them."
        ),
    ] = "test",
    exact: Annotated[
        bool,
        typer.Option("--exact", help="With --zero-shot: the answers that the graph entails, and no others."),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="With --zero-shot: show the likeliest values of the variables.")
    ] = False,
    logic: Annotated[
        Literal["product", "godel", "lukasiewicz"],
        typer.Option(help="With --zero-shot: how fuzzy sets are joined."),
    ] = "product",
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --zero-shot: JSON lines, as `peirce kg answer` reads them."),
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
    """Answer a first-order query, with an exported model or on any graph untrained."""
    if zero_shot:
        if graph is None or (queries is None) != (scores is None):
            raise TaskError(
                "--zero-shot asks a graph: give it with --graph, and with --queries FILE also --scores FILE"
            )
        if page is not None:
            raise TaskError(
                "--page is of an exported model, which --zero-shot does not ask; leave one of them out"
            )
        if exact and (explain or queries is not None):
            raise TaskError(
                "--exact has no values of variables to --explain, and `peirce kg answer` is for a file; give it alone"
            )
        if queries is None and query is None:
            directory, query = None, directory
        model = Path(directory or "ultra")
        if queries is not None and scores is not None:
            _score_queries(model, graph, split, logic, queries, scores, json)
        elif query is not None:
            _ask_graph(model, graph, split, logic, query, top, budget or None, exact, explain, json)
        else:
            raise TaskError("give a query, or a file of them with --queries")
        return
    if directory is None or query is None or exact or explain or graph or queries or scores:
        raise TaskError(
            "give a model's folder and a query; to ask another graph than the model's, or by options that say so, add "
            "--zero-shot"
        )
    from peirce_kg.ask import Asker

    asker = Asker(Path(directory), budget or None)
    reply = asker.ask(query, top)
    if page is not None:
        from peirce_kg.page import write_queries

        write_queries(page, asker, reply.query, top, runtime)
        typer.echo(f"written to {page}", err=True)
    if json:
        as_json(
            "peirce.ask/1", query=str(reply.query), graph=asker.graph.name, provider=reply.provider,
            exact=reply.exact, answers=[asdict(each) for each in reply.answers],
        )  # fmt: skip
        return
    typer.echo(escaped(reply.query))
    named = [a.entity if isinstance(a.entity, str) else ", ".join(a.entity) for a in reply.answers]
    rows = [
        (a.rank, name, f"{a.score:.3f}", a.known[0] if a.known else "")
        for a, name in zip(reply.answers, named, strict=True)
    ]
    as_table(("rank", "entity", "score", "known"), rows)
    typer.echo("known: the smallest graph that entails the answer")
    said = "The exact answers are too many to compute, or take too long (--budget), so none is marked."
    if reply.exact is not None:
        counts = ", ".join(f"{count} on {split}" for split, count in reply.exact.items())
        said = f"Exact answers: {counts}. Ran on {reply.provider}."
    typer.echo(said)


def _score_queries(
    model: Path, source: str, split: Split, logic: Logic, queries: Path, scores: Path, json: bool
) -> None:
    """Write the scores of all entities for the queries of a file."""
    from peirce_queries.graphs.commands import shown_to_people
    from peirce_queries.graphs.graph import load_graph
    from peirce_kg.ultra.asking import open_answerer, score_file

    graph = load_graph(source)
    answerer = open_answerer(model, graph, split, logic)
    count = score_file(answerer, graph, queries, scores, shown_to_people())
    if json:
        as_json("peirce.ask.scores/1", output=str(scores), queries=count, entities=graph.entities)
    else:
        typer.echo(f"{scores}: scores of {graph.entities:,} entities for {count:,} queries")


def _ask_graph(
    model: Path, source: str, split: Split, logic: Logic, query: str, top: int, seconds: float | None,
    exact: bool, explain: bool, json: bool,
) -> None:  # fmt: skip
    """Show the answers of a query on a graph that the model was not trained on."""
    from peirce_queries.graphs.commands import shown_to_people
    from peirce_queries.graphs.graph import load_graph
    from peirce_kg.ultra.asking import ask_graph, entailed, open_answerer

    graph = load_graph(source)
    if exact:
        found = entailed(graph, split, query, seconds)
    else:
        answerer = open_answerer(model, graph, split, logic)
        found = ask_graph(answerer, graph, split, query, top, seconds, shown_to_people())
    variables = found.variables if explain else {}
    if json:
        likely = {name: [asdict(each) for each in own] for name, own in variables.items()}
        answers = [asdict(each) for each in found.answers]
        as_json(
            "peirce.ask.graph/1", query=found.query, graph=graph.name, exact=found.exact, answers=answers,
            variables=likely,
        )  # fmt: skip
        return
    typer.echo(escaped(found.query))
    marks = {True: "known", False: "predicted", None: ""}
    rows = [(i, a.entity, f"{a.score:.4f}", marks[a.known]) for i, a in enumerate(found.answers, 1)]
    as_table(("rank", "entity", "score", ""), rows)
    for name, own in variables.items():
        typer.echo(escaped(f"{name}: {', '.join(f'{each.entity} {each.score:.4f}' for each in own)}"))
    unmarked = "What the graph entails is not known: too much, too slow (--budget), or no formula says it."
    many = "s" * (found.exact != 1)
    typer.echo(unmarked if found.exact is None else f"The graph entails {found.exact:,} answer{many}.")

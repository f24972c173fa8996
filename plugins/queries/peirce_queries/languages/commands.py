"""The commands of `peirce kg` about queries themselves: show, draw, types. None of them needs a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from attrs import asdict

from peirce.commands import Json, print_json, print_table
from peirce.errors import TaskError, unknown

if TYPE_CHECKING:
    from peirce_queries.languages.features import Features
    from peirce_queries.languages.language import Query

QueryText = Annotated[
    str,
    typer.Argument(
        metavar="QUERY",
        help="In EFO syntax, such as '(r1(s1,e1))&(r2(e1,f))', in the Lisp-like one, such as "
        "'(p,(r2),(p,(r1),(s1)))', in SPARQL or openCypher, or the name of a query type, such as 2p.",
    ),
]
TypesFile = Annotated[
    Path | None,
    typer.Option(
        "--types-file",
        metavar="FILE",
        help="Query types of your own, a TOML file of [[type]] tables with name, formula and seen, in place of TEGA's.",
    ),
]


def show(query: QueryText, types_file: TypesFile = None, json: Json = False) -> None:
    """Show a query in both syntaxes, its disjunctive form, its reversal and its features."""
    from peirce_queries.languages.conversion import NoLispFormError, to_lisp
    from peirce_queries.languages.features import features
    from peirce_queries.languages.language import disjunctive, reverse

    parsed = _query(query, types_file)
    lisp = refusal = None
    try:
        lisp = str(to_lisp(parsed))
    except NoLispFormError as error:
        refusal = error.reason
    found = features(parsed)
    forms = {"efo": str(parsed), "disjunctive": str(disjunctive(parsed)), "reversed": str(reverse(parsed))}
    if json:
        print_json("peirce.kg.show/1", **forms, lisp=lisp, lisp_refusal=refusal, features=asdict(found))
        return
    rows = {"EFO": forms.pop("efo"), "Lisp-like": lisp or f"none: {refusal}", **forms}
    rows |= {"features": ", ".join(_marks(found)) or "none", "depth": str(found.depth)}
    print_table(("form", "query"), list(rows.items()))


def draw(
    query: QueryText,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The picture; .svg, .png or .pdf says its format."
        ),
    ] = Path("query.svg"),
    types_file: TypesFile = None,
) -> None:
    """Draw the graph of a query: entities, relations, variables, negations and the union of its conjunctions."""
    from peirce_queries.languages import drawing
    from peirce_queries.languages.querygraph import QueryGraph

    parsed = _query(query, types_file)
    graph = QueryGraph.of(parsed)
    drawing.draw(graph, output, str(parsed))
    typer.echo(f"{output}: {len(graph.nodes)} nodes, {len(graph.edges)} edges")


def types(types_file: TypesFile = None, json: Json = False) -> None:
    """List query types with their features and formulas."""
    from peirce_queries.languages.features import features
    from peirce_queries.languages.types import load_types

    found = [(kind, features(kind.query)) for kind in load_types(types_file).values()]
    if json:
        tables = [
            {"name": k.name, "seen": k.seen, "formula": str(k.query), **asdict(has)} for k, has in found
        ]
        print_json("peirce.kg.types/1", types=tables)
        return
    rows = [
        (kind.name, "seen" if kind.seen else "unseen", ", ".join(_marks(has)), has.depth, kind.query)
        for kind, has in found
    ]
    print_table(("type", "", "features", "depth", "formula"), rows)


def _query(text: str, types_file: Path | None) -> Query:
    """The query of a text, or of the type that the text names."""
    from peirce_queries.languages.conversion import read_query
    from peirce_queries.languages.types import load_types

    types = load_types(types_file)
    if text in types:
        return types[text].query
    if text.isalnum():  # one word; syntaxes have more
        raise TaskError(f"{unknown('query type', text, types)}; a query has parentheses, as in r1(s1,f)")
    return read_query(text)


def _marks(features: Features) -> list[str]:
    return [name.replace("_", " ") for name, has in asdict(features).items() if has and name != "depth"]

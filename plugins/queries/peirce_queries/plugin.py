"""The plug-in of `peirce_queries`: its syntaxes and formats, and the lines of help of its commands."""

from __future__ import annotations

from peirce.registry import hookimpl


@hookimpl
def register_syntaxes() -> dict[str, str]:
    """The syntaxes that are read beside EFO's own."""
    return {
        "lisp": "peirce_queries.languages.syntaxes:Lisp",
        "sparql": "peirce_queries.languages.syntaxes:Sparql",
        "cypher": "peirce_queries.languages.syntaxes:Cypher",
    }


@hookimpl
def register_formats() -> dict[str, str]:
    """The files of other projects, and those of Peirce."""
    return {
        "peirce": "peirce_queries.exchange.graphs:Samples",
        "betae": "peirce_queries.exchange.tuples:BetaE",
        "query2box": "peirce_queries.exchange.tuples:Query2Box",
        "sqe": "peirce_queries.exchange.texts:Sqe",
        "efok": "peirce_queries.exchange.texts:Efok",
        "tsv": "peirce_queries.exchange.graphs:Tsv",
        "nt": "peirce_queries.exchange.graphs:NTriples",
        "index": "peirce_queries.exchange.graphs:IndexFolder",
    }


@hookimpl
def register_commands() -> dict[str, str]:
    """Queries and the graphs that they ask."""
    return {
        "ask": "Answer a first-order query: exactly, with an exported model, or on any graph untrained.",
        "kg": "Look at knowledge graphs and at first-order queries over them.",
        "kg.show": "Show a query in both syntaxes, its disjunctive form, its reversal and its features.",
        "kg.draw": "Draw the graph of a query: entities, relations, variables, negations, unions.",
        "kg.types": "List query types with their features and formulas.",
        "kg.info": "Show a graph's sizes, splits, duplicates, late entities, memory and relations.",
        "kg.answer": "Answer queries exactly, a file of them at a time.",
        "kg.sample": "Sample queries with exact answers to Parquet files.",
        "kg.convert": "Convert graphs and queries: BetaE, Query2box, +H, SQE, EFOK-CQA, TSV, N-Triples, samples.",
    }

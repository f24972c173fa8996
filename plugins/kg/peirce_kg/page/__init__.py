"""The page on which a model answers queries."""

from __future__ import annotations

from pathlib import Path

from peirce.compose import Session
from peirce.errors import InputError
from peirce.extras import require
from peirce_kg.encoding.writing import KINDS
from peirce_kg.exported import ExportedModel
from peirce_queries import Query, load_types, sample, select

EXAMPLES = ("1p", "2p", "2i", "pi", "2in", "2u")
"""The types that a page has a query of, where its graph has one."""
INPUTS = {"input_ids", "attention_mask", "token_kinds"}
"""What a page can tell a model."""


def write_query_page(path: Path, model: ExportedModel, query: Query, top: int, runtime: Path) -> None:
    """Write the page of a model: a query is typed, and it shows the best answers, and attention between its tokens.

    Args:
        path: the page, a file that ends in .html.
        model: the model, with vocabulary and graph.
        query: what the page begins with; a few others are sampled from the graph, as examples.
        top: how many answers it shows.
        runtime: as `peirce_show.pages.write_page` has it, which also says what is refused.

    Raises:
        TaskError: peirce-show is not installed.
        InputError: the model does not read queries as EFO text from the beginning, or does not rank all entities.
    """
    require("--page", "peirce_show", extra="show")
    from peirce_show.pages import write_page

    session, vocabulary, graph = model.session, model.vocabulary, model.graph
    assert isinstance(session, Session)
    scores, *ranked = model.outputs
    inputs = {spec.name for spec in session.signature.inputs}
    if vocabulary.syntax != "efo" or vocabulary.reversed_ or ranked or not inputs <= INPUTS:
        raise InputError(
            f"{session.path} cannot become a page: a page ranks all entities, and reads nothing but the EFO text of "
            "queries, from their beginning; train such a model, or leave --page out"
        )
    examples = sample(select(EXAMPLES, load_types()), graph, "train", 1, seed=0, leave_out=True)
    data = {
        "entities": vocabulary.entity_names,
        "relations": vocabulary.relation_names,
        "symbols": vocabulary.symbols,
        "kinds": KINDS,
        "free": vocabulary.free,
        "existentials": vocabulary.existentials,
        "first_entity": vocabulary.first_entity,
        "first_relation": vocabulary.first_relation,
        "longest": model.spec.input.max_length,
        "query": str(query),
        "examples": {each.type.name: str(each.query(0, graph)) for each in examples},
        "top": top,
        "scores": scores,
    }
    title = f"Ask {graph.name}"
    write_page(path, session, Path(__file__).parent, data, title=title, layer="Layer", runtime=runtime)

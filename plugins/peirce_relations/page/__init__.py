"""The page on which a model of relations answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peirce.commands import write_page
from peirce.compose import Session

from peirce_relations.encoding import Relations
from peirce_relations.serving import SCORES


def write_relations(
    path: Path, session: Session, relations: Relations, question: Mapping[str, Any], runtime: Path
) -> None:
    """Write the page of a model: facts and a pair are typed, and it shows graph, answers, all pairs, and attention.

    Args:
        path: the page, a file that ends in .html.
        session: the exported model.
        relations: what edges may be.
        question: the facts and the pair that the page begins with.
        runtime: as `peirce.commands.write_page` has it, which also says what is refused.
    """
    data = {"relations": relations.names, "kinds": relations.kinds, "scores": SCORES, **question}
    write_page(
        path,
        session,
        Path(__file__).parent,
        data,
        title="Which relation follows?",
        layer="Round",
        runtime=runtime,
    )

"""The plug-in of `peirce_logic`. Its parts, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.parts import Augmenter, Position


@hookimpl
def register_augmenters() -> list[type[Augmenter]]:
    """Logical projections of token embeddings."""
    from peirce_logic.logical import Logical

    return [Logical]


@hookimpl
def register_positions() -> list[type[Position]]:
    """Logical relations as initial binary atoms."""
    from peirce_logic.logic_relations import LogicRelations

    return [LogicRelations]


@hookimpl
def register_specs() -> list[Path]:
    """FOLNet that reads the logical relations of its text."""
    return [Path(__file__).parent / "specs"]


@hookimpl
def register_tasks() -> list[type[AnyTask]]:
    """Questions about a text, with options; and summaries."""
    from peirce_logic.choices.task import MultipleChoice
    from peirce_logic.summaries.task import Summarise

    return [MultipleChoice, Summarise]


@hookimpl
def register_commands() -> dict[str, str]:
    """Logical relations of texts."""
    return {"logic": "Find the logical relations of texts: keywords and the spans that they join."}


@hookimpl
def register_pipelines() -> dict[str, str]:
    """Questions with options, and texts to summarise; relations are found in front of the model."""
    return {
        "choose": "peirce_logic.serving:ChoicePipeline",
        "summarise": "peirce_logic.serving:SummaryPipeline",
    }


@hookimpl(optionalhook=True)
def register_views() -> dict[str, str]:
    """Logical relations in a text, with a model that reads them or without one."""
    return {"logic": "peirce_logic.views:Relations"}


@hookimpl
def register_parsers() -> dict[str, str]:
    """Constituents of sentences, by the parsers of others; `brackets` reads trees."""
    return {
        "brackets": "peirce_logic.parsers.brackets:Brackets",
        "spacy": "peirce_logic.parsers.spacy:Spacy",
        "benepar": "peirce_logic.parsers.benepar:Benepar",
    }

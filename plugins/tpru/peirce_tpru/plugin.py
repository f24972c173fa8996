"""The plug-in of `peirce_tpru`. Its parts, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.parts import Augmenter, Position, RecurrentOperator


@hookimpl
def register_augmenters() -> list[type[Augmenter]]:
    """Token embeddings as bindings of fillers and roles; vectors that come with a text."""
    from peirce_tpru.tpr import TensorProduct
    from peirce_tpru.word_vectors import WordVectors

    return [TensorProduct, WordVectors]


@hookimpl
def register_positions() -> list[type[Position]]:
    """Distances in the tree of brackets."""
    from peirce_tpru.brackets import Brackets

    return [Brackets]


@hookimpl
def register_operators() -> list[type[RecurrentOperator]]:
    """The recurrent unit."""
    from peirce_tpru.operators.tpru import TPRU

    return [TPRU]


@hookimpl
def register_tasks() -> list[type[AnyTask]]:
    """Logical entailment, and natural language inference."""
    from peirce_tpru.entailment.task import Entailment
    from peirce_tpru.nli.task import Nli

    return [Entailment, Nli]


@hookimpl
def register_pipelines() -> dict[str, str]:
    """Pairs of propositions that are decided."""
    return {"entails": "peirce_tpru.serving:EntailmentPipeline"}


@hookimpl(optionalhook=True)
def register_views() -> dict[str, str]:
    """The roles that tokens bind."""
    return {"roles": "peirce_tpru.roles:Roles"}


@hookimpl
def register_commands() -> dict[str, str]:
    """Models of published weights, and what a model binds."""
    return {
        "entailment": "Make pairs of propositions to learn entailment from.",
        "roles": "The older name of `peirce look`.",
        "senteval": "Measure a model's sentence vectors on the tasks of SentEval.",
        "import.tpru": "Import published weights of the recurrent unit TPRU.",
    }


@hookimpl
def register_specs() -> list[Path]:
    """Encoders of pairs of propositions and of sentences."""
    return [Path(__file__).parent / "specs"]

"""The plug-in of `peirce_papers`: every table and figure of a paper. Listing them imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.parts import PureOperator
    from peirce_training.experiments import Experiment


@hookimpl
def register_experiments() -> list[Experiment]:
    """TEGA's tables, logical entailment, logical Transformers, relations, reasoning on texts, and upgrades."""
    from peirce_papers.logic.arguments import ARGUMENTS
    from peirce_papers.logic.choices import TABLE2 as CHOICES
    from peirce_papers.logic.summaries import TABLE3 as SUMMARIES
    from peirce_papers.relations.experiments import EXPERIMENTS as RELATIONS
    from peirce_papers.tega.experiment import tega_experiments
    from peirce_papers.text.clutrr import CLUTRR
    from peirce_papers.text.folio import FOLIO
    from peirce_papers.tpru.entailment import TABLE1 as ENTAILMENT
    from peirce_papers.tpru.nli import TABLE2 as INFERENCE
    from peirce_papers.tpru.nli import TABLE3 as TRANSFER
    from peirce_papers.upgrade.experiment import RULES
    from peirce_papers.upgrade.kinship import KINSHIP

    return [
        *tega_experiments(),
        ENTAILMENT,
        INFERENCE,
        TRANSFER,
        CHOICES,
        SUMMARIES,
        ARGUMENTS,
        *RELATIONS,
        CLUTRR,
        FOLIO,
        RULES,
        KINSHIP,
    ]


@hookimpl
def register_operators() -> list[type[PureOperator]]:
    """A control of upgrades."""
    from peirce_papers.upgrade.adapter import Adapter

    return [Adapter]


@hookimpl
def register_parsers() -> dict[str, str]:
    """A grammar of the sentences that the experiment on arguments makes."""
    return {"clauses": "peirce_papers.logic.grammar:Clauses"}

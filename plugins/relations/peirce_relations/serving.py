"""A graph in words to an exported model, which names the relation of two of its nodes; without torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peirce.model import ASSETS, WEIGHTS, saved_files
from peirce.parts import Signature
from peirce_export import Field, Pipeline, Runner, Say
from peirce_relations.encoding import LABELS, Relations, read_facts

SCORES = "relation_logits"


class RelationPipeline(Pipeline):
    """The relation of two nodes of a graph."""

    question = (
        Field(name="facts", kind="text", meaning="The graph, such as `a NTPP b, b PO c`."),
        Field(name="pair", kind="text", many=True, meaning="The two nodes that are asked for."),
    )
    answer = (
        Field(name="relations", kind="text", many=True, meaning="The relations, the best first."),
        Field(name="scores", kind="float", many=True, meaning="Their scores, before a softmax."),
        Field(name="probabilities", kind="float", many=True, meaning="Their probabilities."),
    )

    @classmethod
    def answers(cls, signature: Signature, assets: Collection[str], generates: bool) -> bool:
        """Whether the relations have names, and the model reads edges and scores pairs."""
        return (
            LABELS in assets
            and any(spec.name == "edge_ids" for spec in signature.inputs)
            and any(spec.name == SCORES for spec in signature.outputs)
        )

    def __init__(self, folder: Path, model: Runner) -> None:
        self._model = model
        self._inputs = {spec.name for spec in model.signature.inputs}
        with saved_files(folder, without=(WEIGHTS,)) as files:
            where = str(folder / ASSETS / LABELS)
            self.relations = Relations.from_json(files.text(f"{ASSETS}/{LABELS}"), where)

    def labels(self) -> Mapping[str, Sequence[str]]:
        """The relations."""
        return {SCORES: self.relations.names}

    def example(self) -> Mapping[str, Any]:
        """One fact."""
        return {"facts": f"a {self.relations.names[0]} b", "pair": ["a", "b"]}

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Score the relations."""
        problem, _ = read_facts(question["facts"], question["pair"])
        arrays = self.relations.arrays([problem])
        feeds = {name: array for name, array in arrays.items() if name in self._inputs}
        scores = self._model.run(feeds, [SCORES])[SCORES][0, *problem.query].astype(np.float64)
        weights = np.exp(scores - scores.max())
        order = np.argsort(-scores, kind="stable")
        say({
            "relations": [self.relations.names[i] for i in order],
            "scores": scores[order].tolist(),
            "probabilities": (weights / weights.sum())[order].tolist(),
        })  # fmt: skip

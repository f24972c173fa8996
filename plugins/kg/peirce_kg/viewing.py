"""Queries as `peirce look` shows them, in the tokens that a model reads of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from peirce.errors import PeirceError, TaskError
from peirce.model import Model, saved_files
from peirce_kg.encoding.assets import TRIPLES, VOCABULARY, read_assets
from peirce_kg.encoding.inputs import query_inputs
from peirce_kg.parts.systems.literals import executor_of
from peirce_queries import read_query, to_ids
from peirce_show import Observe, View, Viewer


class Queries(Viewer):
    """One first-order query, in the syntax and the direction in which the model was trained."""

    @classmethod
    def shows(cls, model: Model, assets: Collection[str]) -> bool:
        """Whether the model has a vocabulary with its graph."""
        return {VOCABULARY, TRIPLES} <= set(assets)

    def view(self, texts: Sequence[str], observe: Observe) -> View:
        """What the model computes between the tokens of the query."""
        if len(texts) != 1:
            raise TaskError(f"{len(texts)} queries are given; give one")
        with saved_files(self.folder) as files:
            vocabulary, graph = read_assets(files)
        query, model = read_query(texts[0]), self.model
        names = [spec.name for spec in model.signature.inputs]
        try:
            asked = to_ids(query, graph)
            system = executor_of(type(model.network))
            inputs = query_inputs(*asked, vocabulary, names, model.spec, system)
        except PeirceError as error:
            raise TaskError(f"the model in {self.folder} cannot read {query}: {error}") from error
        ids = inputs["input_ids"][0].tolist() if "input_ids" in inputs else ()
        matrices = observe(model, inputs, vocabulary.decode(ids))
        return View(name=model.spec.name, text=str(query), matrices=matrices)

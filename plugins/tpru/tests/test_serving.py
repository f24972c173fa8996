"""Propositions to a served model: which models take them, and what is refused by name, in front and by `roles`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peirce.compose import build, load
from peirce.errors import TaskError
from peirce.registry import load_spec
from peirce_export import pipelines_for
from peirce_tpru.entailment.task import Entailment, EntailmentData, EntailmentOptions
from peirce_tpru.roles import Roles, RolesOptions
from peirce_tpru.serving import EntailmentPipeline

NO_PROPOSITIONS = {"hello": "'e' at character 2", "((p&q": r"2 bracket\(s\)", "(p+q)": r"'\+' at character 3"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    small = {"model.dims.unary": 8, "model.dims.embedding": 4, "model.operators.options.tpru.roles": 4}
    folder = tmp_path_factory.mktemp("entails") / "model"
    assets = Entailment(EntailmentOptions()).assets(EntailmentData({}))
    build(load_spec("pair-tpru", small), seed=0).save(folder, assets)
    return folder


class Says:
    """A model that says that a pair is entailed."""

    providers = ("numpy",)

    def __init__(self, folder: Path) -> None:
        self.signature = load(folder).signature

    def run(self, inputs: Mapping[str, Any], outputs: Any = None) -> dict[str, Any]:
        return {"matching_logits": np.array([[0.0, 1.0]], np.float32)}

    def generate(self, inputs: Mapping[str, Any], **settings: Any) -> Any:
        raise AssertionError


def test_it_stands_in_the_place_of_classify_and_refuses_what_is_no_proposition(saved: Path) -> None:
    model = Says(saved)
    assets = {"tokenizer.json", "labels.json"}
    assert pipelines_for(model.signature, assets, False) == {"entails": EntailmentPipeline}
    viewer = Roles(RolesOptions(), saved, load(saved))
    pipeline, said = EntailmentPipeline(saved, model), list[Mapping[str, Any]]()
    pipeline.ask(pipeline.example(), said.append)
    assert said[0]["classes"] == ["entails", "does not entail"]
    for text, why in NO_PROPOSITIONS.items():
        for question in ({"text": text, "pair": "p"}, {"text": "p", "pair": text}):
            with pytest.raises(TaskError, match=why):
                pipeline.ask(question, said.append)
        with pytest.raises(TaskError, match=why):
            viewer.read(["p", text])

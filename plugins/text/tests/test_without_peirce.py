"""The page "Texts without Peirce": its scripts give what Peirce gives, to the bit in Python."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from code_blocks import blocks, run_page
from served_models import CLASSIFIER, text_model
from shared_folder import ROOT

from peirce.compose import build
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_export import Session, export
from peirce_text.glue.task import Glue
from peirce_text.serving import PAIRS
from peirce_text.tabular.classify import Classify
from peirce_text.tabular.multilabel import MultiLabel
from peirce_text.tabular.predictor import LocalPredictor
from peirce_text.tabular.rank import Rank
from peirce_text.tabular.regress import Regress
from peirce_text.tabular.tag import Tag

PAGE = ROOT / "plugins" / "text" / "docs" / "without-peirce.md"
MODULES = os.environ.get("PEIRCE_NODE_MODULES", "")
"""Where npm installed what the script of the page imports; `tox -e javascript` sets it."""
TASKS: tuple[Any, ...] = (Classify, MultiLabel, Regress, Rank, Glue)
LONG = "the farmer feeds the cows at dawn, and then the café's queen signs 23 letters! "
TEXTS = ("the cows", LONG, LONG * 9, "[MASK] of   a\tcat's 中文", "")


def exported(task: Any, folder: Path, registry: Registry, **options: Any) -> Path:
    """A model of a task on its example, exported."""
    made = task(task.Options(**{**task.example_in(folder), **options}))
    data = made.prepare()
    spec = Spec.from_toml(CLASSIFIER.format(vocabulary=60)).replace(made.overrides(data))
    build(spec, registry=registry, seed=0).save(folder / "model", made.assets(data))
    export(folder / "model", path=folder / "model" / "model.onnx")
    return folder / "model"


def questions(found: LocalPredictor) -> list[tuple[str, ...]]:
    """Texts, and pairs where the model takes them."""
    scorer = found.scorer
    singles: list[tuple[str, ...]] = [] if scorer.scores.name == PAIRS else [(text,) for text in TEXTS]
    pairs: list[tuple[str, ...]] = [(one, other) for one in TEXTS for other in TEXTS if one != other]
    return singles + (pairs if "token_type_ids" in scorer.inputs else [])


@pytest.mark.parametrize("task", TASKS, ids=lambda each: each.name)
def test_a_text_has_the_scores_that_peirce_gives(task: Any, tmp_path: Path, registry: Registry) -> None:
    folder = exported(task, tmp_path, registry)
    scores_of = page_script(tmp_path)["scores_of"]
    with Session(folder / "model.onnx") as session:
        found = LocalPredictor(folder, session)
        for texts in questions(found):
            _, scores = scores_of(folder, *texts)
            assert (scores == found.score([[text] for text in texts], 1, np.asarray)[0]).all(), texts


def test_words_have_the_tags_that_peirce_gives(tmp_path: Path, registry: Registry) -> None:
    folder = exported(Tag, tmp_path, registry, length=32)
    words = ["the", "farmer's", "cow"]
    with Session(folder / "model.onnx") as session:
        found = LocalPredictor(folder, session)
        (wanted,) = found.score([[words]], 1, np.asarray)
        assert len(found.scorer.tokenizer.pieces(words[1])) > 1
    encoding, scores = page_script(tmp_path)["scores_of"](folder, words)
    first = [encoding.word_ids.index(i) for i in range(len(words))]
    assert (scores[first] == wanted).all()


def test_the_blocks_of_the_page_run(tmp_path: Path, registry: Registry) -> None:
    folder = text_model(CLASSIFIER, tmp_path / "kinds", registry)
    export(folder, path=folder / "model.onnx")
    _, scores = page_script(tmp_path)["scores_of"](folder, "The phone was broken.")
    classes = ["praise"] * len(scores)
    classes[scores.argmax()] = "complaint"
    (folder / "assets" / "labels.json").write_text(json.dumps({"classes": classes}), encoding="utf-8")
    assert run_page(PAGE, tmp_path) == 2


def page_script(folder: Path) -> dict[str, Any]:
    """What `ask.py` of the page defines."""
    (script,) = (block.code for block in blocks(PAGE) if block.file == "ask.py")
    (folder / "ask.py").write_text(script, encoding="utf-8")
    return runpy.run_path(str(folder / "ask.py"))


@pytest.mark.skipif(not MODULES, reason="npm's packages are not named: tox -e javascript installs them")
@pytest.mark.parametrize("task", TASKS, ids=lambda each: each.name)
def test_javascript_gives_the_same(task: Any, tmp_path: Path, registry: Registry) -> None:
    folder = exported(task, tmp_path, registry)
    (script,) = (block.code for block in blocks(PAGE) if block.language == "js")
    (tmp_path / "ask.mjs").write_text(script, encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(MODULES)
    scores_of = page_script(tmp_path)["scores_of"]
    with Session(folder / "model.onnx") as session:
        asked = questions(LocalPredictor(folder, session))
    for texts in asked[:9]:
        command = ["node", "ask.mjs", str(folder), *texts]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        encoding, scores = scores_of(folder, *texts)
        assert answer["input_ids"] == encoding.ids, texts
        assert answer["token_type_ids"] == encoding.type_ids, texts
        assert answer["scores"] == pytest.approx(scores.tolist(), abs=1e-4)

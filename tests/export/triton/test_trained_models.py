"""Models of the plug-ins that were trained, on the real server: it answers as the session does.

`tox -e serve` runs these; elsewhere they are skipped, since the server's package needs a numpy of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import peirce
import pytest
from peirce.model import Pipeline, Task
from peirce.registry import load_spec
from peirce.spec import Spec
from peirce.training import TrainingOptions, train
from peirce_logic.choices.task import MultipleChoice
from peirce_logic.serving import Chooses, Summarises
from peirce_logic.summaries.task import Summarise
from peirce_text.serving import Classifies
from peirce_tpru.entailment.task import Entailment
from served_models import BART, BERT, logical
from triton_server import INSTALLED, serving, texts

pytestmark = pytest.mark.skipif(
    not INSTALLED, reason="Triton Inference Server is not installed; `tox -e serve`"
)
TEXT = "We stay if it rains."


def trained(spec: Spec, task: type[Task], folder: Path, **more: Any) -> Path:
    """A model that was trained for a moment on the task's example."""
    folder.mkdir()
    own = task(task.Options(**{**task.example_in(folder), **more}))
    train(spec, own, TrainingOptions(steps=3), folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By name: one that decides entailment, one that answers questions, one that writes summaries."""
    folder = tmp_path_factory.mktemp("trained")
    pairs = load_spec("pair-tpru", {"model.dims.unary": 8, "model.operators.options.tpru.roles": 4})
    return {
        "pairs": trained(pairs, Entailment, folder / "pairs"),
        "chooser": trained(logical(BERT), MultipleChoice, folder / "questions", depth=2),
        "writer": trained(logical(BART), Summarise, folder / "dialogues", depth=2),
    }


@pytest.fixture(scope="module")
def client(models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("server")
    repository = folder / "repository"
    for name, model in models.items():
        given = {"name": name, "kind": "python", "generate": name == "writer"}
        peirce.export(model, path=repository, to="triton", **given)
    with serving(repository, folder / "server") as server, closing(server.client()) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "front", "pipeline", "question"),
    [
        ("pairs", "classify", Classifies, {"text": "(p&q)", "pair": "(p|q)"}),
        (
            "chooser",
            "choose",
            Chooses,
            {"context": TEXT, "question": "Who stays?", "options": ["We.", "It."]},
        ),
        ("writer", "summarise", Summarises, {"text": TEXT}),
    ],
)
def test_the_server_answers_as_the_session(
    name: str,
    front: str,
    pipeline: type[Pipeline],
    question: Mapping[str, Any],
    models: Mapping[str, Path],
    client: Any,
    tmp_path: Path,
) -> None:
    found = client.infer(f"{name}_{front}", texts(**question))
    peirce.export(models[name], path=tmp_path / "model.onnx", to="onnx", generate=name == "writer")
    said: list[Mapping[str, Any]] = []
    with peirce.Session(tmp_path / "model.onnx", providers=["CPUExecutionProvider"]) as session:
        pipeline(models[name], session).ask(question, said.append)
    for output, wanted in said[-1].items():
        answer = found.as_numpy(output).tolist()
        if output == "scores":
            assert answer == pytest.approx(wanted, abs=1e-6)
        else:
            assert [each.decode() for each in answer] == ([wanted] if isinstance(wanted, str) else wanted)

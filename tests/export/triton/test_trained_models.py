"""Models of the plug-ins that were trained by the command, on the real server: it answers as the session does.

`tox -e serve` runs these; elsewhere they are skipped, since the server's package needs a numpy of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import peirce
import pytest
from command_line import exit_code
from peirce.model import Answerer, Task
from peirce_logic.choices.task import MultipleChoice
from peirce_logic.serving import Chooses, Summarises
from peirce_logic.summaries.task import Summarise
from peirce_text.serving import Classifies
from peirce_tpru.entailment.task import Entailment
from triton_server import INSTALLED, serving, texts

pytestmark = pytest.mark.skipif(
    not INSTALLED, reason="Triton Inference Server is not installed; `tox -e serve`"
)
BERT = {
    "model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
    "max_position_embeddings": 64,
}  # fmt: skip
BART = {
    "model_type": "bart", "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "max_position_embeddings": 64,
    "decoder_start_token_id": 3,
}  # fmt: skip
LOGICAL = """
format = 1
[model]
name = "{name}"
architecture = "{architecture}"
dims = {{}}
augmenters = [{{ use = "logical", depth = 2 }}]
options.config = {{ {config} }}
"""
TEXT = "We stay if it rains."


def trained(spec: str, task: type[Task], folder: Path, *settings: str) -> Path:
    """A model that the command trained for a moment on the task's example."""
    folder.mkdir()
    options = {**task.example_in(folder), **dict(each.split("=", 1) for each in settings)}
    given = [f"{name}={value}" for name, value in options.items()]
    told = [part for each in (*given, "train.steps=3") for part in ("--set", each)]
    assert exit_code("train", spec, "--task", task.name, "-o", str(folder / "model"), *told) == 0
    return folder / "model"


def logical(name: str, architecture: str, config: Mapping[str, Any], folder: Path) -> str:
    own = ", ".join(f"{key} = {json.dumps(value)}" for key, value in config.items())
    file = folder / f"{name}.toml"
    file.write_text(LOGICAL.format(name=name, architecture=architecture, config=own), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By name: one that decides entailment, one that answers questions, one that writes summaries."""
    folder = tmp_path_factory.mktemp("trained")
    narrow = ("model.dims.unary=8", "model.operators.options.tpru.roles=4")
    return {
        "pair-tpru": trained("pair-tpru", Entailment, folder / "pairs", *narrow),
        "chooser": trained(
            logical("chooser", "pretrained", BERT, folder), MultipleChoice, folder / "questions", "depth=2"
        ),
        "writer": trained(
            logical("writer", "pretrained_encoder_decoder", BART, folder), Summarise, folder / "dialogues", "depth=2"
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def client(models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("server")
    repository = folder / "repository"
    for name, model in models.items():
        more = ["--generate"] if name == "writer" else []
        command = (
            "export",
            str(model),
            "--to",
            "triton",
            "-o",
            str(repository),
            "--set",
            "kind=python",
            *more,
        )
        assert exit_code(*command) == 0
    with serving(repository, folder / "server") as server, closing(server.client()) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "front", "answerer", "question"),
    [
        ("pair-tpru", "classify", Classifies, {"text": "(p&q)", "pair": "(p|q)"}),
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
    answerer: type[Answerer],
    question: Mapping[str, Any],
    models: Mapping[str, Path],
    client: Any,
    tmp_path: Path,
) -> None:
    found = client.infer(f"{name}_{front}", texts(**question))
    peirce.export(models[name], path=tmp_path / "model.onnx", to="onnx", generate=name == "writer")
    said: list[Mapping[str, Any]] = []
    with peirce.Session(tmp_path / "model.onnx", providers=["CPUExecutionProvider"]) as session:
        answerer(models[name], session).ask(question, said.append)
    for output, wanted in said[-1].items():
        answer = found.as_numpy(output).tolist()
        if output == "scores":
            assert answer == pytest.approx(wanted, abs=1e-6)
        else:
            assert [each.decode() for each in answer] == ([wanted] if isinstance(wanted, str) else wanted)

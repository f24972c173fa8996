"""`peirce experiments` with an experiment of a plug-in: what is listed, and what it is asked for."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from peirce.errors import TaskError
from peirce.registry import VARIABLE
from peirce_training.experiments.cli import app, read_seeds

PLUGIN = """
from attrs import asdict, frozen
from peirce import hookimpl
from peirce_training.experiments import Experiment, ExperimentReport

@frozen(kw_only=True, eq=False)
class Told(Experiment):
    def run(self, request, console):
        facts = [request.data, request.scale, str(request.directory), request.command]
        figures = [{"rows": request.rows, "seeds": request.seeds, "settings": request.settings}]
        return ExperimentReport(figures=figures, facts=facts, files=[request.directory / "t.md"], shown="a table")

@hookimpl
def register_experiments():
    return [Told(name="told", title="What is asked", rows=("a", "b"), more=("c",), columns=("x",),
                 published=("paper",), scales={"little": "not much", "large": "more"}, folder="runs/told")]
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only plug-in."""
    (tmp_path / "told_lab.py").write_text(PLUGIN)
    (tmp_path / "own.toml").write_text('format = 1\ndefault = "off"\nmodules = ["told_lab"]\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "own.toml"))
    monkeypatch.setattr(sys, "argv", ["peirce", "experiments", "run", "told", "two words"])


@pytest.mark.usefixtures("told")
def test_what_is_listed() -> None:
    listed = json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)
    assert listed["schema"] == "peirce.experiments/1"
    assert listed["experiments"] == [
        {
            "name": "told",
            "title": "What is asked",
            "rows": ["a", "b", "c"],
            "columns": ["x"],
            "paper": ["paper"],
            "scales": ["little", "large"],
        }
    ]
    assert listed["scales"] == [
        {"name": "little", "about": "not much", "of": ["told"]},
        {"name": "large", "about": "more", "of": ["told"]},
    ]
    shown = CliRunner().invoke(app, ["list"]).stdout
    assert all(words in shown for words in ("told", "What is asked", "little, large"))
    assert re.search(r"(?m)^ little +told +not much *$", shown)


@pytest.mark.usefixtures("told")
def test_what_an_experiment_is_asked_for() -> None:
    done = CliRunner().invoke(app, ["run", "told", "--data", "folder", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    command = shlex.join(["peirce", *sys.argv[1:]])
    assert found["facts"] == ["folder", "little", str(Path("runs/told")), command]
    assert found["figures"] == [{"rows": [], "seeds": [0, 1, 2], "settings": {}}]
    assert found["files"] == [str(Path("runs/told/t.md"))]
    options = ["--graph", "umls", "--scale", "large", "-o", "out", "--row", "c", "--seeds", "5"]
    done = CliRunner().invoke(app, ["run", "told", *options, "--set", "train.steps=3", "--json"])
    found = json.loads(done.stdout)
    assert found["facts"][:3] == ["umls", "large", "out"]
    assert found["figures"] == [{"rows": ["c"], "seeds": [5], "settings": {"train.steps": 3}}]
    assert "a table" in CliRunner().invoke(app, ["run", "told", "--data", "folder"]).stdout


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tolld"], "unknown experiment 'tolld'. Did you mean 'told'"),
        (["told", "--scale", "small"], "unknown scale 'small'.*little"),
        (["told", "--row", "d"], "--row: unknown row 'd'.*c"),
    ],
)
def test_mistakes(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["run", *arguments, "--data", "folder"])
    assert isinstance(done.exception, TaskError)
    with pytest.raises(TaskError, match=words):
        raise done.exception


def test_seeds() -> None:
    assert read_seeds("3,0, 7") == (3, 0, 7)
    for text in ("1,x", "1,01", "-1,1", "", "1,,2"):
        with pytest.raises(
            TaskError, match=f"--seeds {text}: give whole numbers from 0 on .*, each once: 0,1,2"
        ):
            read_seeds(text)

"""What the conformance suite cannot know: lines become a model, the model a file, the file answers without torch."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import peirce
from peirce import ExportError, TaskError
from peirce_averages.lines import LabelledLines, LabelledLinesOptions
from peirce_training import TrainingOptions, train

SPEC = """
format = 1
[model]
name = "opinions"
architecture = "averages"
dims = { layers = 1, unary = 16 }
regularisation = { dropout = 0.1 }
"""
GOOD, BAD = ("good", "fine", "great"), ("poor", "dull", "awful")
OTHERS = ("the", "film", "was", "long", "and", "shown", "twice")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of which one word tells the label."""
    folder, drawn = tmp_path_factory.mktemp("lines"), random.Random(0)
    for split, count in (("train", 200), ("valid", 50), ("test", 50)):
        with (folder / f"{split}.tsv").open("w") as file:
            for _ in range(count):
                label, words = drawn.choice((("up", GOOD), ("down", BAD)))
                text = [*drawn.sample(OTHERS, 4), drawn.choice(words)]
                drawn.shuffle(text)
                file.write(f"{label}\t{' '.join(text)}\n")
    return folder


@pytest.fixture(scope="module")
def folder(lines: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model's folder."""
    task = LabelledLines(LabelledLinesOptions(folder=str(lines)))
    folder = tmp_path_factory.mktemp("opinions")
    result = train(peirce.Spec.from_toml(SPEC), task, TrainingOptions(steps=120, lr=0.02), folder)
    assert result.metrics["accuracy"] == 1.0
    return folder


@pytest.fixture
def trained(folder: Path) -> peirce.Model:
    return peirce.load(folder).eval()


def test_a_file_answers_without_torch(folder: Path, trained: peirce.Model, tmp_path: Path) -> None:
    path = tmp_path / "opinions.npz"
    assert peirce.export(trained, path=path, to="arrays").passed
    words = json.loads((folder / "assets" / "vocabulary.json").read_text())["words"]
    ids = [
        [words.index(word) for word in text.split()] for text in ("the film was great", "the film was dull")
    ]
    done = subprocess.run(
        [sys.executable, "-c", ANSWER, str(path), json.dumps(ids)], capture_output=True, text=True, check=True
    )
    scores = np.array(json.loads(done.stdout))
    assert scores.argmax(1).tolist() == [1, 0]  # labels are sorted: down, up
    wanted = trained(input_ids=torch.tensor(ids))["classification_logits"].detach().numpy()
    np.testing.assert_allclose(scores, wanted, atol=1e-5)


ANSWER = """
import json, sys
sys.modules["torch"] = None    # an import of torch fails
import numpy as np, peirce
with peirce.Session(sys.argv[1]) as session:
    scores = session.run({"input_ids": np.array(json.loads(sys.argv[2]))}, outputs=["classification_logits"])
print(json.dumps(scores["classification_logits"].tolist()))
"""


def test_the_order_of_words_changes_nothing(trained: peirce.Model) -> None:
    ids = torch.tensor([[4, 5, 6, 7]])
    torch.testing.assert_close(trained(input_ids=ids)["pooled"], trained(input_ids=ids.flip(1))["pooled"])


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    spec = peirce.Spec.from_toml(
        SPEC.replace("averages", "transformer").replace("unary = 16", "unary = 16, heads = 2")
    )
    model = peirce.build(spec.replace({"model.input.vocabulary": 9}))
    with pytest.raises(ExportError, match="'transformer' with no head; use --to onnx"):
        peirce.export(model, path=tmp_path / "model.npz", to="arrays")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("split", "line", "said"),
    [
        ("train", "no tab", "train.tsv:1: 'no tab' is not a label, a tab and a text"),
        (
            "valid",
            "odd\ttext",
            "valid.tsv has the label 'odd', which no line of train.tsv has; there are down, up",
        ),
        ("test", None, "test.tsv cannot be read: No such file or directory"),
    ],
)
def test_lines_that_cannot_be_read_are_named(
    lines: Path, tmp_path: Path, split: str, line: str | None, said: str
) -> None:
    for path in lines.iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    if line is None:
        (tmp_path / f"{split}.tsv").unlink()
    else:
        (tmp_path / f"{split}.tsv").write_text(line + "\n")
    with pytest.raises(TaskError, match=re.escape(said)):
        LabelledLines(LabelledLinesOptions(folder=str(tmp_path))).prepare()

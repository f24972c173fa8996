"""What Peirce does without torch: exported files and exact queries, in clean environments of less than 400 MB each.

`tox -e no-torch` runs this. The environment of tox has torch and exports a classifier and a writer of texts. A clean
one with the core, the exporter with ONNX Runtime and texts works on those files; another, with queries, on a graph.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from served_models import CLASSIFIER, TEXTS, WRITER, text_model
from wheels import CONSTRAINTS, install

from peirce.registry import default_registry

FILES = ("peirce-core", "peirce-export[run]", "peirce-text")
QUERIES = ("peirce-core", "peirce-queries[parquet]")
LIMIT = 400
"""MB that either may take, with all that they require."""
TRIPLES = "ann\tmother_of\tlil\nlil\tmother_of\tbob\nbob\tbrother_of\ttim\nann\tlives_in\trome\n"


def export_models(folder: Path) -> None:
    """Export a classifier and a writer of texts, and write the files that they are tried on."""
    registry = default_registry()
    text_model(CLASSIFIER, folder / "weather", registry)
    text_model(WRITER, folder / "novelist", registry)
    for name, options in (("weather", ()), ("novelist", ("--set", "generate=true"))):
        command(sys.executable, folder, "export", name, "--to", "onnx", "-o", f"{name}/model.onnx", *options)
    np.savez(folder / "inputs.npz", input_ids=np.array([[5, 6, 7]]))
    (folder / "texts.csv").write_text("\n".join(["text", *TEXTS]) + "\n", encoding="utf-8")
    graph = folder / "family"
    graph.mkdir()
    for split in ("train", "valid", "test"):
        (graph / f"{split}.tsv").write_text(TRIPLES if split == "train" else "", encoding="utf-8")
    query = {"formula": "r1(s1,f)", "grounding": {"r1": "mother_of", "s1": "ann"}}
    (folder / "queries.jsonl").write_text(json.dumps(query) + "\n", encoding="utf-8")


def try_files(python: str, folder: Path) -> None:
    """Run exported files, and see that training says which line installs what it needs.

    Raises:
        AssertionError: a command does not do what it should.
    """
    command(python, folder, "run", "weather/model.onnx", "--inputs", "inputs.npz", "-o", "outputs.npz")
    assert "classification_logits" in np.load(folder / "outputs.npz")
    command(python, folder, "verify", "weather/model.onnx", "--alone")
    command(python, folder, "predict", "weather/model.onnx", "texts.csv", "-o", "predicted.csv")
    assert len((folder / "predicted.csv").read_text(encoding="utf-8").splitlines()) == len(TEXTS) + 1
    assert command(python, folder, "generate", "novelist/model.onnx", "the sea", "--max-new", "4").strip()
    refused = command(python, folder, "train", "weather", fails=True)
    assert "pip install" in refused, refused
    print(refused.strip())


def try_queries(python: str, folder: Path) -> None:
    """Answer, sample and convert queries of a graph exactly.

    Raises:
        AssertionError: a command does not do what it should.
    """
    graph = ("--graph", "family")
    command(python, folder, "kg", "answer", *graph, "--queries", "queries.jsonl", "-o", "answers.jsonl")
    assert json.loads((folder / "answers.jsonl").read_text(encoding="utf-8"))["answers"] == ["lil"]
    assert "lil" in command(python, folder, "ask", "mother_of(ann,f)", *graph)
    command(python, folder, "kg", "sample", *graph, "--types", "1p,2p", "--count", "1", "-o", "sampled")
    command(python, folder, "kg", "convert", "sampled", *graph, "-o", "converted", "--to", "nt")


def command(python: str, folder: Path, *arguments: str, fails: bool = False) -> str:
    """What `peirce ARGUMENTS` prints in a folder."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PEIRCE_", "PYTHONPATH"))
    }
    words = [python, "-P", "-m", "peirce", *arguments]
    done = subprocess.run(words, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) is fails, f"peirce {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def size(folder: Path) -> float:
    """The MB that a folder's files take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def environment(folder: Path, requirements: Sequence[str]) -> str:
    """A virtual environment with wheels; its interpreter.

    Raises:
        AssertionError: torch is in it, or it is larger than `LIMIT`.
    """
    venv.create(folder)
    python = str(folder / "bin" / "python")
    install(python, Path(sys.prefix) / "wheels" / CONSTRAINTS, requirements)
    (site,) = (folder / "lib").glob("python*/site-packages")
    assert not (site / "torch").exists(), "torch is installed"
    taken = size(site)
    assert taken < LIMIT, f"{' '.join(requirements)} take {taken:.0f} MB, more than {LIMIT}"
    print(f"pip install {' '.join(requirements)}: {taken:.0f} MB without torch", flush=True)
    return python


def main() -> None:
    with TemporaryDirectory(prefix="peirce-no-torch-") as name:
        folder = Path(name)
        export_models(folder)
        try_files(environment(folder / "files", FILES), folder)
        try_queries(environment(folder / "queries", QUERIES), folder)


if __name__ == "__main__":
    main()

"""Somebody else's format: an exporter and a runtime of one small distribution, from the command line and Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from small_specs import TRANSFORMER

from peirce import build

PLUGIN = '''
from __future__ import annotations
from pathlib import Path
import numpy as np
from attrs import frozen
from peirce import ExportError, hookimpl
from peirce.model import Exporter, Report


@frozen(kw_only=True)
class VectorOptions:
    """Options of the vectors.

    Args:
        factor: what vectors are multiplied by.
        title: what the file calls itself.
        keep: the tokens that keep their vectors; empty for all.
        flip: whether signs change.
        bare: whether a report is left out.
    """

    factor: float = 1.0
    title: str = ""
    keep: tuple[int, ...] = ()
    flip: bool = False
    bare: bool = False


class Vectors(Exporter):
    """The vectors of words alone."""

    name = "vectors"
    Options = VectorOptions

    def export(self, model, path):
        """Write them."""
        words = model.network.input.embedding.weight.detach().numpy() * self.options.factor
        words = -words if self.options.flip else words
        if self.options.keep:
            words[[i for i in range(len(words)) if i not in self.options.keep]] = 0
        with path.open("wb") as file:
            np.savez(file, words=words)
        passed = self.options.factor == 1
        report = Report(file=path, passed=passed, notes=(f"{words.shape[0]} words: {self.options.title!r}.",))
        return None if self.options.bare else report


@hookimpl
def register_exporters():
    """The exporter."""
    return [Vectors]


@hookimpl
def register_runtimes():
    """What opens its files."""
    return {".vectors": "vectors_runtime:VectorRuntime"}
'''
RUNTIME = """
import numpy as np
from peirce.model import Report
from peirce_export import LoadedModel, Runtime
from peirce.parts import Signature, TensorSpec


class OpenVectors(LoadedModel):
    providers = ("numpy",)

    def __init__(self, path):
        with np.load(path) as arrays:
            self.words = arrays["words"]
        row, count = ("batch", "length"), len(self.words)
        self.signature = Signature(
            [TensorSpec(name="ids", dtype="int64", dims=row, high=count)],
            [TensorSpec(name="vectors", dtype="float", dims=(*row, self.words.shape[1]))],
        )

    def dtype(self, name):
        return np.dtype(np.int64 if name == "ids" else np.float32)

    def run(self, feeds, outputs):
        return [self.words[feeds["ids"]] for _ in outputs]

    def close(self):
        del self.words


class VectorRuntime(Runtime):
    def open(self, path, providers, threads):
        return OpenVectors(path)

    def verify(self, path, model, *, seed=0, providers=None, progress=None):
        words = model.network.input.embedding.weight.detach().numpy()
        return Report(file=path, passed=bool((OpenVectors(path).words == words).all()))
"""
ENTRIES = """
[peirce.plugins]
vectors = vectors_plugin
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the import path with the distribution, and a saved model in it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "vectors_plugin.py").write_text(PLUGIN)
    (folder / "vectors_runtime.py").write_text(RUNTIME)
    info = folder / "vectors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vectors\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    build(TRANSFORMER.replace({"model.dims.layers": 1}), seed=1).save(folder / "model")
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-P", *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "200"}, timeout=600,
    )  # fmt: skip


SEVERAL = """
import contextlib, io, json, sys
from peirce.commands.main import main
results = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as exited:
            results.append((exited.code or 0, out.getvalue(), err.getvalue()))
print(json.dumps(results))
"""


def several(folder: Path, *lines: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """The exit code, the output and the errors of commands that one process runs, one after the other."""
    done = python(folder, "-c", SEVERAL, json.dumps(lines))
    assert done.returncode == 0, done.stderr
    return [
        (code, " ".join(out.split()), " ".join(err.split())) for code, out, err in json.loads(done.stdout)
    ]


def test_its_options_and_its_report_are_the_commands(folder: Path) -> None:
    export = ("export", "--to", "vectors", "model", "-o")
    other = folder / "other.vector"
    other.write_text("")
    lines: dict[tuple[str, ...], tuple[int, str]] = {
        (*export, "out.vectors", "--title", "007"): (0, "words: '007'."),  # a text stays one
        (*export, "out.vectors", "--factor=2", "--json"): (1, '"schema": "peirce.report/1"'),
        (*export, "kept.vectors", "--keep", "[1, 2]", "--flip", "--set", "factor=1.0"): (
            0,
            "kept.vectors: ok",
        ),
        (*export, "m.vectors", "--opset", "18"): (2, "No such option: --opset"),
        (*export, "m.vectors", "--facto", "2"): (2, "Possible options: --factor"),
        (*export, "m.vectors", "--set", "facto=2"): (2, "Did you mean 'factor'"),
        (*export, "m.vectors", "--factor", "many"): (2, "Invalid value for '--factor'"),
        (*export, "m.vectors", "--bare"): (2, "wrote m.vectors and returned a NoneType; it must return"),
        ("verify", "other.vector", "--model", "model"): (
            2,
            "no runtime opens .vector files: unknown runtime 'vector'. Did you mean 'vectors'",
        ),
        ("export", "--to", "vectors", "--help"): (
            0,
            "--flip / --no-flip whether signs change. [default: False]",
        ),
    }
    for line, (code, out, error) in zip(lines, several(folder, *lines), strict=True):
        assert (code, lines[line][1] in (error if code == 2 else out)) == (lines[line][0], True), (
            line,
            out,
            error,
        )
    with np.load(folder / "kept.vectors") as arrays:
        assert np.flatnonzero(arrays["words"].any(1)).tolist() == [1, 2]


def test_its_runtime_runs_and_verifies(folder: Path) -> None:
    export = ("export", "model", "--to", "vectors", "-o")
    results = several(
        folder,
        (*export, "model/words.vectors"),
        ("verify", "model/words.vectors"),
        (*export, "f.vectors", "--flip"),
        ("verify", "f.vectors", "--model", "model"),
    )
    assert [code for code, *_ in results] == [0, 0, 0, 1]
    script = """
        import sys
        import peirce
        with peirce.Session("model/words.vectors") as session:
            print(session.run({"ids": [[1, 2, 3]]})["vectors"].shape, session.providers, "torch" in sys.modules)
            for wrong in (lambda: session.run({"ids": [[1, 2000]]}), lambda: session.generate({"ids": [[1]]})):
                try:
                    wrong()
                except peirce.InputError as error:
                    print(error)
    """
    done = python(folder, "-c", textwrap.dedent(script))
    assert done.returncode == 0, done.stderr
    assert "(1, 3, 24) ('numpy',) False" in done.stdout
    assert "input 'ids' contains 2000" in done.stdout
    assert "does not generate" in done.stdout

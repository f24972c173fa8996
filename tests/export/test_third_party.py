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
from peirce import build
from small_specs import TRANSFORMER

PLUGIN = '''
from __future__ import annotations
from pathlib import Path
import numpy as np
from attrs import frozen
from peirce import ExportError, hookimpl
from peirce.model import Exporter, LoadedModel, Report, Runtime
from peirce.parts import Signature, TensorSpec


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
'''
RUNTIME = """
import numpy as np
from peirce.model import LoadedModel, Report, Runtime
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
[peirce.runtimes]
vectors = vectors_runtime:VectorRuntime
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


def peirce(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "peirce", *arguments)


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


def test_help_shows_the_exporters_own_options(folder: Path) -> None:
    printed = " ".join(peirce(folder, "export", "--to", "vectors", "--help").stdout.split())
    for words in (
        "--factor <float> what vectors are multiplied by. [default: 1.0]",
        "--title <str> what the file calls itself.",
        "--keep <str> the tokens that keep their vectors; empty for all.",
        "--flip / --no-flip whether signs change. [default: False]",
    ):
        assert words in printed
    assert "--opset" not in printed


def test_its_report_is_printed_and_decides_the_exit_code(folder: Path) -> None:
    export = ("export", "model", "--to", "vectors", "-o", "out.vectors", "--title", "007")
    (good, shown, _), (bad, json_, _) = several(folder, export, (*export, "--factor=2", "--json"))
    assert good == 0
    assert "out.vectors: ok" in shown
    assert "words: '007'." in shown  # a text stays one
    assert bad == 1
    assert '"passed": false' in json_
    assert '"schema": "peirce.report/1"' in json_


def test_options_of_any_type_and_wrong_ones(folder: Path) -> None:
    export = ("export", "--to", "vectors", "model", "-o", "kept.vectors")
    wrong = {
        ("--opset", "18"): "unknown option '--opset' of exporter 'vectors'. Known: --bare",
        ("--facto", "2"): "Did you mean '--factor'",
        ("--set", "facto=2"): "Did you mean 'factor'",
        ("--factor", "many"): "Invalid value for '--factor'",
        ("--bare",): "exporter 'vectors' wrote kept.vectors and returned a NoneType; it must return",
    }
    good = (*export, "--keep", "[1, 2]", "--flip", "--set", "factor=1.0")
    (code, _, error), *refused = several(folder, good, *((*export, *options) for options in wrong))
    assert code == 0, error
    for (code, _, error), words in zip(refused, wrong.values(), strict=True):
        assert code == 2
        assert words in error


def test_an_option_of_many_values_is_toml(folder: Path) -> None:
    line = ("export", "model", "--to", "vectors", "-o", "two.vectors", "--keep", "[1, 2]")
    assert [code for code, *_ in several(folder, line)] == [0]
    with np.load(folder / "two.vectors") as arrays:
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
    assert "input 'ids' holds 2000" in done.stdout
    assert "does not generate" in done.stdout


def test_a_suffix_that_nobody_runs_is_named(folder: Path) -> None:
    (folder / "other.vector").write_text("")
    [(code, _, error)] = several(folder, ("verify", "other.vector", "--model", "model"))
    assert code == 2
    assert "unknown suffix 'vector' of a file to run. Did you mean 'vectors'" in error

"""`peirce serve`: what is missing is said with what to run; the server itself is asked by `tox -e serve`."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from command_line import exit_code

from peirce.errors import UnavailableError
from peirce_export.triton import server

PORTS = dict.fromkeys(server.KINDS, 1)


def test_what_is_missing_is_said_with_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("serve", tmp_path / "nowhere") == 2
    assert "peirce export MODEL --to triton --kind python -o" in capsys.readouterr().err
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"run `python -m pip install --no-deps nvidia-pytriton`"):
        server.server_command(tmp_path, tmp_path, PORTS, None)
    found = ModuleSpec("pytriton", None, origin=str(tmp_path / "pytriton" / "__init__.py"))
    monkeypatch.setattr(server, "find_spec", lambda name: found)
    stubs = tmp_path / "pytriton" / "tritonserver" / "python_backend_stubs"
    (stubs / "3.8").mkdir(parents=True)
    with pytest.raises(UnavailableError, match=r"does not support Python .*; it supports 3.8"):
        server.server_command(tmp_path, tmp_path, PORTS, None)
    (stubs / "{}.{}".format(*sys.version_info)).mkdir()
    (stubs / "{}.{}".format(*sys.version_info) / "triton_python_backend_stub").touch()
    for numpy, why in ((None, "--numpy is not given"), (tmp_path, "does not contain it")):
        with pytest.raises(UnavailableError, match=rf"{why}; run `python -m pip install .* numpy==1"):
            server.server_command(tmp_path, tmp_path, PORTS, numpy)

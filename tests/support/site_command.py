"""The `peirce` command in this process, beside distributions that lie in tests/fixtures/site as pip installs them."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest
from command_line import Run, without_registry_file
from shared_folder import ROOT

from peirce.commands.main import main
from peirce.registry import default_catalogue, default_registry

SITE = ROOT / "tests" / "fixtures" / "site"
PLUGINS = {"good": "extra", "fails": "parts", "misspells": "parts", "takes": "parts", "twin": "extra"}


@pytest.fixture
def site() -> Path:
    """The folder of the throw-away distributions."""
    return SITE


@pytest.fixture
def peirce(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Run:
    """Run `peirce ARGUMENTS` in an empty folder; `beside` names the throw-away distributions that are switched on."""
    folder = without_registry_file(tmp_path / "work")
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(SITE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PEIRCE_")}
    kept |= {"COLUMNS": "200", "PYTHONPATH": str(SITE)}

    def run(*arguments: str, beside: tuple[str, ...] | None = (), **variables: str) -> CompletedProcess[str]:
        if beside is not None and "PEIRCE_REGISTRY" not in variables and not Path("registry.toml").exists():
            file = tmp_path / "these.toml"
            off = [f'"peirce-{name}:{PLUGINS[name]}" = "off"' for name in PLUGINS if name not in beside]
            file.write_text("\n".join(["format = 1", "[plugins]", *off]), encoding="utf-8")
            variables = {"PEIRCE_REGISTRY": str(file), **variables}
        for cache in (default_registry, default_catalogue):
            cache.cache_clear()
        caplog.clear()
        with (
            patch.dict(os.environ, {**kept, **variables}, clear=True),
            caplog.at_level(logging.WARNING),
            pytest.raises(SystemExit) as ended,
        ):
            main(arguments)
        for cache in (default_registry, default_catalogue):
            cache.cache_clear()
        out, err = capsys.readouterr()
        return CompletedProcess(
            arguments, int(ended.value.code or 0), out, "\n".join([err, *caplog.messages])
        )

    return run

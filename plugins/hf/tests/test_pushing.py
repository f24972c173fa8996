"""`peirce push`: what would go up, read as the hub reads it, and what goes up by the hub's own uploader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code
from small_specs import TRANSFORMER

import peirce

FILES = ["README.md", "assets/labels.txt", "provenance.json", "spec.toml", "weights.safetensors"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = peirce.build(TRANSFORMER.replace({"model.dims.layers": 1, "model.input.vocabulary": 20}), seed=0)
    model.save(tmp_path / "model", {"labels.txt": b"wet\ndry\n"})
    (tmp_path / "model" / "notes.txt").write_text("stays here")
    return tmp_path / "model"


def test_a_dry_run_shows_the_models_files_and_the_hub_reads_the_card(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    assert exit_code("push", saved, "owner/model", "--dry-run", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["url"] is None
    assert shown["files"] == {name: (saved / name).stat().st_size for name in shown["files"]}
    assert sorted(shown["files"]) == FILES
    data = hub.ModelCard.load(saved / "README.md").data
    assert data.library_name == "peirce"
    assert {"peirce", "transformer"} <= set(data.tags)
    assert exit_code("push", saved, "owner/model", "--dry-run") == 0
    assert "nothing was uploaded" in capsys.readouterr().out
    assert exit_code("push", saved, "owner/a/b", "--dry-run") == 2
    assert "does not name a repository of the hub" in capsys.readouterr().err
    (saved / "assets" / "labels.txt").write_text("dry")
    assert exit_code("push", saved, "owner/model", "--dry-run") == 2
    assert "not what was saved" in capsys.readouterr().err


def test_the_hubs_uploader_gets_the_same_files_and_its_refusal_is_told(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    given: dict[str, bytes] = {}

    def commit(api: Any, name: str, operations: Any, **more: Any) -> Any:
        given.update({each.path_in_repo: Path(each.path_or_fileobj).read_bytes() for each in operations})
        raise ConnectionError("no network.\nMore.")

    monkeypatch.setattr(hub.HfApi, "create_repo", lambda *given, **more: None)
    monkeypatch.setattr(hub.HfApi, "create_commit", commit)
    assert exit_code("push", saved, "owner/model") == 2
    assert (
        "cannot be uploaded to owner/model: no network; log in with `hf auth login`"
        in capsys.readouterr().err
    )
    assert given == {name: (saved / name).read_bytes() for name in FILES}

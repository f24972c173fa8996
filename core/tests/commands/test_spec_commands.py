"""`peirce spec` and `peirce summary`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_specs import FOLNET
from typer.testing import CliRunner, Result

from peirce.commands.main import command_line
from peirce.errors import SpecError
from peirce.registry import ready_specs


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(FOLNET.to_toml())
    return str(path)


def peirce(*arguments: str) -> Result:
    return CliRunner().invoke(command_line(), arguments)


def read(result: Result) -> dict[str, Any]:
    return json.loads(result.stdout)


def test_the_ready_specs_are_listed() -> None:
    listed = {spec["name"]: spec["summary"] for spec in read(peirce("spec", "list", "--json"))["specs"]}
    assert list(listed) == list(ready_specs())
    assert "Table 3, line 13" in listed["folnet-base"]
    assert all(listed.values())
    shown = peirce("spec", "list")
    assert shown.exit_code == 0
    assert "folnet-base" in shown.stdout


def test_a_good_spec_is_ok(small: str) -> None:
    result = peirce("spec", "check", small)
    assert (result.exit_code, result.stdout) == (0, f"OK: {small} (small-folnet, folnet)\n")
    assert read(peirce("spec", "check", small, "--json"))["ok"] is True


def test_what_only_the_composer_sees_is_found_too(small: str) -> None:
    text = FOLNET.replace({"model.operators.layer": "ja.p"}).to_toml()
    Path(small).write_text(text)
    line = 1 + text.splitlines().index('layer = "ja.p"')
    result = peirce("spec", "check", small)
    assert isinstance(result.exception, SpecError)
    assert f"{small}:{line}: 'a' (assoc) stands on the wrong side" in str(result.exception)
    result = peirce("spec", "check", small, "--json")
    assert result.exit_code == 2
    assert read(result)["ok"] is False
    assert "wrong side" in read(result)["error"]


def test_a_value_can_be_set_first(small: str) -> None:
    assert peirce("spec", "check", small, "--set", 'model.operators.layer="j.a"').exit_code == 0
    result = peirce("spec", "check", small, "--set", "model.dims.layer=3")
    assert "Did you mean 'layers'" in str(result.exception)


def test_a_summary_says_what_does_not_fit_into_memory(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = read(peirce("summary", small, "--json"))["parameter_bytes"]
    for memory, said in (
        (needed - 1, "the parameters alone do not fit"),
        (2 * needed, "a training, which keeps"),
    ):
        monkeypatch.setattr("peirce.commands.spec.machine_memory", lambda memory=memory: memory)
        assert said in peirce("summary", small).stdout


def test_a_recipe_is_no_spec(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('format = 1\ntask = "glue"\n')
    found = peirce("spec", "check", str(tmp_path / "recipe.toml"))
    assert "is a recipe, not a spec: `peirce finetune --recipe` takes" in str(found.exception)


def test_a_summary_shows_the_plan_and_the_work(small: str) -> None:
    result = peirce("summary", small, "--batch", "2", "--length", "8")
    assert result.exit_code == 0
    for text in ("U <- B x U", "U: h=3 s=4", "mlm_logits", "position distance", "batch 2, length 8"):
        assert text in result.stdout
    assert read(peirce("summary", small, "--json"))["schema"] == "peirce.summary/2"

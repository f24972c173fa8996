"""`peirce spec` and `peirce summary`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peirce.cli import application
from peirce.errors import SpecError
from peirce.resources import packaged_specs
from typer.testing import CliRunner, Result

SMALL = """\
format = 1
extend = "folnet-base"
[model]
name = "small"
[model.dims]
layers = 2
unary = 16
binary = 4
heads = 2
head_size = 8
[model.input]
vocabulary = 32
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def peirce(*arguments: str) -> Result:
    return CliRunner().invoke(application(), arguments)


def read(result: Result) -> dict[str, Any]:
    return json.loads(result.stdout)


def test_the_schema_is_printed_as_json() -> None:
    result = peirce("spec", "schema")
    assert result.exit_code == 0
    assert read(result)["$schema"].endswith("2020-12/schema")


def test_the_ready_specs_are_listed() -> None:
    listed = {spec["name"]: spec["summary"] for spec in read(peirce("spec", "list", "--json"))["specs"]}
    assert list(listed) == sorted(path.stem for path in packaged_specs().glob("*.toml"))
    assert "Table 3, line 13" in listed["folnet-base"]
    assert all(listed.values())
    shown = peirce("spec", "list")
    assert shown.exit_code == 0
    assert "transformer-relative" in shown.stdout


def test_a_good_spec_is_ok(small: str) -> None:
    result = peirce("spec", "check", small)
    assert (result.exit_code, result.stdout) == (0, f"OK: {small} (small, folnet)\n")
    assert read(peirce("spec", "check", small, "--json"))["ok"] is True


def test_what_only_the_composer_sees_is_found_too(small: str) -> None:
    Path(small).write_text(SMALL.replace("[model.input]", '[model.operators]\nlayer = "ja.p"\n[model.input]'))
    result = peirce("spec", "check", small)
    assert isinstance(result.exception, SpecError)
    assert f"{small}:12: 'a' (assoc) stands on the wrong side" in str(result.exception)
    result = peirce("spec", "check", small, "--json")
    assert result.exit_code == 2
    assert read(result)["ok"] is False
    assert "wrong side" in read(result)["error"]


def test_a_value_can_be_set_first(small: str) -> None:
    assert peirce("spec", "check", small, "--set", 'model.operators.layer="j.a"').exit_code == 0
    result = peirce("spec", "check", small, "--set", "model.dims.layer=3")
    assert "Did you mean 'layers'" in str(result.exception)


def test_a_summary_shows_the_plan_and_the_work(small: str) -> None:
    result = peirce("summary", small, "--batch", "2", "--length", "8")
    assert result.exit_code == 0
    for text in ("U <- B x U", "U: h=2 s=8", "mlm_logits", "position distance", "batch 2, length 8"):
        assert text in result.stdout
    assert read(peirce("summary", small, "--json"))["schema"] == "peirce.summary/1"

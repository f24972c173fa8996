"""`peirce plugins` beside a good distribution and four kinds of bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Run


def rows(text: str) -> dict[str, dict[str, Any]]:
    return {row["plugin"]: row for row in json.loads(text)["plugins"]}


def test_a_good_distribution_adds_its_parts(peirce: Run) -> None:
    listed = json.loads(peirce("list", "operators", "--json", beside=("good", "twin")).stdout)
    owners = {part["name"]: part["plugin"] for part in listed["parts"]}
    assert owners["maximum"] == "peirce-twin:extra", "two distributions may share an entry point's name"
    (part,) = [part for part in listed["parts"] if part["name"] == "minimum"]
    origin = (part["plugin"], part["distribution"], part["version"])
    assert origin == ("peirce-good:extra", "peirce-good", "1.2.3")
    assert listed["letters"]["n"] == "minimum"
    assert {"join", "prod"} <= owners.keys()


def test_a_distribution_that_fails_on_import_costs_only_itself(peirce: Run) -> None:
    done = peirce("list", "operators", "--json", beside=("good", "fails"))
    assert done.returncode == 0
    assert {"join", "minimum"} <= {part["name"] for part in json.loads(done.stdout)["parts"]}
    assert "peirce-fails:parts was not loaded: RuntimeError: the licence server is down" in done.stderr
    assert "peirce plugins disable peirce-fails:parts" in done.stderr
    assert done.stderr.count("peirce-fails:parts was not loaded") == 1


def test_a_misspelt_hook_quarantines_the_good_one_too(peirce: Run) -> None:
    done = peirce("plugins", "list", "--load", "--json", beside=("good", "misspells"))
    assert done.returncode == 1
    row = rows(done.stdout)["peirce-misspells:parts"]
    assert row["state"] == "quarantined"
    assert "unknown hook 'register_operator'. Did you mean 'register_operators'?" in row["failure"]
    asked = peirce("describe", "least", beside=("good", "misspells"))
    assert asked.returncode == 2
    assert "Quarantined: peirce-misspells:parts" in asked.stderr


def test_a_rival_for_a_built_in_s_name_is_an_error_that_settles_it(peirce: Run, tmp_path: Path) -> None:
    done = peirce("list", beside=("good", "takes"))
    assert done.returncode == 2
    assert "operator 'prod' has 2 owners" in done.stderr
    assert "peirce-folnet:folnet (" in done.stderr
    assert "peirce-takes:parts (0.3)" in done.stderr
    line = '"operators.prod" = "peirce-takes:parts"'
    assert line in done.stderr
    loaded = peirce("plugins", "list", "--load", "--json", beside=("good", "takes"))
    assert (loaded.returncode, len(json.loads(loaded.stdout)["conflicts"])) == (1, 1)
    file = tmp_path / "settled.toml"
    off = '"peirce-fails:parts" = "off"\n"peirce-misspells:parts" = "off"'
    file.write_text(f"format = 1\n[plugins]\n{off}\n[prefer]\n{line}\n")
    settled = peirce("describe", "prod", "--json", PEIRCE_REGISTRY=str(file))
    (part,) = json.loads(settled.stdout)["parts"]
    assert part["plugin"] == "peirce-takes:parts"


def test_the_static_list_imports_nothing_and_load_shows_causes(peirce: Run) -> None:
    static = rows(peirce("plugins", "list", "--json", beside=("good", "fails")).stdout)
    assert static["peirce-fails:parts"]["state"] == "on"
    assert static["peirce-fails:parts"]["failure"] is None
    assert static["peirce-twin:extra"]["state"] == "off"
    assert static["peirce-good:extra"]["version"] == "1.2.3"
    done = peirce("plugins", "list", "--load", "--json", beside=("good", "fails"))
    assert done.returncode == 1
    loaded = rows(done.stdout)
    assert loaded["peirce-fails:parts"]["failure"] == "RuntimeError: the licence server is down"
    good = {key: loaded["peirce-good:extra"][key] for key in ("parts", "specs", "runtimes", "commands")}
    assert good == {"parts": 1, "specs": 1, "runtimes": {}, "commands": {"greet": "Greet someone."}}
    assert loaded["peirce-export:export"]["runtimes"] == {
        "engine": "peirce_export.tensorrt.runtime:TensorRTRuntime",
        "onnx": "peirce_export.onnx.runtime:OnnxRuntime",
        "pt2": "peirce_export.torch_export.runtime:TorchRuntime",
    }


def test_a_third_party_s_ready_spec_joins_in(peirce: Run) -> None:
    listed = json.loads(peirce("spec", "list", "--json", beside=("good",)).stdout)["specs"]
    (spec,) = [spec for spec in listed if spec["plugin"] == "peirce-good:extra"]
    assert (spec["name"], spec["summary"]) == ("good-minimum", "FOLNet with one layer of another operator.")
    assert peirce("spec", "check", "good-minimum", beside=("good",)).stdout.startswith("OK: good-minimum")
    without = peirce("spec", "check", "good-minimum", beside=())
    assert without.returncode == 2
    assert "unknown ready spec 'good-minimum'" in without.stderr
    assert "Switched off: " in without.stderr
    broken = peirce("spec", "list", beside=("fails",))
    assert broken.returncode == 0
    assert "peirce-fails:parts was not loaded: RuntimeError: the licence server is down" in broken.stderr


def test_disable_works_without_importing(peirce: Run, tmp_path: Path) -> None:
    done = peirce("plugins", "disable", "Peirce_Fails:parts", beside=None)
    assert done.returncode == 0
    file = tmp_path / "work" / "registry.toml"
    assert done.stdout.startswith(f"created {file}")
    assert '"peirce-fails:parts" = "off"' in file.read_text()
    assert "licence" not in done.stdout + done.stderr
    assert rows(peirce("plugins", "list", "--json").stdout)["peirce-fails:parts"]["state"] == "off"
    again = json.loads(peirce("plugins", "enable", "peirce-fails:parts", "--json").stdout)
    assert again["schema"] == "peirce.plugins.edit/1"
    assert (again["created"], again["change"]) == (False, {"plugins": {"peirce-fails:parts": "on"}})
    assert '"peirce-fails:parts" = "on"' in file.read_text()
    assert '"peirce-fails:parts" = "off"' not in file.read_text()


def test_prefer_settles_a_conflict(peirce: Run, tmp_path: Path) -> None:
    for name in ("peirce-fails:parts", "peirce-misspells:parts"):
        assert peirce("plugins", "disable", name, beside=None).returncode == 0
    assert peirce("list").returncode == 2
    assert peirce("plugins", "prefer", "operators.prod", "peirce-folnet:folnet").returncode == 0
    done = peirce("describe", "prod", "--json")
    assert json.loads(done.stdout)["parts"][0]["plugin"] == "peirce-folnet:folnet"
    assert peirce("plugins", "prefer", "operator.prod", "peirce-folnet:folnet").returncode == 2


def test_add_names_a_module_and_the_command_that_loads_it(
    peirce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "my_lab.py").write_text("import no_such_module\n")
    settings = tmp_path / "named.toml"
    settings.write_text('# mine\nformat = 1\ndefault = "off"\n')
    added = peirce("--registry", str(settings), "plugins", "add", "my_lab")
    assert added.returncode == 0
    assert "no module 'my_lab' is on the import path now" in added.stdout
    assert settings.read_text() == '# mine\nformat = 1\ndefault = "off"\nmodules = ["my_lab"]\n'
    monkeypatch.syspath_prepend(lab)
    listed = peirce("--registry", str(settings), "plugins", "list", "--load", "--json")
    assert rows(listed.stdout)["module:my_lab"]["state"] == "quarantined"
    assert "needs the module 'no_such_module'" in rows(listed.stdout)["module:my_lab"]["failure"]
    found = peirce("plugins", "add", "my_lab", beside=None)
    made = tmp_path / "work" / "registry.toml"
    for done in (found, peirce("plugins", "enable", "module:my_lab", beside=None)):
        assert f"next: export PEIRCE_REGISTRY={made}" in done.stderr
    assert peirce("plugins", "add", "my lab").returncode == 2

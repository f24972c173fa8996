"""`peirce plugins` beside a good distribution and four kinds of bad ones."""

from __future__ import annotations

import json
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from peirce.registry import EntryPoint
from peirce_testing import standing


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
    assert "peirce:folnet (" in done.stderr
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
    assert loaded["peirce:onnx"]["runtimes"] == {
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
    assert peirce("plugins", "prefer", "operators.prod", "peirce:folnet").returncode == 0
    done = peirce("describe", "prod", "--json")
    assert json.loads(done.stdout)["parts"][0]["plugin"] == "peirce:folnet"
    assert peirce("plugins", "prefer", "operator.prod", "peirce:folnet").returncode == 2


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


def test_check_shows_why_a_plugin_cannot_be_loaded(peirce: Run) -> None:
    done = peirce("plugins", "check", "peirce-fails:parts", beside=None)
    assert done.returncode == 1
    assert "cannot be loaded: RuntimeError: the licence server is down" in done.stdout
    assert "failing_parts.py" in done.stdout
    report = json.loads(peirce("plugins", "check", "peirce-fails:parts", "--json", beside=None).stdout)
    assert (report["schema"], report["passed"]) == ("peirce.plugins.check/1", False)
    assert peirce("plugins", "check", "peirce-none:parts", beside=None).returncode == 2


@pytest.mark.thorough
def test_tensorrt_builds_a_third_party_s_part_where_it_is_installed(peirce: Run) -> None:
    few = ("plugins", "check", "peirce-good:extra", "--tensorrt", "-k", "(shapes or tensorrt) and minimum")
    done = peirce(*few, beside=("good",))
    assert done.returncode == 0, done.stdout
    if find_spec("tensorrt_rtx") is None:
        assert "pip install 'peirce[tensorrt-rtx]'" in done.stdout
    else:
        assert "not run" not in done.stdout


def test_check_runs_the_suite_and_nothing_of_the_working_directory(peirce: Run, tmp_path: Path) -> None:
    for name in ("conftest.py", "sitecustomize.py", "pytest.py"):
        Path(name).write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\n")
    Path("pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    done = peirce("plugins", "check", "Peirce_Good", "-k", "shapes or words", beside=("good",))
    assert done.returncode == 0, done.stdout
    assert re.search(r"\n\d+ checks? passed on 1 part\n$", done.stdout), done.stdout
    assert not (tmp_path / "imported").exists()


def test_check_tells_counts_and_failures_in_its_own_words(
    peirce: Run, tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = site / "good_parts.py"
    lab = tmp_path / "lab"
    lab.mkdir()
    shutil.copytree(fixture.parent / "good_specs", lab / "good_specs")
    slip = ("return kernel.minimum", "return kernal.minimum")
    (lab / "slipped.py").write_text(fixture.read_text().replace(*slip))
    monkeypatch.syspath_prepend(lab)
    done = peirce("plugins", "check", "slipped", "-k", "reference or shapes", PYTHONPATH=str(lab))
    assert done.returncode == 1
    assert "reference[operators.minimum]" in done.stdout
    assert f"NameError: name 'kernal' is not defined\n              {lab}/slipped.py:" in done.stdout
    assert re.search(r"\n\d+ of \d+ checks failed on 1 part\n$", done.stdout), done.stdout
    for internal in ("pytest", "hypothesis", "site-packages", "peirce/testing", "===", "Traceback"):
        assert internal not in (done.stdout + done.stderr).replace(str(lab), "")


def test_a_certificate_says_what_was_run_and_lists_show_whether_it_still_holds(
    peirce: Run, tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    shutil.copytree((site / "good_parts.py").parent / "good_specs", lab / "good_specs")
    source = (site / "good_parts.py").read_text()
    (lab / "vouched.py").write_text(source)
    monkeypatch.syspath_prepend(lab)
    files = [lab / "vouched.certificate.json", tmp_path / "again.json"]
    for file in files:
        few = ("plugins", "check", "vouched", "--quick", "-k", "minimum and (shapes or dtypes)")
        done = peirce(*few, "--certificate", str(file), PYTHONPATH=str(lab))
        assert done.returncode == 0, done.stdout + done.stderr
    assert files[0].read_bytes() == files[1].read_bytes()
    said = json.loads(files[0].read_text())
    assert said["schema"] == "peirce.plugins.certificate/1"
    counts = said["checks"]
    assert (counts["executed"], counts["failed"], said["passed"]) == (2, 0, True)
    assert counts["expected"] == counts["executed"] + counts["skipped"]
    checks = said["parts"]["operators.minimum"]
    assert checks["shapes"] == {"outcome": "passed"}
    assert checks["onnx"] == {"outcome": "skipped", "reason": "left out by --quick"}
    assert checks["padding"]["reason"].startswith("left out by -k")
    plugin = EntryPoint(name="module:vouched", target="vouched")
    assert standing(plugin) == f"passed, 2 of {counts['expected']} checks ran"
    (lab / "vouched.py").write_text(f"{source}\n# changed\n")
    assert standing(plugin).endswith("of other sources than these")


def test_what_failed_the_last_time_is_run_alone(
    peirce: Run, tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    shutil.copytree((site / "good_parts.py").parent / "good_specs", lab / "good_specs")
    source = (site / "good_parts.py").read_text()
    (lab / "halted.py").write_text(source.replace("return kernel.minimum", "return kernal.minimum"))
    monkeypatch.syspath_prepend(lab)
    some = ("plugins", "check", "halted", "-k", "minimum and (shapes or dtypes or declaration)")
    first = peirce(*some, PYTHONPATH=str(lab))
    assert "same cause in 1 other check: dtypes[operators.minimum]" in first.stdout
    assert "again:    peirce plugins check module:halted -k 'shapes[operators.minimum]'" in first.stdout
    (lab / "halted.py").write_text(f"{source}\n# mended\n")
    sys.modules.pop("halted", None)
    again = peirce("plugins", "check", "halted", "--last-failed", PYTHONPATH=str(lab))
    assert again.returncode == 0, again.stdout
    assert "2 checks passed on 1 part" in again.stdout
    assert not (tmp_path / "work" / ".peirce_cache").exists()


@pytest.mark.parametrize(
    "kept", ['{"peirce-good:extra": 3}', '{"peirce-good:extra": ["gone[operators.minimum]"]}']
)
def test_what_was_kept_of_failures_may_be_damaged_or_of_checks_that_are_gone(
    peirce: Run, tmp_path: Path, kept: str
) -> None:
    cache = tmp_path / "work/.peirce_cache"
    cache.mkdir(parents=True)
    (cache / "failed.json").write_text(kept)
    some = ("-k", "minimum and shapes", "--last-failed")
    found = peirce("plugins", "check", "peirce-good:extra", *some)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "1 check passed" in found.stdout


def test_a_record_takes_no_option_of_a_run(peirce: Run, tmp_path: Path) -> None:
    found = peirce("plugins", "check", "peirce-good:extra", "--record", "--certificate", "c.json", "--quick")
    assert found.returncode == 2
    assert "leave out --certificate, --quick" in found.stderr


def test_a_distribution_with_one_plugin_may_be_named_alone(peirce: Run) -> None:
    assert peirce("plugins", "disable", "peirce-good", beside=None).returncode == 0
    several = peirce("plugins", "check", "peirce")
    assert several.returncode == 2
    assert "'peirce' announces" in several.stderr
    assert "peirce:folnet" in several.stderr


@pytest.mark.parametrize("given", ["peirce-goood", "peirce-goood:extra", "good_pats"])
def test_check_names_the_nearest_plugin(peirce: Run, given: str) -> None:
    done = peirce("plugins", "check", given)
    assert done.returncode == 2
    assert f"unknown plug-in {given!r}" in done.stderr
    assert "peirce-good:extra" in done.stderr
    assert ("Did you mean 'peirce-good" in done.stderr) == (given != "good_pats")


def test_check_says_that_the_distribution_of_the_folder_is_not_installed(peirce: Run) -> None:
    Path("pyproject.toml").write_text('[project]\nname = "peirce-fresh"\n')
    assert "is not installed: `pip install -e .`" in peirce("plugins", "check", "peirce_fresh").stderr

"""`peirce plugins` beside a good distribution and four kinds of bad ones."""

from __future__ import annotations

import json
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import Run


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
    found = peirce("plugins", "check", "peirce-good:extra", "--record", "--strict", "--quick")
    assert found.returncode == 2
    assert "leave out --quick, --strict" in found.stderr


def test_a_distribution_with_several_plugins_is_asked_which(
    peirce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    info = tmp_path / "peirce_pair-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: peirce-pair\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[peirce.plugins]\none = pair_one\ntwo = pair_two\n")
    done = peirce("plugins", "check", "peirce-pair")
    assert done.returncode == 2
    assert "'peirce-pair' announces" in done.stderr
    assert "peirce-pair:two" in done.stderr


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

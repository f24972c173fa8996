"""Commands of other distributions, exit codes, and errors without tracebacks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
from command_line import Run, exit_code
from peirce.commands.main import _warnings_in_lines
from peirce.compose import StaleWarning
from shared_folder import ROOT


def test_a_third_party_s_command_runs(peirce: Run) -> None:
    done = peirce("greet", "world", beside=("good",))
    assert (done.returncode, done.stdout) == (0, "hello world\n")
    assert "Usage: peirce greet" in peirce("greet", "--help", beside=("good",)).stdout


def test_arguments_after_two_dashes_arrive(peirce: Run) -> None:
    assert peirce("greet", "--", "--world", beside=("good",)).stdout == "hello --world\n"


def test_warnings_of_peirce_are_one_line() -> None:
    with _warnings_in_lines():
        assert warnings.formatwarning("Stale.", StaleWarning, "a.py", 1) == "warning: Stale.\n"
        assert "a.py:1: UserWarning" in warnings.formatwarning("Other.", UserWarning, "a.py", 1)
    assert "a.py:1: StaleWarning" in warnings.formatwarning("Stale.", StaleWarning, "a.py", 1)


def test_bad_input_is_exit_2_without_a_traceback(peirce: Run) -> None:
    for arguments in (
        ("describe", "jon"),
        ("list", "operator"),
        ("no-such-command",),
        ("greet",),
        ("list", "--jsn"),
    ):
        done = peirce(*arguments)
        assert done.returncode == 2, arguments
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
    assert "Did you mean 'join'?" in peirce("describe", "jon").stderr


def test_a_registry_file_can_be_named(peirce: Run, tmp_path: Path) -> None:
    file = tmp_path / "named.toml"
    file.write_text('format = 1\ndefault = "off"\n[plugins]\n"peirce-good:extra" = "on"\n')
    listed = json.loads(peirce("--registry", str(file), "list", "--json").stdout)
    assert listed["schema"] == "peirce.list/1"
    assert [part["name"] for part in listed["parts"]] == ["minimum"]
    done = peirce("--registry", str(tmp_path / "none.toml"), "list")
    assert done.returncode == 2
    assert "cannot read the registry file" in done.stderr


def test_a_command_that_two_distributions_announce_is_an_error(
    peirce: Run, tmp_path: Path, distributions: Path
) -> None:
    info = tmp_path / "other" / "peirce_rival-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: peirce-rival\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[peirce.commands]\ngreet = rival:greet\n")
    both = f"{distributions}:{tmp_path / 'other'}"
    assert "announced by peirce-good and peirce-rival" in peirce("--help", PYTHONPATH=both).stdout
    done = peirce("greet", "world", beside=("good",), PYTHONPATH=both)
    assert done.returncode == 2
    assert "command 'greet' is announced by peirce-good and peirce-rival" in done.stderr


def test_a_distribution_adds_to_the_imports_and_to_no_other_group(
    peirce: Run, tmp_path: Path, distributions: Path
) -> None:
    info = tmp_path / "other" / "peirce_more-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: peirce-more\nVersion: 1.0\nSummary: More.\n")
    (info / "entry_points.txt").write_text(
        "[peirce.commands]\nimport.more = good_parts:greet\nkg.more = good_parts:greet\n"
    )
    path = os.pathsep.join([str(distributions), str(tmp_path / "other")])
    done = peirce("import", "more", "world", PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (0, "hello world\n")
    assert "announces a command 'kg.more'; of groups that packages add to there is import" in done.stderr
    assert re.search(r"more +More \(peirce-more\)", peirce("import", "--help", PYTHONPATH=path).stdout)


def test_a_command_goes_off_and_on_with_its_plugin(peirce: Run) -> None:
    done = peirce("greet", "world", beside=())
    assert (done.returncode, done.stdout) == (2, "")
    assert "command 'greet' belongs to peirce-good:extra, which is switched off" in done.stderr
    assert "`peirce plugins enable peirce-good:extra` switches it on" in done.stderr
    assert "Greets" not in peirce("--help", beside=()).stdout
    assert peirce("plugins", "enable", "peirce-good", beside=None).returncode == 0
    assert peirce("greet", "world", beside=None).stdout == "hello world\n"
    assert peirce("plugins", "disable", "peirce-good", beside=None).returncode == 0
    assert peirce("greet", "world", beside=None).returncode == 2


def test_a_command_and_a_runtime_that_ship_go_off_with_their_plugin(peirce: Run, tmp_path: Path) -> None:
    file = tmp_path / "off.toml"
    file.write_text('format = 1\n[plugins]\n"peirce:kg" = "off"\n"peirce:onnx" = "off"\n')
    listed = peirce("--help", PEIRCE_REGISTRY=str(file)).stdout
    assert "Answer a first-order query" not in listed
    assert "Train a model" in listed
    done = peirce("kg", "types", PEIRCE_REGISTRY=str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert "command 'kg' belongs to peirce:kg, which is switched off" in done.stderr
    program = "from peirce.registry import runtime_of\nruntime_of('model.onnx')"
    run = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={**os.environ, "PEIRCE_REGISTRY": str(file)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "the runtime of .onnx files belongs to peirce:onnx, which is switched off" in run.stderr


def test_a_command_whose_module_is_missing_says_what_to_install(peirce: Run, tmp_path: Path) -> None:
    info = tmp_path / "other" / "peirce_needy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: peirce-needy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[peirce.commands]\nbeg = needy_commands:beg\n")
    (tmp_path / "other" / "needy_commands.py").write_text("import no_such_dependency\n")
    done = peirce("beg", PYTHONPATH=str(tmp_path / "other"))
    assert done.returncode == 2
    assert "needs the module 'no_such_dependency'" in done.stderr


def test_doctor(peirce: Run) -> None:
    done = peirce("doctor", "--json", beside=("good", "fails"))
    report = json.loads(done.stdout)
    assert (done.returncode, report["schema"], report["ok"]) == (0, "peirce.doctor/1", True)
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["torch"]["status"] == "ok"
    assert checks["provider CPUExecutionProvider"]["finding"] == "starts"
    assert checks["registry"]["origin"] == "environment"
    assert "RuntimeError: the licence server is down" in checks["plug-in peirce-fails:parts"]["finding"]
    assert checks["parts"]["parts"]["operators"] >= 8
    table = peirce("doctor")
    assert "CPUExecutionProvider" in table.stdout


def test_doctor_never_advises_both_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    from peirce.commands import doctor

    monkeypatch.setattr(doctor, "_version", {"onnxruntime": "1.23"}.get)
    gpu = next(check for check in doctor._extras() if check["name"] == "extra gpu")
    assert "pip uninstall -y onnxruntime first" in gpu["finding"]
    monkeypatch.setattr(doctor, "_version", {}.get)
    gpu = next(check for check in doctor._extras() if check["name"] == "extra gpu")
    assert gpu["finding"].endswith("(pip install 'peirce[gpu]')")


def test_doctor_knows_every_extra() -> None:
    from peirce.commands import doctor

    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    names = {
        extra: tuple(re.split(r"[<>=\[]", line)[0] for line in lines)
        for extra, lines in extras.items()
        if extra not in ("all", "docs")
    }
    assert names == doctor._EXTRAS


def test_doctor_fails_on_a_conflict(peirce: Run) -> None:
    done = peirce("doctor", "--json", beside=("good", "takes"))
    assert done.returncode == 1
    failed = [check for check in json.loads(done.stdout)["checks"] if check["status"] == "failed"]
    assert [check["name"] for check in failed] == ["conflict"]


@pytest.mark.parametrize("name", ["prod", "operators.prod"])
def test_describe_an_operator(peirce: Run, name: str) -> None:
    (part,) = json.loads(peirce("describe", name, "--json").stdout)["parts"]
    assert (part["typing"], part["letter"], part["plugin"]) == ("B <- U x B", "p", "peirce:folnet")
    assert "Table 2" in part["source"]
    shapes = {tensor["name"]: tensor["shape"] for tensor in part["tensors"]}
    assert shapes == {
        "kernel": "[b, x, h=heads, s=head_size]",
        "premise": "[b, x, y, s=head_size]",
        "output": "[b, x, y, h=heads]",
    }


def test_describe_says_what_a_position_gives(peirce: Run) -> None:
    (part,) = json.loads(peirce("describe", "distance", "--json").stdout)["parts"]
    shapes = {tensor["name"]: tensor["shape"] for tensor in part["tensors"]}
    assert shapes == {"binary": "[b or 1, x, y, binary]"}
    clip = part["options"][0]
    assert (clip["name"], clip["default"]) == ("clip", 64)
    assert clip["meaning"].startswith("Delta; distances of Delta - 1 and more")


def test_describe_says_what_an_architecture_reads_and_gives(peirce: Run) -> None:
    (part,) = json.loads(peirce("describe", "architectures.folnet", "--json").stdout)["parts"]
    shapes = {tensor["name"]: tensor["shape"] for tensor in part["tensors"]}
    assert shapes["input input_ids"] == "[batch, length]"
    assert shapes["output binary"] == "[batch, length, length, binary]"
    assert shapes["output pooled"] == "[batch, unary]"


def test_describe_shows_options_with_types_and_defaults(peirce: Run) -> None:
    done = peirce("describe", "minimum", beside=("good",))
    assert done.returncode == 0
    for said in (
        "operator of peirce-good:extra 1.2.3",
        "B <- B x B",
        "Made up for the tests",
        "[b, x, y, h=heads]",
    ):
        assert said in done.stdout
    assert ["scale", "float", "1.0"] in [line.split() for line in done.stdout.splitlines()]


def test_describe_every_part(registry: object, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process, since there are many."""
    from peirce.commands.parts import describe
    from peirce.registry import KINDS, Registry

    assert isinstance(registry, Registry)
    for kind in KINDS:
        for entry in registry.entries(kind):
            describe(f"{kind}.{entry.name}")
            shown = capsys.readouterr().out
            assert f"{entry.name}  {kind.removesuffix('s')} of {entry.plugin}" in shown
            describe(f"{kind}.{entry.name}", json=True)
            (part,) = json.loads(capsys.readouterr().out)["parts"]
            assert part["documentation"], f"{kind}.{entry.name} has no docstring"
            assert part["source"], f"{kind}.{entry.name} names no source"
            assert all(option["meaning"] for option in part["options"]), f"{kind}.{entry.name}"
            names = [tensor["name"] for tensor in part["tensors"]]
            if kind == "operators":
                own = {
                    "bool": ["unary", "binary"],
                    "lstm": ["atoms", "state output", "state cell", "output"],
                    "gru": ["atoms", "state output", "output"],
                    "tpru": ["atoms", "state state", "output"],
                }
                assert names == own.get(entry.name, ["kernel", "premise", "output"])
            if kind == "heads":
                assert part["labels"] in shown.replace("\n", " "), (
                    f"{entry.name} does not say what labels it takes"
                )
                assert re.match(r"(int64|float|bool) \[", part["labels"])
            if kind == "architectures":
                assert names[:2] == ["input input_ids", "input attention_mask"]
            if kind in ("positions", "augmenters", "heads", "architectures"):
                assert any(not name.startswith("input ") for name in names), f"{kind}.{entry.name}"


def test_a_path_that_cannot_be_written_is_exit_2_without_a_traceback(peirce: Run) -> None:
    done = peirce("plugins", "disable", "peirce:basics", PEIRCE_REGISTRY="x" * 5000)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_name_that_cannot_be_printed_is_escaped(peirce: Run, tmp_path: Path) -> None:
    file = tmp_path / "\N{GREEK SMALL LETTER ALPHA}.toml"
    file.write_text("format = 1\n")
    done = peirce("--registry", str(file), "plugins", "disable", "peirce:basics", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert "\\u03b1.toml" in done.stdout


def test_an_error_of_the_system_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from peirce.commands import main as cli

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device", "/data/x")

    monkeypatch.setattr(cli, "loaded_command", full)
    with pytest.raises(SystemExit) as exited:
        cli.main(["doctor"])
    assert exited.value.code == 1
    assert "error: /data/x cannot be written: No space left on device; " in capsys.readouterr().err


@pytest.mark.parametrize("given", [["{}"], ["--{}"], ["summary", "--{}"], ["kg", "{}"]])
def test_what_is_said_of_long_arguments_is_cut(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*(each.format("x" * 10**5) for each in given)) == 2
    assert len(capsys.readouterr().err) < 3000

"""Commands of any distribution: how they are found, what they end with, and errors without tracebacks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Run
from shared_folder import ROOT

from peirce.commands import lines
from peirce.commands import main as cli
from peirce.registry import KINDS, Registry
from peirce_export import StaleWarning, runtime_class


def test_a_third_party_s_command_runs_with_its_line_of_help(peirce: Run) -> None:
    done = peirce("greet", "world", beside=("good",))
    assert (done.returncode, done.stdout) == (0, "hello world\n")
    assert "Usage: peirce greet" in peirce("greet", "--help", beside=("good",)).stdout
    assert peirce("greet", "--", "--world", beside=("good",)).stdout == "hello --world\n"
    listed = peirce("--help", beside=("good",)).stdout
    assert re.search(r"^  greet +Greet someone\.$", listed, re.M)
    assert re.search(r"^  train +Train a model of a spec on a task\.$", listed, re.M)


def test_warnings_of_peirce_are_one_line() -> None:
    with cli._warnings_in_lines():
        assert warnings.formatwarning("Stale.", StaleWarning, "a.py", 1) == "warning: Stale.\n"
        assert "a.py:1: UserWarning" in warnings.formatwarning("Other.", UserWarning, "a.py", 1)
    assert "a.py:1: StaleWarning" in warnings.formatwarning("Stale.", StaleWarning, "a.py", 1)


WRONG = ["describe jon", "list operator", "no-such-command", "greet", "list --jsn", "plugins disable x:y"]


@pytest.mark.parametrize("words", WRONG)
def test_bad_input_is_exit_2_without_a_traceback(words: str, peirce: Run) -> None:
    done = peirce(*words.split(), beside=("good",))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_plugin_whose_name_begins_as_ours_is_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named.toml").write_text('format = 1\nmodules = ["peirce_theirs"]\n')
    monkeypatch.setenv("PEIRCE_REGISTRY", str(tmp_path / "named.toml"))
    with pytest.raises(KeyError) as failed:
        exec("{}['nope']", {"__name__": "peirce_theirs"})
    assert cli._message_and_code(failed.value)[0].startswith(
        "plug-in module:peirce_theirs failed: KeyError: 'nope'"
    )


def test_a_command_of_a_plugin_that_fails_is_named_in_one_line(peirce: Run) -> None:
    done = peirce("stumble", "--json", beside=("twin",))
    said = "plug-in peirce-twin:extra failed: ValueError: one line and another (in stumble, twin_parts.py "
    assert (done.returncode, json.loads(done.stdout)["schema"]) == (1, "peirce.error/1")
    assert said in json.loads(done.stdout)["error"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("absent", 1, "(good_parts:absent) of peirce-fails cannot be loaded: AttributeError: "),
        ("beg", 2, "'beg' of peirce-fails needs the module 'no_such_dependency', which is not installed;"),
    ],
)
def test_a_command_that_cannot_be_imported_is_named(command: str, code: int, said: str, peirce: Run) -> None:
    done = peirce(command, beside=("fails",))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_a_command_of_the_core_is_not_to_be_had_and_a_group_may_be_joined(
    peirce: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site / "waiting")
    done = peirce("--version")
    assert "announces a command 'doctor', which is the core's; it is not used" in done.stderr
    assert re.search(r"\n  more\s", peirce("kg", "--help").stdout)


def test_a_command_that_two_distributions_announce_is_an_error(peirce: Run) -> None:
    assert "announced by peirce-good and peirce-takes" in peirce("--help", beside=("good", "takes")).stdout
    done = peirce("hail", "world", beside=("good", "takes"))
    assert done.returncode == 2
    assert "command 'hail' is announced by peirce-good and peirce-takes" in done.stderr


def test_a_distribution_adds_to_the_imports(peirce: Run) -> None:
    assert peirce("import", "taken", "world", beside=("takes",)).stdout == "hello world\n"
    listed = peirce("import", "--help", beside=("takes",)).stdout
    assert re.search(r"taken +Takes the name of a built-in operator, and of a command\.", listed)


def test_a_command_goes_off_and_on_with_its_plugin(peirce: Run) -> None:
    done = peirce("greet", "world", beside=())
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"command 'greet' belongs to peirce-good:extra, which is switched off", done.stderr)
    assert "  greet " not in peirce("--help", beside=()).stdout
    assert peirce("plugins", "disable", "peirce-good", beside=None).returncode == 0
    assert peirce("greet", "world").returncode == 2
    assert peirce("plugins", "enable", "peirce-good").returncode == 0
    assert peirce("greet", "world").stdout == "hello world\n"


def test_a_command_and_a_runtime_that_ship_go_off_with_their_plugin(
    peirce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "off.toml"
    off = ("peirce-training:training", "peirce-export:export")
    file.write_text("format = 1\n[plugins]\n" + "".join(f'"{name}" = "off"\n' for name in off))
    listed = peirce("--help", PEIRCE_REGISTRY=str(file)).stdout
    assert "Train a model" not in listed
    assert "doctor" in listed
    done = peirce("train", "folnet-base", PEIRCE_REGISTRY=str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert "command 'train' belongs to peirce-training:training, which is switched off" in done.stderr
    monkeypatch.setenv("PEIRCE_REGISTRY", str(file))
    with pytest.raises(
        cli.RegistryError, match=r"no runtime opens .onnx files: (.|\n)*Switched off: .*peirce-export:export"
    ):
        runtime_class("model.onnx")


def test_a_command_that_is_not_installed_names_the_distribution_that_brings_it(
    peirce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = [each for each in lines.announcements(lines.GROUP) if each.distribution != "peirce-training"]
    monkeypatch.setattr(lines, "announcements", lambda group: announced)
    done = peirce("train", "small.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "`peirce train` is a command of peirce-training, which is not installed; run `pip install 'peirce[train,text]'`"
        in done.stderr
    )
    assert "No such command 'trian'" in peirce("trian").stderr


def test_the_table_of_commands_is_that_of_the_project_files() -> None:
    files = [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")]
    projects = [tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in files]
    announced = {
        project["name"]: sorted(project.get("entry-points", {}).get(lines.GROUP, ()))
        for project in projects
        if project["name"] != "peirce"
    }
    assert lines.published() == announced


def test_a_registry_file_can_be_named(peirce: Run, tmp_path: Path) -> None:
    file = tmp_path / "named.toml"
    file.write_text('format = 1\ndefault = "off"\n[plugins]\n"peirce-good:extra" = "on"\n')
    listed = json.loads(peirce("--registry", str(file), "list", "--json").stdout)
    assert listed["schema"] == "peirce.list/1"
    assert [part["name"] for part in listed["parts"]] == ["minimum"]
    done = peirce("--registry", str(tmp_path / "none.toml"), "list")
    assert done.returncode == 2
    assert "no registry file " in done.stderr


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
    assert checks["peirce-export[triton]"]["versions"].keys() >= {"tritonclient", "grpcio"}
    failed = peirce("doctor", beside=("good", "takes"))
    assert failed.returncode == 1
    assert re.search(r"failed +conflict +operator 'prod' has 2 owners", failed.stdout)


def test_doctor_never_advises_both_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    from peirce.commands import doctor

    monkeypatch.setattr(doctor, "_version", {"onnxruntime": "1.23", "peirce-export": "1"}.get)
    gpu = next(check for check in doctor._distributions() if check["name"] == "peirce-export[gpu]")
    assert "pip uninstall -y onnxruntime first" in gpu["finding"]


SHAPES = {
    "operators.prod": {
        "kernel": "[b, x, h=heads, s=head_size]",
        "premise": "[b, x, y, s=head_size]",
        "output": "[b, x, y, h=heads]",
    },
    "distance": {"binary": "[b or 1, x, y, binary]"},
    "architectures.folnet": {"input input_ids": "[batch, length]", "output pooled": "[batch, unary]"},
}


@pytest.mark.parametrize(("name", "shapes"), SHAPES.items())
def test_describe_says_what_a_part_reads_and_gives(peirce: Run, name: str, shapes: dict[str, str]) -> None:
    (part,) = json.loads(peirce("describe", name, "--json").stdout)["parts"]
    assert {tensor["name"]: tensor["shape"] for tensor in part["tensors"]}.items() >= shapes.items()


def test_describe_says_which_inputs_may_be_absent_and_what_stands_for_them(peirce: Run) -> None:
    (part,) = json.loads(peirce("describe", "architectures.folnet", "--json").stdout)["parts"]
    notes = {tensor["name"]: tensor["notes"].partition(":")[0] for tensor in part["tensors"]}
    assert notes["input input_ids"] == "int64, required"
    assert notes["input attention_mask"] == "bool, optional, True where absent"
    assert notes["output unary"] == "float"


def test_describe_shows_options_with_types_and_defaults(peirce: Run) -> None:
    done = peirce("describe", "minimum", beside=("good",))
    for said in ("operator of peirce-good:extra 1.2.3", "B <- B x B", "Made up for the tests", "h=heads]"):
        assert said in done.stdout
    assert ["scale", "float", "1.0"] in [line.split() for line in done.stdout.splitlines()]


def test_describe_every_part(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    from peirce.commands.parts import describe

    for entry in (entry for kind in KINDS for entry in registry.entries(kind)):
        kind, name = entry.kind, f"{entry.kind}.{entry.name}"
        describe(name, json=True)
        (part,) = json.loads(capsys.readouterr().out)["parts"]
        assert part["documentation"], f"{name} has no docstring"
        assert part["source"], f"{name} names no source"
        assert all(option["meaning"] for option in part["options"]), name
        tensors = [tensor["name"] for tensor in part["tensors"]]
        if kind == "heads":
            describe(name)
            shown = capsys.readouterr().out
            assert f"{entry.name}  head of {entry.plugin}" in shown
            assert part["labels"] in shown.replace("\n", " "), f"{name} does not say what labels it takes"
            assert re.match(r"(int64|float|bool) \[", part["labels"])
        if kind == "architectures":
            reads = ["input triples", "input shared_heads"] if entry.name == "ultra" else None
            assert tensors[:2] == (reads or ["input input_ids", "input attention_mask"])
        if kind in KINDS[:5]:
            assert any(not tensor.startswith("input ") for tensor in tensors), name


def test_a_path_that_cannot_be_written_is_exit_2_without_a_traceback(peirce: Run) -> None:
    done = peirce("plugins", "disable", "peirce-basics:basics", PEIRCE_REGISTRY="x" * 5000)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def full() -> None:
    raise OSError(28, "No space left on device", "/data/x")


def imports() -> None:
    from graphs_of_mine import helper  # noqa: F401


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (full, "error: /data/x cannot be written: No space left on device; "),
        (imports, "graphs_of_mine hides the package"),
    ],
)
def test_what_fails_for_want_of_the_system_or_of_a_package_is_one_line(
    fails: Callable[[], None], said: str, peirce: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "graphs_of_mine").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cli, "load_command", lambda *given: fails())
    done = peirce("doctor")
    assert done.returncode == 1
    assert said in done.stderr


def test_standard_output_may_be_closed() -> None:
    command = ["sh", "-c", f"{sys.executable} -P -m peirce --version >&-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_in_order(number: signal.Signals, code: int, site: Path) -> None:
    # A shell that runs tests in the background has Ctrl-C ignored.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-P", "-c", f"{heard}; from peirce.commands.main import main; main(['wait'])"]
    env, pipe = {**os.environ, "PYTHONPATH": str(site / "waiting")}, subprocess.PIPE
    process = subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(number)
    stderr = process.communicate(timeout=600)[1]
    assert process.returncode == code
    assert re.search(
        r"^ended by (Ctrl-C|a signal); what was complete is kept, and nothing else$", stderr, re.M
    )

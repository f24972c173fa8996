"""Distributions that go wrong in every way, really installed: each is named, and all others are unharmed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import install, without_registry_file
from shared_folder import ROOT

PLUGINS = ("interrupts", "exits", "ends", "mute", "prints", "acts")
SPEC = """format = 1
[model]
name = "small"
architecture = "folnet"
dims = {{ layers = 1, unary = 16, binary = 8, heads = 2, head_size = 4 }}
input = {{ vocabulary = 100 }}
operators = {{ layer = [{{ use = "join" }}, {{ use = "rogue", raises = "{raises}" }}] }}
positions = [{{ use = "distance", clip = 8 }}]
heads = [{{ use = "classification", classes = 3 }}]
"""


@pytest.fixture(scope="module")
def rogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the distribution."""
    return install(tmp_path_factory.mktemp("rogue"), ROOT / "tests" / "fixtures" / "peirce-rogue")


def environment(path: Path, tmp_path: Path, *on: str) -> dict[str, str]:
    """The variables for a command beside the distribution, with some of its plug-ins on."""
    file = tmp_path / "these.toml"
    lines = [f'"peirce-rogue:{name}" = "off"\n' for name in PLUGINS if name not in on]
    file.write_text(f"format = 1\n[plugins]\n{''.join(lines)}", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PEIRCE_")}
    return kept | {"PYTHONPATH": str(path), "PEIRCE_REGISTRY": str(file), "OMP_NUM_THREADS": "1"}


def run(path: Path, tmp_path: Path, *arguments: str, on: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "peirce", *arguments],
        cwd=without_registry_file(tmp_path),
        env=environment(path, tmp_path, *on),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_whatever_a_plugin_raises_and_prints_the_others_work(rogue: Path, tmp_path: Path) -> None:
    done = run(rogue, tmp_path, "list", "operators", "--json", on=PLUGINS)
    assert done.returncode == 0
    listed = json.loads(done.stdout)
    assert {"join", "rogue"} <= {part["name"] for part in listed["parts"]}
    assert {broken["plugin"]: broken["cause"] for broken in listed["quarantined"]} == {
        "peirce-rogue:interrupts": "KeyboardInterrupt",
        "peirce-rogue:exits": "SystemExit: 0",
        "peirce-rogue:ends": "GeneratorExit",
        "peirce-rogue:mute": "MuteError: (its message cannot be made)",
    }
    for way in ("print", "os.write", "printf", "__stdout__", "logging", "warnings", "child"):
        for where in ("import", "hook"):
            assert f"{way} {where}" in done.stderr
    assert done.stderr.count("a command 'doctor', which is the core's") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("raises", "failed: ValueError: one line and another (in raises, commands.py line "),
        ("interrupts", "failed: KeyboardInterrupt (in interrupts, commands.py line "),
        ("exits", "failed: SystemExit: 0 (in exits,"),
        ("generator", "failed: GeneratorExit (in generator,"),
        ("cancels", "failed: CancelledError (in cancels,"),
        ("unprintable", "failed: UnprintableError: (its message cannot be made) (in unprintable,"),
        ("system", "failed: FileNotFoundError: [Errno 2] No such file or directory: '/no/such/file'"),
        ("number", "returned 3; a command returns nothing"),
        ("coroutine", "returned <coroutine object coroutine at"),
        ("constant", "failed: TypeError: rogue.commands:CONSTANT is 7, which is no function"),
        ("absent", "failed: AttributeError: module 'rogue.commands' has no attribute 'absent'"),
        ("imports", "failed: KeyboardInterrupt"),
    ],
)
def test_a_command_that_goes_wrong_is_named_in_one_line(
    command: str, said: str, rogue: Path, tmp_path: Path
) -> None:
    done = run(rogue, tmp_path, f"rogue-{command}", on=("acts", "interrupts"))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = [line for line in done.stderr.splitlines() if "the core's; it is not used" not in line]
    assert line.startswith(f"error: command 'rogue-{command}' (rogue.")
    assert f") of peirce-rogue 6.6 {said}" in line


def test_a_command_that_fails_leaves_one_document(rogue: Path, tmp_path: Path) -> None:
    done = run(rogue, tmp_path, "rogue-raises", "--json", on=("acts",))
    document = json.loads(done.stdout)
    assert document["schema"] == "peirce.error/1"
    assert "of peirce-rogue 6.6 failed: ValueError" in document["error"]
    written = run(rogue, tmp_path, "rogue-writes", "--json", on=("acts",))
    assert (written.returncode, json.loads(written.stdout)) == (1, {"schema": "rogue/1"})


def test_a_command_may_end_with_an_exit_code_of_its_own(rogue: Path, tmp_path: Path) -> None:
    done = run(rogue, tmp_path, "rogue-ends-well", on=("acts",))
    assert (done.returncode, done.stdout) == (5, "process True\n")
    assert run(rogue, tmp_path, "rogue-ends-well", "--code", "x", on=("acts",)).returncode == 2


@pytest.mark.parametrize("raises", ["KeyboardInterrupt", "SystemExit"])
def test_a_part_that_goes_wrong_in_another_s_command_is_named(
    raises: str, rogue: Path, tmp_path: Path
) -> None:
    spec = tmp_path / "small.toml"
    spec.write_text(SPEC.format(raises=raises), encoding="utf-8")
    done = run(rogue, tmp_path, "summary", str(spec), "--json", on=("acts",))
    assert done.returncode == 1
    assert (
        f"plug-in peirce-rogue:acts failed in `peirce summary`: {raises} (in Rogue.kernel, acts.py line "
        in (json.loads(done.stdout)["error"])
    )
    assert "a part that prints" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_plugin_s_command(
    number: signal.Signals, code: int, rogue: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-c",
            # a shell that runs tests in the background has it ignored
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "from peirce.commands.main import main; main(['rogue-waits'])",
        ],
        cwd=tmp_path,
        env=environment(rogue, tmp_path, "acts"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(number)
    stderr = process.communicate(timeout=600)[1]
    assert process.returncode == code
    assert "failed" not in stderr


BROKEN = {
    "absent": (b"[peirce.commands]\nabsent = fine:run\n", None),
    "empty": (b"[peirce.commands]\nempty = fine:run\n", b""),
    "nameless": (b"[peirce.plugins]\nparts = fine\n", b"Metadata-Version: 2.1\nVersion: 1.0\n"),
    "latin": (
        b"[peirce.commands]\nlatin = fine:run\n",
        b"Metadata-Version: 2.1\nName: latin\nSummary: \xe9\n",
    ),
    "bytes": (b"[console_scripts]\n\xff = fine:run\n", b"Metadata-Version: 2.1\nName: bytes\nVersion: 1.0\n"),
    "targetless": (
        b"[peirce.commands]\ntargetless = \n",
        b"Metadata-Version: 2.1\nName: targetless\nVersion: 1\n",
    ),
}


def test_a_distribution_that_cannot_be_read_is_named_once_and_harms_nobody(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name, (entries, metadata) in BROKEN.items():
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_bytes(entries)
        if metadata is not None:
            (info / "METADATA").write_bytes(metadata)
    info = site / "fine-1.0.dist-info"  # neither RECORD nor a version
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fine\n")
    (info / "entry_points.txt").write_text("[peirce.commands]\nfine = fine:run\n")
    (site / "fine.py").write_text("def run():\n    print('fine')\n")
    done = run(site, tmp_path, "fine", on=())
    assert (done.returncode, done.stdout) == (0, "fine\n")
    for name in BROKEN:
        assert done.stderr.count(f"{name}-1.0.dist-info was set aside: its ") == 1
    assert len(done.stderr.splitlines()) == len(BROKEN)
    # torch looks through the entry points of all distributions when it is imported
    listed = run(site, tmp_path, "list", "operators", "--json", on=())
    assert listed.returncode == 0
    assert "join" in {part["name"] for part in json.loads(listed.stdout)["parts"]}

"""Distributions whose metadata and modules do not agree, and modules that raise or print anything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code

from peirce.errors import PanicError, RegistryError
from peirce.registry import Registry, find_registry_file, guard_plugin_code, import_target

HOOKS = """
from pathlib import Path
import peirce
class Hooks:
    @peirce.hookimpl
    def register_specs(self): return [Path(__file__).with_name("{spec}.toml")]
hooks = Hooks()
@peirce.hookimpl
def register_specs(): return hooks.register_specs()
"""


def distribution(folder: Path, name: str, version: str, target: str | None, text: str | None = None) -> None:
    """A distribution with one plug-in, whose module registers a ready spec of the distribution's name."""
    module = (target or "").partition(":")[0]
    if module:
        (folder / f"{module}.py").write_text(HOOKS.format(spec=name) if text is None else text)
        (folder / f"{name}.toml").touch()
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if target:
        (about / "entry_points.txt").write_text(f"[peirce.plugins]\nmain = {target}\n")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        monkeypatch.syspath_prepend(tmp_path / name)
    for name in [name for name in sys.modules if name.startswith("strange_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path / "a", tmp_path / "b"


def state() -> tuple[dict[str, Any], dict[str, str]]:
    """The version of each plug-in of these tests that registers something, and why others are quarantined."""
    invalidate_caches()
    registry = Registry.discover(kinds=["specs"], strict=False)
    ours = {entry.plugin: entry.version for entry in registry.entries("specs") if "strange" in entry.plugin}
    return ours, {broken.plugin: broken.cause for broken in registry.quarantined}


@pytest.mark.parametrize("first", ["strange-one", "strange-two"])
def test_of_two_distributions_of_one_module_the_other_is_named(
    first: str, folders: tuple[Path, Path]
) -> None:
    """Whichever Python imports, and whichever comes first by name."""
    second = {"strange-one": "strange-two", "strange-two": "strange-one"}[first]
    for folder, name in zip(folders, (first, second), strict=True):
        distribution(folder, name, "1.0", "strange_ops")
    used, causes = state()
    assert used == {f"{first}:main": "1.0"}
    place = folders[0] / "strange_ops.py"
    assert f"strange_ops was imported from {place}, which is not of {second} 1.0" in causes[f"{second}:main"]


def test_what_a_record_lists_decides_in_one_folder(folders: tuple[Path, Path]) -> None:
    for name in ("strange-one", "strange-two"):
        distribution(folders[0], name, "1.0", "strange_ops")
    _, causes = state()
    assert [*causes] == ["strange-two:main"]
    assert "its module strange_ops is that of strange-one:main, which is" in causes["strange-two:main"]
    (folders[0] / "strange_one-1.0.dist-info" / "RECORD").write_text("other.py,,\n")
    (folders[0] / "strange_two-1.0.dist-info" / "RECORD").write_text("strange_ops.py,,\n")
    used, causes = state()
    assert ([*used], [*causes]) == (["strange-two:main"], ["strange-one:main"])


def test_an_editable_distribution_has_its_modules_in_its_project(folders: tuple[Path, Path]) -> None:
    first, second = folders
    distribution(first, "strange-one", "1.0", None)
    distribution(second, "strange-other", "1.0", "strange_ops")
    about = first / "strange_one-1.0.dist-info"
    (about / "entry_points.txt").write_text("[peirce.plugins]\nmain = strange_ops\n")
    (second / "strange_other-1.0.dist-info" / "entry_points.txt").unlink()
    assert "is not of strange-one" in state()[1]["strange-one:main"]
    (about / "direct_url.json").write_text(
        json.dumps({"url": second.as_uri(), "dir_info": {"editable": True}})
    )
    assert [*state()[0]] == ["strange-one:main"]


def test_a_version_that_another_one_hides_announces_nothing(folders: tuple[Path, Path]) -> None:
    distribution(folders[0], "strange-one", "2.0", None)
    distribution(folders[1], "strange-one", "1.0", "strange_ops")
    assert state() == ({}, {})
    distribution(folders[1], "strange-one", "1.5", "strange_ops")
    assert state() == ({}, {})


def test_two_versions_in_one_folder_are_named(folders: tuple[Path, Path]) -> None:
    for version in ("1.0", "2.0"):
        distribution(folders[0], "strange-one", version, "strange_ops")
    used, causes = state()
    assert (used, [*causes]) == ({}, ["strange-one:main"])
    assert "strange-one has two versions in" in causes["strange-one:main"]
    assert "1.0 and 2.0; install it again" in causes["strange-one:main"]


def test_an_object_of_a_module_is_a_plugin(folders: tuple[Path, Path]) -> None:
    distribution(folders[0], "strange-one", "1.0", "strange_ops:hooks")
    distribution(folders[1], "strange-two", "1.0", "strange_more:nothing")
    used, causes = state()
    assert used == {"strange-one:main": "1.0"}
    assert causes["strange-two:main"] == "AttributeError: module 'strange_more' has no attribute 'nothing'"


RAISES = [
    "SystemExit(3)",
    "GeneratorExit()",
    "KeyboardInterrupt()",
    "type('Panic', (BaseException,), {})('None')",
]


@pytest.mark.parametrize("raised", RAISES)
@pytest.mark.parametrize(
    "where", ["raise {}", "import peirce\n@peirce.hookimpl\ndef register_specs(): raise {}"]
)
def test_a_plugin_that_raises_no_exception_is_quarantined(
    raised: str, where: str, folders: tuple[Path, Path]
) -> None:
    distribution(folders[0], "strange-one", "1.0", "strange_ops", where.format(raised))
    (cause,) = state()[1].values()
    assert cause.startswith(raised.partition("(")[0].replace("type", "Panic"))


def test_a_signal_of_the_user_ends_what_a_plugin_does() -> None:
    # A process in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), guard_plugin_code("strange_ops"):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(PanicError, match="SystemExit: 2"), guard_plugin_code("strange_ops"):
        sys.exit(2)


def test_a_command_that_raises_no_exception_is_named(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {
        "imported": "raise SystemExit(0)",
        "run": "def run(): raise GeneratorExit('x')",
    }.items():
        distribution(folders[0], f"strange-{name}", "1.0", f"strange_{name}", text)
        about = folders[0] / f"strange_{name}-1.0.dist-info" / "entry_points.txt"
        about.write_text(f"[peirce.commands]\nstrange-{name} = strange_{name}:run\n")
    assert exit_code("strange-imported") == 1
    assert "of strange-imported cannot be loaded: SystemExit: 0" in capsys.readouterr().err
    assert exit_code("strange-run") == 1
    assert "a command of strange-run failed: GeneratorExit: x" in capsys.readouterr().err


def test_a_command_of_another_distribution_s_module_is_not_run(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, name in zip(folders, ("strange-one", "strange-two"), strict=True):
        distribution(folder, name, "1.0", "strange_ops", "def run(): print('run')")
        points = folder / f"{name.replace('-', '_')}-1.0.dist-info" / "entry_points.txt"
        points.write_text(f"[peirce.commands]\n{name} = strange_ops:run\n")
    assert exit_code("strange-one") == 0
    assert exit_code("strange-two") == 1
    said = capsys.readouterr().err
    assert (
        "command 'strange-two' of strange-two cannot be loaded: its module strange_ops was imported" in said
    )


def test_what_a_plugin_prints_stays_out_of_a_document(folders: tuple[Path, Path], tmp_path: Path) -> None:
    prints = "import os, subprocess\nprint('one')\nos.write(1, b'two')\nsubprocess.run(['echo', 'three'])\n"
    distribution(folders[0], "strange-one", "1.0", "strange_ops", prints)
    command = [sys.executable, "-m", "peirce", "spec", "list", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(folders[0])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert json.loads(done.stdout)["schema"] == "peirce.spec.list/1"
    assert all(word in done.stderr for word in ("one", "two", "three"))


def test_an_imported_target_may_be_an_attribute_of_an_attribute() -> None:
    assert import_target("os:path.join") is os.path.join


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"format = 2\n", "format is 2, and this version of Peirce reads 1; upgrade"),
        (b'"format" = "1.1"\n', "format is '1.1', and this version"),
        (b"format = 1\n[plugins\n", "not valid TOML"),
        (b"# \xff\nformat = 1\n", "cannot be read .*may switch plug-ins off, so none is loaded"),
        (None, "cannot be read .*may switch plug-ins off, so none is loaded"),
    ],
)
def test_a_registry_file_that_cannot_be_used_is_not_passed_over(
    content: bytes | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "registry.toml"
    path.symlink_to("gone") if content is None else path.write_bytes(content)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.delenv("PEIRCE_REGISTRY", raising=False)
    with pytest.raises(RegistryError, match=message):
        find_registry_file()


def test_a_registry_file_of_another_program_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "registry.toml").write_text("[images]\nformat = 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEIRCE_REGISTRY", raising=False)
    assert find_registry_file().origin == "packaged"

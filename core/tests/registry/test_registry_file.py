"""registry.toml: the search order, what a file may say, and edits that keep comments."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import without_registry_file

from peirce.errors import RegistryError
from peirce.registry import Registry, RegistryFile, canonical, edit_registry_file, find_registry_file
from peirce.resources import packaged_registry


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with no registry.toml above it."""
    monkeypatch.delenv("PEIRCE_REGISTRY", raising=False)
    folder = without_registry_file(tmp_path / "a" / "b")
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def write(path: Path, text: str = "format = 1\n") -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_search_order(elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_registry_file().origin == "packaged"
    far = write(tmp_path / "registry.toml", 'format = 1\n[plugins]\n"peirce-basics:basics" = "off"\n')
    assert find_registry_file().path == far
    write(elsewhere.parent / "registry.toml", "[index]\nurl = 'another tool'\n")
    assert find_registry_file().path == far
    near = write(elsewhere / "registry.toml")
    found = find_registry_file()
    assert (found.path, found.origin, found.imports_modules) == (near, "found", False)
    assert found.is_on("peirce-basics:basics"), "files are not merged"
    monkeypatch.setenv("PEIRCE_REGISTRY", str(far))
    in_environment = find_registry_file()
    assert (in_environment.path, in_environment.origin) == (far, "environment")
    assert in_environment.imports_modules
    given = write(tmp_path / "named.toml")
    assert find_registry_file(given).path == given
    monkeypatch.delenv("PEIRCE_REGISTRY")
    write(near, "format = 1\n[[[\n")
    with pytest.raises(RegistryError, match="not valid TOML"):
        find_registry_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("format = 2\n", "wrong.toml:1: format is 2, and this version of Peirce reads 1"),
        ("default = 'on'\n", "format is None"),
        ("format = 1\nmodule = []\n", "unknown key 'module' of a registry file. Did you mean 'modules'?"),
        ("format = 1\ndefault = 'yes'\n", "wrong.toml:2: default must be 'on' or 'off'"),
        ("format = 1\nmodules = 'my_lab'\n", "modules must be a list"),
        ("format = 1\n[plugins]\n'a:b' = true\n", """plugins."a:b" must be 'on' or 'off', not True"""),
        ("format = 1\n[plugins]\na.b = 'on'\n", "plugins.a must be 'on' or 'off', not {'b': 'on'}"),
        ("format = 1\n[prefer]\n'operator.prod' = 'a:b'\n", "kind 'operator'. Did you mean 'operators'?"),
        ("format = 1\n[aliases]\n'prod' = 'p'\n", 'aliases must have keys such as "operators.NAME"'),
        ("format = 1\n[[[\n", "wrong.toml:2, column 3: not valid TOML"),
        (f"format = 1\nx = {'9' * 5000}", "not valid TOML: Exceeds the limit"),
    ],
)
def test_what_a_file_may_not_say(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path / "wrong.toml", text)
    with pytest.raises(RegistryError) as raised:
        find_registry_file(path)
    assert said in str(raised.value)
    assert str(path) in str(raised.value)


def test_distributions_are_compared_as_indexes_spell_them(tmp_path: Path) -> None:
    path = write(tmp_path / "r.toml", 'format = 1\n[plugins]\n"Peirce_Hadamard:ops" = "off"\n')
    assert not find_registry_file(path).is_on("peirce-hadamard:ops")
    assert canonical("module:My_Lab.ops") == "module:My_Lab.ops"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "path"
    folder.mkdir()
    text = "import peirce\n\n@peirce.hookimpl\ndef register_heads():\n    return []\n"
    (folder / "lab_of_files.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    return folder


def test_modules_of_a_found_file_are_not_imported(
    elsewhere: Path, lab: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(elsewhere / "registry.toml", 'format = 1\ndefault = "off"\nmodules = ["lab_of_files"]\n')
    with caplog.at_level(logging.WARNING, "peirce"):
        registry = Registry.discover()
    assert registry.plugins == ()
    assert len(caplog.records) == 1
    assert "modules are not imported: lab_of_files" in caplog.text
    with pytest.raises(RegistryError, match="module:lab_of_files is not imported, since") as refused:
        registry.get("tasks", "mine")
    assert f"`peirce --registry {path} ...`" in str(refused.value)
    assert "Switched off: module" not in str(refused.value)
    monkeypatch.setenv("PEIRCE_REGISTRY", str(path))
    assert [plugin.name for plugin in Registry.discover().plugins] == ["module:lab_of_files"]
    assert [plugin.name for plugin in Registry.discover(path).plugins] == ["module:lab_of_files"]


def test_the_working_directory_is_not_searched_for_modules(elsewhere: Path) -> None:
    (elsewhere / "lab_beside.py").write_text("raise AssertionError('imported')\n")
    path = write(elsewhere / "named.toml", 'format = 1\ndefault = "off"\nmodules = ["lab_beside"]\n')
    assert Registry.discover(path).quarantined[0].cause == "there is no module 'lab_beside'"


def test_a_module_can_be_switched_off(tmp_path: Path, lab: Path) -> None:
    text = 'format = 1\ndefault = "off"\nmodules = ["lab_of_files"]\n[plugins]\n"module:lab_of_files" = "on"'
    path = write(tmp_path / "r.toml", text)
    assert len(Registry.discover(path).plugins) == 1
    write(path, text.replace('= "on"', '= "off"'))
    assert Registry.discover(path).plugins == ()


def put(table: str, key: str, value: str) -> Any:
    def change(document: Any) -> None:
        document[table][key] = value

    return change


def test_an_edit_keeps_comments(tmp_path: Path) -> None:
    text = 'format = 1  # ours\n\n[plugins]  # switches\n# why: slow\n"a:b" = "off"\n'
    path = write(tmp_path / "r.toml", text)
    assert edit_registry_file(find_registry_file(path), put("plugins", "c:d", "on")) == path
    assert path.read_text() == text + '"c:d" = "on"\n'


def test_an_edit_of_the_packaged_file_makes_a_new_one(elsewhere: Path) -> None:
    before = packaged_registry().read_text()
    target = edit_registry_file(find_registry_file(), put("plugins", "peirce-basics:basics", "off"))
    assert target == elsewhere / "registry.toml"
    assert packaged_registry().read_text() == before
    made = RegistryFile.read(target)
    assert dict(made.plugins) == {"peirce-basics:basics": "off"}
    assert find_registry_file().path == target


def test_an_edit_spares_another_tool_s_file(elsewhere: Path) -> None:
    other = write(elsewhere / "registry.toml", "[index]\n")
    with pytest.raises(RegistryError, match="is not a registry file of Peirce"):
        edit_registry_file(find_registry_file(), put("plugins", "c:d", "on"))
    assert other.read_text() == "[index]\n"


def test_a_wrong_edit_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "r.toml", "format = 1\n[plugins]\n")
    with pytest.raises(RegistryError, match="must be 'on' or 'off'"):
        edit_registry_file(find_registry_file(path), put("plugins", "c:d", "maybe"))
    assert path.read_text() == "format = 1\n[plugins]\n"
    assert set(os.listdir(tmp_path)) == {"a", "r.toml"}


def test_a_copy_of_an_older_file_with_lines_of_help_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "r.toml", 'format = 1\n[plugins]\n"a:b" = "off"\n[commands]\nlist = "List."\n')
    assert dict(find_registry_file(path).plugins) == {"a:b": "off"}

"""The check `record`: what a plug-in has written of its parts, and what becomes of a part that changes after that."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from command_line import exit_code

from peirce.registry import Registry
from peirce_testing import Conformance
from peirce_testing.checks.record import RECORDED, path_of

LAB = '''
import peirce
import torch
from attrs import frozen
from peirce.parts import UnaryPosition, new_table
from typing import Literal

@frozen(kw_only=True)
class Options:
    kind: Literal["plain", "double"] = "plain"

class Steps(UnaryPosition):
    """u(x) += 0.5 table[t]."""

    name = "steps"
    Options = Options

    def __init__(self, options, dims):
        super().__init__(options, dims)
        self.size = 1.0 if options.kind == "double" else 0.5
        self.table = new_table(dims.max_length, dims.unary)

    def unary(self, tokens):
        return self.size * self.table(tokens.index)

@peirce.hookimpl
def register_positions():
    return [Steps]
'''


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "recorded_lab.py"
    file.write_text(LAB)
    return file


def ended(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """How the check ends on the plug-in as it stands now."""
    monkeypatch.delitem(sys.modules, "recorded_lab", raising=False)
    (found,) = Conformance("recorded_lab").run(only=lambda name: name.startswith("record["))
    return found.outcome, found.message


def test_a_part_is_held_to_its_record(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, message = ended(monkeypatch)
    assert outcome == "does not apply"
    assert "--record" in message
    (path,) = Conformance("recorded_lab").record()
    assert path == lab.with_name("recorded_lab.record.json")
    known = json.loads(path.read_text())
    assert list(known) == ["positions.steps"]
    assert list(known["positions.steps"]) == ["its example options", "kind = 'double'"]
    assert ended(monkeypatch)[0] == "passed"


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("else 0.5", "else 0.51", "its example options"),
        ("1.0 if", "1.1 if", "kind = 'double'"),
        ("new_table(dims.max_length,", "torch.nn.Embedding(dims.max_length,", "its example options"),
        ("dims.max_length, dims", "dims.max_length + 1, dims", "its example options"),
    ],
)
def test_a_part_that_is_changed_after_it_was_recorded_is_rejected(
    lab: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, where: str
) -> None:
    ended(monkeypatch)
    Conformance("recorded_lab").record()
    lab.write_text(LAB.replace(old, new))
    outcome, message = ended(monkeypatch)
    assert outcome == "failed"
    assert f"with {where}" in message
    assert "--record" in message


def test_the_command_writes_the_record(
    lab: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "recorded_lab", raising=False)
    assert exit_code("plugins", "check", "recorded_lab", "--record") == 0
    assert capsys.readouterr().out.strip() == f"wrote {lab.with_name('recorded_lab.record.json')}"
    assert ended(monkeypatch)[0] == "passed"


def test_every_built_in_part_is_recorded(registry: Registry) -> None:
    for case in {id(case): case for _, case in Conformance(registry=registry).cases()}.values():
        if case.entry.kind in RECORDED:
            known = json.loads(path_of(case.part).read_text(encoding="utf-8"))
            assert f"{case.entry.kind}.{case.entry.name}" in known, "peirce plugins check PLUGIN --record"

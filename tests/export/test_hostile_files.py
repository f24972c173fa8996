"""Every reader with files that hang, fill memory or nest without end: one sentence each, little memory, little time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import hostile_files
import peirce
import pytest

SPEC = """format = 1
[model]
name = "small"
architecture = "folnet"
dims = { layers = 1, unary = 8, binary = 4, heads = 2, head_size = 4 }
input = { vocabulary = 20 }
operators = { layer = "j" }
positions = []
heads = [{ use = "classification", classes = 2 }]
"""
PLAIN = {"results deep", "columns deep", "glue deep"}
"""What nothing is nested in."""
MEGABYTES = 200


@pytest.mark.thorough
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="it counts addresses below /proc, and needs devices"
)
def test_no_file_hangs_a_reader_or_takes_its_memory(tmp_path: Path) -> None:
    spec, saved, work = tmp_path / "small.toml", tmp_path / "saved", tmp_path / "work"
    spec.write_text(SPEC)
    peirce.build(str(spec)).save(saved)
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", hostile_files.__file__, str(work), str(saved)],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in (work / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {name for name, kind, *_ in results if not kind} == PLAIN
    assert len(results) > 80
    assert results[-1][2].startswith("there is not enough memory for the inputs input_ids [20, 512] (")
    for name, kind, said, _, megabytes in results:
        if name not in PLAIN:
            assert kind == "PeirceError", f"{name}: {kind}: {said}"
            assert "\n" not in said.partition("\n  extended at ")[0], name
            assert len(said) <= peirce.errors.LONGEST, name
        assert megabytes < MEGABYTES, name

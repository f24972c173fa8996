"""What each ready spec asks of a GPU, seen without one: no pass waits for a value, records in a graph, and compiles."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from every_part import SEARCHES, SPECS
from shared_folder import ROOT

import peirce
from peirce.registry import ready_specs

QUICK = ("tega", "folnet-base", "nli-tpru", "gpt2-base")
READY = sorted({*SPECS} & {*ready_specs()})
COUNTS = {
    **dict.fromkeys(("betae", "clmpt", "cone", "fuzzqe", "gqe", "lmpnn", "q2p", "query2box"), "answers"),
    **dict.fromkeys(("nli-bidaf", "nli-tpru", "pair-bidaf", "pair-tpru"), "the longest text"),
    "ultra": "the edges of a graph",
}
"""What a pass waits for once, since computing without it would take several times as much; a recorded one does."""
DRAWS = ("relational-compose", "relational-rounds")
"""Specs that draw, on the CPU, how many layers a step of training has."""
BREAKS = ("folnet-hybrid", "sqe-gru", "sqe-lstm")
"""Specs with torch's own LSTM or GRU, which torch.compile leaves to their kernels."""


def find_waits(names: tuple[str, ...]) -> dict[str, dict[str, list[str]]]:
    """What would hold up a GPU in the passes of specs, each in a process that has such a device."""
    command = [sys.executable, str(ROOT / "tests" / "support" / "fake_card.py"), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, list[str]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("names", [QUICK, pytest.param(tuple(READY), marks=pytest.mark.thorough)])
def test_no_pass_holds_up_a_gpu(names: tuple[str, ...]) -> None:
    found = find_waits(names)
    assert set(found) == set(names)
    for name, passes in found.items():
        waiting = {what for what, lines in passes.items() if lines}
        if name in SEARCHES:
            assert waiting == {"forward", "step", "recorded forward"}
            assert "searches for answers" in passes["recorded forward"][0]
        elif name in DRAWS:
            assert waiting == {"step", "recorded step"}, passes
        elif name in COUNTS:
            assert waiting == {"forward", "step"}, passes
            assert len(passes["forward"]) == 1
        else:
            assert not waiting, (name, passes)


@pytest.mark.parametrize(
    ("name", "training"),
    [
        pytest.param(name, training, marks=() if name == "bert-base" else pytest.mark.thorough)
        for name in READY
        for training in (False, True)
        if name not in (DRAWS if training else SEARCHES)
    ],
)
def test_torch_compiles_it_without_a_break(name: str, training: bool) -> None:
    model = peirce.build(SPECS[name], seed=0).train(training)
    feeds = model.example_inputs()
    torch.compiler.reset()
    broken = pytest.raises(torch._dynamo.exc.Unsupported, match="LSTM") if name in BREAKS else nullcontext()
    try:
        with torch.set_grad_enabled(training), broken:
            torch.compile(model, backend="eager", fullgraph=True, dynamic=False)(**feeds)
    finally:
        torch.compiler.reset()

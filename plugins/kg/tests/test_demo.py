from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from peirce_kg.demo import SPECS, Demonstration
from peirce_kg.evaluation import Cell, Report


@pytest.mark.thorough
def test_a_miniature_of_the_demonstration(tmp_path: Path) -> None:
    console = Console(width=120, record=True)
    plan = Demonstration(
        directory=tmp_path / "demo", graph="nations", query="(embassy(usa,f))&(!(embassy(e1,usa)))",
        types=("1p", "2i", "2in"), train_queries=100, eval_queries=20, steps=40, margin=None, console=console,
    )  # fmt: skip
    reports = plan.run()
    text = console.export_text()
    assert list(reports) == ["random", "frequency", *SPECS]
    for words in ("$ peirce train tega", "40 steps", "$ peirce export", "$ peirce ask", "Exact answers:"):
        assert words in text
    for name in SPECS:
        folder = plan.directory / name
        assert (folder / "learning-curves.png").stat().st_size > 1000
        assert list((folder / "tensorboard").rglob("*tfevents*"))
        metrics = json.loads((folder / "metrics.json").read_text())
        assert str(reports[name].metrics()["entailed/mrr"])[:8] in json.dumps(metrics)
        before, after = (reports[n].mean("entailed").mrr for n in ("random", name))
        assert after > before


def _report(name: str, one: float, two: float) -> Report:
    cells = {kind: Cell(mrr, {1: 0.0, 3: 0.0, 10: 0.0}, 1, 1) for kind, mrr in (("1p", one), ("2i", two))}
    return Report(name, "test", {kind: {"entailed": cell} for kind, cell in cells.items()})


def test_both_models_must_beat_the_frequency_baseline(tmp_path: Path) -> None:
    base = {"frequency": _report("frequency", 0.5, 0.5)}
    good, poor_1p, poor_mean = _report("m", 0.7, 0.7), _report("m", 0.55, 0.9), _report("m", 0.65, 0.5)

    def holds(first: Report, second: Report, margin: float | None = 0.1) -> list[bool]:
        plan = Demonstration(directory=tmp_path, margin=margin)
        return [good for good, _ in plan.margins({**base, SPECS[0]: first, SPECS[1]: second})]

    assert holds(good, good) == [True, True, True, True]
    assert holds(poor_1p, good) == [False, True, True, True]
    assert holds(good, poor_mean) == [True, True, True, False]
    assert holds(poor_1p, poor_mean, None) == []

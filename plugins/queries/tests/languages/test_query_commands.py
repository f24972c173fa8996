from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kgqa_command import run

from peirce.errors import TaskError


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text('[[type]]\nname = "loop"\nformula = "(r1(e1,f))&(!(r2(f,f)))"\nseen = false\n')
    return path


def test_show_says_all_forms_of_a_query() -> None:
    shown = run("show", "(p,(r3),(u,(p,(r1),(s1)),(p,(r2),(s2))))")
    for form in (
        "((r1(s1,e1))|(r2(s2,e1)))&(r3(e1,f))",
        "(p,(r3),(u,(p,(r1),(s1)),(p,(r2),(s2))))",
        "((r1(s1,e1))&(r3(e1,f)))|((r2(s2,e1))&(r3(e1,f)))",
        "(r3(e1,f))&((r2(s2,e1))|(r1(s1,e1)))",
    ):
        assert form in shown
    found = json.loads(run("show", "3nmp", "--json"))
    assert found["schema"] == "peirce.kg.show/1"
    assert found["efo"] == "(r1(s1,e1))&(r2(e1,e2))&(r3(e2,f))&(!(r4(e1,e2)))"
    assert found["lisp"] is None
    assert found["lisp_refusal"].startswith("r2(e1,e2) and !(r4(e1,e2))")
    assert [found["features"][name] for name in ("multiple_edges", "cycle", "depth")] == [True, False, 3]
    assert "multiple edges, negation" in run("show", "3nmp")


def test_types_are_listed_with_their_features(own: Path) -> None:
    listed = json.loads(run("types", "--json"))["types"]
    assert len(listed) == 55
    assert {"name": "2p", "seen": True, "formula": "(r1(s1,e1))&(r2(e1,f))"}.items() <= listed[1].items()
    (line,) = [line for line in run("types", "--types-file", str(own)).splitlines() if "loop" in line]
    assert " ".join(line.split()) == "loop unseen cycle, existential leaf, negation 1 (r1(e1,f))&(!(r2(f,f)))"


def test_draw_takes_queries_and_types(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("draw", "2in") == "query.svg: 6 nodes, 5 edges\n"
    assert "<svg" in (tmp_path / "query.svg").read_text(encoding="utf-8")
    run("draw", "loop", "--types-file", str(own), "-o", "loop.png")
    assert (tmp_path / "loop.png").is_file()
    with pytest.raises(TaskError, match=r"unknown query type '3cnn'\. Did you mean '3cn'"):
        run("draw", "3cnn")
    with pytest.raises(TaskError, match=r"unknown query type '2in'.*Known: loop"):
        run("draw", "2in", "--types-file", str(own))
    with pytest.raises(TaskError, match="column 6: the end of the query"):
        run("draw", "r(a,f")


@pytest.mark.thorough
def test_the_commands_load_only_what_they_need(tmp_path: Path) -> None:
    """Of both commands neither loads torch or pykeen, and help loads no package that takes long."""
    script = (
        "import sys; from peirce.commands.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code\n"
        "print(sorted({'torch', 'pykeen', 'numpy', 'lark', 'matplotlib', 'networkx'} & set(sys.modules)))\n"
    )

    def loaded(*words: str) -> str:
        out = subprocess.check_output([sys.executable, "-c", script, *words], text=True)
        return out.splitlines()[-1]

    assert loaded("kg", "--help") == "[]"
    assert not {"torch", "pykeen"} & {*loaded("kg", "draw", "2p", "-o", str(tmp_path / "q.svg")).split("'")}

"""What `import peirce` and `peirce --help` load."""

from __future__ import annotations

import pytest
from command_line import Run, python_prints

from peirce.commands.lines import commands, published

HEAVY = ("torch", "numpy", "onnx", "onnxruntime", "cattrs", "hypothesis", "peirce_basics", "peirce_export")
_SHOW = f"import sys; print([name for name in {HEAVY} if name in sys.modules])"


@pytest.mark.parametrize("words", [None, ["--help"], ["plugins", "list", "--json"]])
def test_a_start_loads_nothing_heavy(words: list[str] | None) -> None:
    program = "import peirce" if words is None else f"from peirce.commands.main import main; main({words})"
    assert python_prints(f"import atexit; atexit.register(exec, {_SHOW!r}, {{}}); {program}") == "[]"


@pytest.mark.parametrize(
    ("program", "most"),
    [("import peirce", 100), ("from peirce.commands.main import main; main(['--help'])", 280)],
)
def test_startup_imports_few_modules(program: str, most: int) -> None:
    """Modules are what the time of a start goes into; counted, since others share the machine."""
    count = "import atexit, sys; atexit.register(lambda: print(len(sys.modules)))"
    assert int(python_prints(f"{count}; {program}")) < most


def test_help_does_not_read_what_is_installed_for_each_command() -> None:
    count = (
        "import atexit, collections, sys; read = collections.Counter()\n"
        "atexit.register(lambda: print(max(read.values())))\n"
        "sys.addaudithook(lambda event, args: event == 'open' and read.update([str(args[0])]))\n"
    )
    assert int(python_prints(f"{count}from peirce.commands.main import main; main(['--help'])")) < 12


def test_every_command_that_ships_has_a_line() -> None:
    lines = {
        one.name: one.help for one in commands() if all(e.distribution in published() for e in one.entries)
    }
    assert lines.keys() >= {"list", "plugins.list", "train", "export", "import.folnet"}
    bad = [name for name, line in lines.items() if not line.endswith(".") or line.startswith("Compose ")]
    assert bad == []


def test_version(peirce: Run) -> None:
    import importlib.metadata

    assert peirce("--version").stdout == f"peirce {importlib.metadata.version('peirce-core')}\n"

"""What `import peirce` and `peirce --help` load."""

from __future__ import annotations

import subprocess
import sys

import peirce
import pytest
from command_line import Run

HEAVY = ("torch", "numpy", "onnx", "onnxruntime", "cattrs", "hypothesis", "peirce_basics", "peirce_export")
_SHOW = f"import sys; print([name for name in {HEAVY} if name in sys.modules])"


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_import_loads_nothing_heavy() -> None:
    assert python(f"import peirce; {_SHOW}") == "[]"


def test_help_loads_nothing_heavy() -> None:
    program = (
        f"import atexit\nfrom peirce.commands.main import main\natexit.register(exec, {_SHOW!r}, {{}})\n"
        "main(['--help'])"
    )
    assert python(program) == "[]"


def test_a_static_listing_loads_nothing_heavy() -> None:
    program = (
        f"import atexit\nfrom peirce.commands.main import main\natexit.register(exec, {_SHOW!r}, {{}})\n"
        "main(['plugins', 'list', '--json'])"
    )
    assert python(program) == "[]"


@pytest.mark.parametrize(
    ("program", "most"),
    [("import peirce", 100), ("from peirce.commands.main import main; main(['--help'])", 280)],
)
def test_startup_imports_few_modules(program: str, most: int) -> None:
    """Modules are what the time of a start goes into; counted, since others share the machine."""
    count = "import atexit, sys; atexit.register(lambda: print(len(sys.modules)))"
    assert int(python(f"{count}; {program}")) < most


def test_help_does_not_read_what_is_installed_for_each_command() -> None:
    count = (
        "import atexit, collections, sys; read = collections.Counter()\n"
        "atexit.register(lambda: print(max(read.values())))\n"
        "sys.addaudithook(lambda event, args: event == 'open' and read.update([str(args[0])]))\n"
    )
    assert int(python(f"{count}from peirce.commands.main import main; main(['--help'])")) < 12


def test_every_public_name_can_be_used() -> None:
    for name in peirce.__all__:
        assert getattr(peirce, name) is not None
    assert set(peirce.__all__) <= set(dir(peirce))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        peirce.nothing  # noqa: B018


def test_help_names_every_command(peirce: Run) -> None:
    done = peirce("--help", beside=("good",))
    assert done.returncode == 0
    listed = {line.split()[0] for line in done.stdout.split("Commands:")[1].splitlines() if line.strip()}
    expected = {"list", "describe", "plugins", "spec", "summary", "doctor"}
    expected |= {"train", "evaluate", "ask", "export", "verify", "run"}
    assert expected <= listed
    assert "Greets (peirce-good)" in done.stdout


def test_version(peirce: Run) -> None:
    import importlib.metadata

    assert peirce("--version").stdout == f"peirce {importlib.metadata.version('peirce')}\n"

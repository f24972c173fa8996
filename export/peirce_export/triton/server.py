"""`peirce serve`: a repository, served by the Triton Inference Server of the wheel `nvidia-pytriton`, without Docker.

The wheel's Python backend was built against numpy 1, and gives empty tensors with numpy 2. So it runs in an interpreter
that has what this one has, but for a numpy 1 from a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from peirce.errors import InputError, UnavailableError

NUMPY = "PEIRCE_TRITON_NUMPY"
"""The variable that names the folder of numpy 1, where `--numpy` does not."""
KINDS = ("http", "grpc", "metrics")
INSTALL = "python -m pip install --no-deps nvidia-pytriton"
INSTALL_NUMPY = "python -m pip install --no-deps --target numpy1 numpy==1.26.4"


def serve(
    repository: Annotated[
        Path, typer.Argument(metavar="PATH", help="What `peirce export --to triton` wrote.")
    ],
    host: Annotated[str, typer.Option(metavar="TEXT", help="The address that it listens at.")] = "127.0.0.1",
    http: Annotated[int, typer.Option(min=1, max=65535, help="The port of HTTP.")] = 8000,
    grpc: Annotated[int, typer.Option(min=1, max=65535, help="The port of gRPC.")] = 8001,
    metrics: Annotated[int, typer.Option(min=1, max=65535, help="The port of metrics.")] = 8002,
    numpy: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=f"A folder with numpy 1 for its Python backend; ${NUMPY} if absent."
        ),
    ] = None,
) -> None:
    """Serve models of the kind `python` without Docker, by the server of the wheel nvidia-pytriton, until Ctrl-C."""
    if not repository.is_dir():
        write = f"peirce export MODEL --to triton --kind python -o {repository}"
        raise InputError(f"folder {repository} does not exist; write one with `{write}`")
    given = numpy or (Path(os.environ[NUMPY]) if os.environ.get(NUMPY) else None)
    ports = dict(zip(KINDS, (http, grpc, metrics), strict=True))
    with tempfile.TemporaryDirectory(prefix="peirce-serve-") as folder:
        command, environment = server_command(repository, Path(folder), ports, given, host)
        with subprocess.Popen(command, env=environment) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.terminate()
                code = process.wait() and 0
    raise typer.Exit(code)


def server_command(
    repository: Path, folder: Path, ports: Mapping[str, int], numpy: Path | None, host: str = "127.0.0.1"
) -> tuple[list[str], dict[str, str]]:
    """The command that serves a repository, and its environment.

    Args:
        repository: what is served.
        folder: for the backend and its interpreter, empty, until the server has ended.
        ports: of http, grpc and metrics.
        numpy: a folder with numpy 1.
        host: the address.

    Raises:
        UnavailableError: the server is not installed, has no backend for this Python, or lacks numpy 1.
    """
    found = find_spec("pytriton")
    if found is None or found.origin is None:
        raise UnavailableError(f"the server is not installed; run `{INSTALL}`, or use NVIDIA's image")
    home, version = Path(found.origin).parent / "tritonserver", "{}.{}".format(*sys.version_info)
    stub = home / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.is_file():
        known = ", ".join(sorted(each.name for each in stub.parent.parent.glob("*")))
        raise UnavailableError(f"the server's backend does not support Python {version}; it supports {known}")
    if numpy is None or not (numpy / "numpy").is_dir():
        where = "--numpy is not given" if numpy is None else f"{numpy} does not contain it"
        raise UnavailableError(
            f"the server's Python backend needs numpy 1, and {where}; run `{INSTALL_NUMPY}`, and give --numpy numpy1"
        )
    backend = folder / "backends" / "python"
    backend.mkdir(parents=True)
    for name in ("libtriton_python.so", "triton_python_backend_utils.py"):
        shutil.copy2(home / "backends" / "python" / name, backend / name)
    shutil.copy2(stub, backend / stub.name)
    (backend / stub.name).chmod(0o755)
    command = [
        str(home / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backend.parent}",
        "--backend-config=python,stub-timeout-seconds=120",
        *(f"--{kind}-address={host}" for kind in KINDS),
        *(f"--{kind}-port={ports[kind]}" for kind in KINDS),
    ]
    environment = {
        **os.environ,
        "PATH": f"{_interpreter(folder / 'python', numpy)}{os.pathsep}{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(home.parents[1] / "nvidia_pytriton.libs"),  # the stub has been moved
    }
    return command, environment


def _interpreter(folder: Path, numpy: Path) -> Path:
    """Where a Python lies that imports what this one does, but numpy from a folder; the stub finds it on PATH."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    places = [
        sysconfig.get_path("purelib"),
        *(each for each in sys.path if Path(each).name == "site-packages"),
    ]
    lines = [
        str(numpy.resolve()),
        *(f"import site; site.addsitedir({each!r})" for each in dict.fromkeys(places)),
    ]
    (packages / "first.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "bin"

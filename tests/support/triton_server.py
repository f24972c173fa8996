"""Triton Inference Server on the loopback address, as `nvidia-pytriton` ships it, for the tests of `tox -e serve`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

NUMPY = os.environ.get("PEIRCE_TRITON_NUMPY")
"""A folder with numpy 1, which the Python backend of nvidia-pytriton 0.7 was built against."""
INSTALLED = find_spec("pytriton") is not None and find_spec("tritonclient") is not None and NUMPY is not None
START = 150.0
"""Seconds that a server may take to start on a machine that is busy."""


@frozen
class Server:
    """A server that is ready.

    Args:
        http: its HTTP address, `127.0.0.1:port`.
        grpc: its gRPC address.
        log: what it said so far.
    """

    http: str
    grpc: str
    log: Path

    def client(self) -> Any:
        """A client of gRPC; close it."""
        from tritonclient.grpc import InferenceServerClient

        return InferenceServerClient(self.grpc)


@contextmanager
def serving(repository: Path, folder: Path, *arguments: str) -> Iterator[Server]:
    """A server of a repository, until the block ends.

    Args:
        repository: the repository.
        folder: for its files, empty.
        arguments: further arguments of `tritonserver`.
    """
    backends, log = _backends(folder / "backends"), folder / "log.txt"
    ports = _free_ports(3)
    command = [
        str(_home() / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        "--backend-config=python,stub-timeout-seconds=120",
        *(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")),
        *(f"--{kind}-port={port}" for kind, port in zip(("http", "grpc", "metrics"), ports, strict=True)),
        *arguments,
    ]
    environment = {
        **os.environ,
        "PATH": f"{_python(folder / 'python')}{os.pathsep}{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(_home().parents[1] / "nvidia_pytriton.libs"),  # the stub has been moved
    }
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    try:
        server = Server(f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}", log)
        _wait(process, server)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tensors(feeds: Mapping[str, Any]) -> list[Any]:
    """A request's inputs."""
    from tritonclient.grpc import InferInput
    from tritonclient.utils import np_to_triton_dtype

    made = []
    for name, array in feeds.items():
        made.append(InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        made[-1].set_data_from_numpy(array)
    return made


def texts(**fields: str | Sequence[str]) -> list[Any]:
    """A request's inputs of one text or several each."""
    return tensors(
        {
            name: np.array(
                [each.encode() for each in ([given] if isinstance(given, str) else given)], np.object_
            )
            for name, given in fields.items()
        }
    )


def _wait(process: subprocess.Popen[bytes], server: Server) -> None:
    from urllib.error import URLError
    from urllib.request import urlopen

    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(f"http://{server.http}/v2/health/ready", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            pass
        time.sleep(0.2)
    raise RuntimeError(f"the server did not start:\n{server.log.read_text(errors='replace')[-6000:]}")


def _home() -> Path:
    found = find_spec("pytriton")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "tritonserver"


def _backends(folder: Path) -> Path:
    """The Python backend with the stub of this Python."""
    python = folder / "python"
    python.mkdir(parents=True)
    for name in ("libtriton_python.so", "triton_python_backend_utils.py"):
        shutil.copy2(_home() / "backends" / "python" / name, python / name)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = _home() / "python_backend_stubs" / version / "triton_python_backend_stub"
    shutil.copy2(stub, python / stub.name)
    (python / stub.name).chmod(0o755)
    return folder


def _python(folder: Path) -> Path:
    """Where an interpreter lies that imports what this one does, but numpy 1; the stub finds it on PATH."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    places = [
        sysconfig.get_path("purelib"),
        *(each for each in sys.path if Path(each).name == "site-packages"),
    ]
    lines = [str(NUMPY), *(f"import site; site.addsitedir({each!r})" for each in dict.fromkeys(places))]
    (packages / "first.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "bin"


def _free_ports(count: int) -> list[int]:
    """Ports that nothing listens at; all are held until the last is found, so that no two are one."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()

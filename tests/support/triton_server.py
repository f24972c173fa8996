"""Triton Inference Server on the loopback address, as `nvidia-pytriton` ships it, for the tests of `tox -e serve`."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from peirce_export.triton.server import KINDS, server_command

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
def serving(repository: Path, folder: Path, *arguments: str, numpy: str | None = NUMPY) -> Iterator[Server]:
    """A server of a repository, until the block ends.

    Args:
        repository: the repository.
        folder: for its files, empty.
        arguments: further arguments of `tritonserver`.
        numpy: where its Python backend finds numpy.
    """
    log, ports = folder / "log.txt", dict(zip(KINDS, _free_ports(3), strict=True))
    command, environment = server_command(repository, folder, ports, numpy and Path(numpy))
    command += arguments
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    try:
        server = Server(f"127.0.0.1:{ports['http']}", f"127.0.0.1:{ports['grpc']}", log)
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

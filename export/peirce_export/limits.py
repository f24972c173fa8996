"""A command in a process of its own, which may take so much time and memory and no more.

A graph that never ends, or takes all memory, cannot be told from others before it runs. Run as a module, this file is
the child: it imports the libraries, sets the limits, which count from then on, and becomes the command.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from runpy import run_module

from attrs import frozen
from peirce.errors import InputError, ModelFileError, printable
from peirce.files import parse_size

_IMPORTS = 300
"""Seconds that the child may take before its own clock runs."""
_SHOWN = 1 << 16
_UNITS = {"S": 1, "SEC": 1, "M": 60, "MIN": 60, "H": 3600}
_LIBRARIES = ("numpy", "onnxruntime", "onnx", "torch", "peirce.compose", "peirce_export.verify")
_FAILED = 2


@frozen(kw_only=True)
class Limit:
    """What a process may take.

    Args:
        seconds: of wall-clock time; None without a bound.
        memory: bytes beside what the libraries take; None without a bound.
    """

    seconds: float | None = None
    memory: int | None = None

    def __str__(self) -> str:
        """In words, such as `60 s and 4 GB`."""
        parts = [f"{self.seconds:,.10g} s"] if self.seconds is not None else []
        parts += [f"{self.memory / 1e9:,.4g} GB"] if self.memory is not None else []
        return " and ".join(parts)


def parse_limit(text: str) -> Limit:
    """A limit as it is written, such as `60s,4GB`, `5min` or `500MB`.

    Raises:
        InputError: it is none.
    """
    found: dict[str, float] = {}
    for item in text.split(","):
        if re.fullmatch(r"[\d.\s]*", item):
            raise InputError(
                f"limit {text!r}: {item!r} has no unit; write a time, a size or both, such as 60s,4GB"
            )
        time = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|sec|m|min|h)", item.strip(), re.IGNORECASE)
        try:
            key, value = (
                ("seconds", float(time[1]) * _UNITS[time[2].upper()])
                if time
                else ("memory", parse_size(item))
            )
        except ValueError as error:
            raise InputError(
                f"limit {text!r}: {error}; write a time, a size or both, such as 60s,4GB"
            ) from None
        if key in found or not value:
            raise InputError(f"limit {text!r}: give one time, one size or both, above 0, such as 60s,4GB")
        found[key] = value
    memory = found.get("memory")
    return Limit(seconds=found.get("seconds"), memory=None if memory is None else int(memory))


def run_limited(arguments: Sequence[str], limit: Limit, what: str) -> int:
    """Run a command of `peirce` in a process of its own; what it prints is printed.

    Args:
        arguments: of the command line.
        limit: what it may take. Memory is limited where the system can do so, which Linux can.
        what: the file that it works on, for errors.

    Returns:
        Its exit code.

    Raises:
        ModelFileError: it reached a limit, or ended in the middle of the runtime.
    """
    command = [sys.executable, "-P", "-m", "peirce_export.limits"]
    command += [repr(limit.seconds or 0), str(limit.memory or 0), *arguments]
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, stderr=said, start_new_session=True)
        try:
            code = child.wait(limit.seconds + _IMPORTS if limit.seconds is not None else None)
        except subprocess.TimeoutExpired:
            code = -getattr(signal, "SIGALRM", 14)
        finally:
            if child.poll() is None:
                _end(child)
        said.seek(0)
        text = said.read(_SHOWN).decode(errors="replace")
    if code < 0:
        raise ModelFileError(f"{what} {_ended(-code, limit)}; a file that does this is not fit to be served")
    sys.stderr.write(text)
    return code


def _end(child: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()


def _ended(number: int, limit: Limit) -> str:
    if number in {14, *(getattr(signal, name, 14) for name in ("SIGALRM", "SIGXCPU"))}:
        return f"was not done within the limit of {limit}"
    return (
        f"ended its process with {signal.Signals(number).name} within the limit of {limit}: it took more memory, or "
        "broke the runtime"
    )


def _become(arguments: Sequence[str]) -> int:
    """The child: limit this process, and run the command."""
    seconds, memory, *command = arguments
    for name in _LIBRARIES[: 2 if "--alone" in command else None]:
        if find_spec(name.partition(".")[0]) is not None:
            # What is missing the command says itself.
            try:
                import_module(name)
            except ImportError:
                continue
    limit = Limit(seconds=float(seconds) or None, memory=int(memory) or None)
    try:
        _restrict(limit)
        sys.argv = ["peirce", *command]
        run_module("peirce", run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else _FAILED
    except BaseException as error:
        # Whatever a library raises where there is no memory left, it is said in one line.
        cause = printable(" ".join(str(error).split()), 300)
        sys.stderr.write(f"error: it failed within the limit of {limit}: {type(error).__name__}: {cause}\n")
    return _FAILED


def _restrict(limit: Limit) -> None:
    try:
        import resource
    except ImportError:  # on Windows, where the parent's clock alone counts
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limit.memory is not None and (taken := _address_space()):
        resource.setrlimit(resource.RLIMIT_AS, (taken + limit.memory,) * 2)
    if limit.seconds is not None:
        # Of all threads together.
        busy = math.ceil(limit.seconds * (os.cpu_count() or 1)) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (busy, busy + 1))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit.seconds)


def _address_space() -> int:
    """Bytes of addresses that this process has; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


if __name__ == "__main__":
    sys.exit(_become(sys.argv[1:]))

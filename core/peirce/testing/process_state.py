"""What a process shares among all that runs in it; as a program, what importing a plug-in changes of that."""

from __future__ import annotations

import builtins
import decimal
import gc
import hashlib
import json
import locale
import logging
import multiprocessing
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

PATCHABLE = ("builtins", "torch", "torch.nn", "torch.nn.functional", "torch.Tensor", "numpy", "peirce.parts")
"""What holds functions that everybody calls, and nobody may replace."""


def process_state() -> dict[str, Any]:
    """What a process shares, by a name for a reader; plain values, which differ when it does."""
    return {
        "the random state of Python": _digest(random.getstate()),
        "the random state of numpy": _digest(np.random.get_state(legacy=False)),
        "the random state of torch": _digest(torch.get_rng_state().tolist()),
        "torch's default dtype": str(torch.get_default_dtype()),
        "torch's default device": str(torch.get_default_device()),
        "torch's grad mode": torch.is_grad_enabled(),
        "torch's anomaly mode": torch.is_anomaly_enabled(),
        "torch's autocast": [torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")],
        "torch's deterministic flags": [
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.backends.cudnn.deterministic,
            torch.backends.cudnn.benchmark,
        ],
        "torch's precision of products": [
            torch.get_float32_matmul_precision(),
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
        ],
        "torch's threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "numpy's error handling": np.geterr(),
        "the warnings filters": [str(each) for each in warnings.filters],
        "how warnings are shown": _name(warnings.showwarning),
        "the threads": sorted(thread.name for thread in threading.enumerate()),
        "the environment": dict(os.environ),
        "the working directory": os.getcwd(),
        "the mask of new files": _mask(),
        "the signal handlers": {each.name: _name(signal.getsignal(each)) for each in signal.Signals},
        "sys.path": list(sys.path),
        "the import hooks": [_name(each) for each in (*sys.meta_path, *sys.path_hooks)],
        "sys.argv": list(sys.argv),
        "the excepthook": _name(sys.excepthook),
        "the standard streams": [id(sys.stdin), id(sys.stdout), id(sys.stderr)],
        "the recursion limit": sys.getrecursionlimit(),
        "the switch interval": sys.getswitchinterval(),
        "the locale": locale.setlocale(locale.LC_ALL),
        "logging": _logging(),
        "the start method of processes": multiprocessing.get_start_method(allow_none=True),
        "the garbage collector": [gc.isenabled(), gc.get_threshold()],
        "the decimal context": str(decimal.getcontext()),
        "the timeout of sockets": socket.getdefaulttimeout(),
        **{f"functions of {name}": _functions(name) for name in PATCHABLE},
    }


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What differs between two states, a line each."""
    lines = []
    for name, old in before.items():
        new = after[name]
        if isinstance(old, dict):
            # A submodule that is imported for the first time becomes a new name of its package: no function changes.
            kept = name.startswith("functions of")
            keys = [k for k in {**old, **new} if old.get(k) != new.get(k) and (k in old or not kept)]
            if keys:
                lines.append(f"{name}: {', '.join(sorted(keys))}")
        elif old != new:
            shown = "" if isinstance(old, str) and len(old) == _DIGEST else f": {old} before, {new} after"
            lines.append(name + shown[:300])
    return lines


_DIGEST = 64


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _name(value: object) -> str:
    return f"{type(value).__name__} {getattr(value, '__qualname__', value)}"


def _mask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _logging() -> dict[str, str]:
    root, ours = logging.getLogger(), logging.getLogger("peirce")
    return {
        "the root logger": f"{root.level} {root.handlers} {root.filters}",
        "the logger of peirce": f"{ours.level} {ours.handlers} {ours.filters} {ours.propagate} {ours.disabled}",
        "the level that is switched off": str(logging.root.manager.disable),
        "the class of loggers": _name(logging.getLoggerClass()),
        "the factory of records": _name(logging.getLogRecordFactory()),
    }


def _functions(where: str) -> dict[str, int]:
    module: Any = torch.Tensor if where == "torch.Tensor" else import_module(where)
    if module is builtins:
        return {name: id(value) for name, value in vars(builtins).items() if name != "_"}
    return {name: id(value) for name, value in list(vars(module).items()) if callable(value)}


@contextmanager
def printed() -> Iterator[IO[bytes]]:
    """Catch what is printed, by libraries in C too; the file is to be read when it is over."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1), os.dup(2)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)


def _of_import(module: str) -> list[str]:
    """What importing a plug-in and asking it for its parts changes and prints, a line each."""
    from peirce.registry import Registry

    before, here = process_state(), set(os.listdir())
    with printed() as output:
        import_module(module)
        Registry.of(module)
        sys.stdout.flush()
        sys.stderr.flush()
        output.seek(0)
        said = output.read().decode(errors="replace").strip()
    found = changes(before, process_state())
    if said:
        found.append(f"it prints {said.splitlines()[0][:200]!r}")
    files = set(os.listdir()) - here
    if files:
        found.append(f"it writes to the working directory: {', '.join(sorted(files))}")
    return found


def main(file: str, *modules: str) -> None:
    """Write what importing each of some modules changes, or why it cannot be imported.

    Each is imported in a process of its own, which begins as this one. Where that changes something, it is done again
    with what the module's libraries do at their import done before: that is not the module's doing.

    Args:
        file: where to write.
        modules: the modules.
    """
    from peirce.registry import Registry

    Registry.of("peirce.testing.companions")  # what plug-ins import of Peirce is there before
    found = {}
    for module in modules:
        found[module] = _apart(module, [])
        if found[module].get("changes") and found[module]["libraries"]:
            found[module] = _apart(module, found[module]["libraries"])
    Path(file).write_text(json.dumps(found), encoding="utf-8")


def _apart(module: str, libraries: Sequence[str]) -> dict[str, Any]:
    """What `_write` finds in another process."""
    forks = "fork" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("fork" if forks else "spawn")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "found.json")
        place = Path(folder, "empty")
        place.mkdir()
        process = context.Process(target=_write, args=(str(file), str(place), module, list(libraries)))
        process.start()
        process.join()
        if not file.is_file():
            return {"changes": [f"the process, which ends with {process.exitcode}"], "libraries": []}
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found


def _write(file: str, place: str, module: str, libraries: Sequence[str]) -> None:
    os.chdir(place)
    for name in libraries:
        with suppress(Exception):
            import_module(name)
    known = set(sys.modules)
    try:
        found: dict[str, Any] = {"changes": _of_import(module)}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    own = module.partition(".")[0]
    found["libraries"] = [each for each in sys.modules if each not in known and each.partition(".")[0] != own]
    Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

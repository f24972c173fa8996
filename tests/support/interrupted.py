"""Commands in processes of their own that are killed, told to end or limited: `interrupted.py CASES MODULE...`.

CASES is a JSON file: a list of `{"arguments", "folder", "how", "at"}`. A case is a fork of a process that has imported
the modules. How: `SIGKILL`, `SIGTERM` or `SIGINT` at the given touch of something in the folder; `size` for files of so
many bytes at most; empty to let it end. Printed is, for each, its exit code, what it said, and what its folder holds.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kills import below, signal_at

TRACEBACK = 99


def _run(case: dict[str, Any]) -> int:
    from peirce.commands.main import main

    if case["how"] == "size":
        resource.setrlimit(resource.RLIMIT_FSIZE, (case["at"], case["at"]))
    elif case["how"]:
        signal_at(signal.Signals[case["how"]], case["at"], below(case["folder"]))
    try:
        main(case["arguments"])
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return TRACEBACK
    return 0


def main(cases: Path, modules: Sequence[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    ends = []
    for case in json.loads(cases.read_text()):
        said, say = os.pipe()  # not a file, which a limit would cut
        child = os.fork()
        if child == 0:
            for stream in (1, 2):
                os.dup2(say, stream)
            code = TRACEBACK
            try:
                code = _run(case)
            finally:
                os._exit(code)
        os.close(say)
        with os.fdopen(said, encoding="utf-8", errors="replace") as told:
            text = told.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        left = sorted(str(path.relative_to(case["folder"])) for path in Path(case["folder"]).rglob("*"))
        ends.append({"code": code, "said": text, "left": left})
    print(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

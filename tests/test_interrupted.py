"""Real commands that are killed, told to end, or meet a limit: nothing half-written, and the next run ends as ever."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import interrupted
import pytest
from command_line import exit_code
from interrupted import TRACEBACK
from small_texts import blocks, documents
from thorough import often
from toy_tasks import FOLNET

import peirce
from peirce.registry import Registry

KINDS = ("size", "SIGTERM", "SIGKILL")
FEW = ("train", "kg sample", "tokenizer train")
"""Those that take a second; an export takes twenty."""
_MODULES = (
    "accelerate",
    "matplotlib.backends.backend_agg",
    "peirce_training.loop",
    "peirce_kg.commands",
    "pyarrow.parquet",
)
_SETTINGS = ("train.steps=4", "train.save_every=2", "train.device=cpu", "train.threads=1", "batch=8")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("base")
    draw = random.Random(0)
    (folder / "graph").mkdir()
    for split, count in (("train", 200), ("valid", 20), ("test", 20)):
        facts = [(draw.randrange(30), draw.randrange(3), draw.randrange(30)) for _ in range(count)]
        lines = "".join(f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in facts)
        (folder / "graph" / f"{split}.tsv").write_text(lines)
    (folder / "spec.toml").write_text(FOLNET.to_toml())
    (folder / "texts.txt").write_text(blocks(documents(30)))
    (folder / "queries.jsonl").write_text('{"query": "r1(e1,f)"}\n' * 50)
    (folder / "tiny.toml").write_text(
        'format = 1\nspec = "folnet-base"\nbatch = 8\nvocabulary = 140\n[model]\nname = "tiny"\n[model.dims]\n'
        "layers = 1\nunary = 16\nbinary = 4\nheads = 2\nhead_size = 8\n[model.positions.0]\nclip = 8\n[task]\n"
        'length = 24\nbatch_size = 8\n[train]\nsteps = 4\ndevice = "cpu"\nthreads = 1\nsave_every = 2\n'
    )
    return folder


def commands(base: Path, out: Path) -> dict[str, list[object]]:
    """A small run of each command that writes."""
    toy = [part for setting in _SETTINGS for part in ("--set", setting)]
    small = (
        *(
            "model.dims.layers=1",
            "model.dims.unary=16",
            "model.dims.heads=2",
            "train.steps=2",
            "train.threads=1",
        ),
        *("task.train_queries=10", "task.eval_queries=2", "task.batch_size=16"),
    )
    graph, made = ["--graph", base / "graph"], base / "made" / "model"
    return {
        "train": ["train", base / "spec.toml", "--task", "marked", *toy, "-o", out / "model"],
        "kg sample": ["kg", "sample", *graph, "--types", "1p,2i", "--count", "40", "-o", out / "queries"],
        "export": ["export", made, "-o", out / "model.onnx"],
        "tokenizer train": [
            *("tokenizer", "train", base / "texts.txt", "--vocabulary", "140", "-o", out / "new" / "tokenizer.json"),
        ],
        "pretrain": ["pretrain", base / "tiny.toml", "--data", base / "texts.txt", "-o", out / "model"],
        "finetune": [
            *("finetune", made, "--task", "marked", *toy, "--set", "train.lr=[1e-3,2e-3]", "--seeds", "0"),
            *("-o", out / "search"),
        ],
        "tune": [
            *("tune", base / "spec.toml", "--task", "marked", *toy, "--over", "train.lr=1e-3,2e-3"),
            *("-o", out / "tuned"),
        ],
        "experiments": [
            *("experiments", "run", "tega/table3", *graph, "--seeds", "0", "--row", "Trans.+Absolute PE, EFO"),
            *(part for setting in small for part in ("--set", setting)),
            *("-o", out / "results"),
        ],
        "kg embed": ["kg", "embed", *graph, "--dim", "8", "--epochs", "1", "-o", out / "new" / "v.safetensors"],
        "kg answer": ["kg", "answer", *graph, "--queries", base / "queries.jsonl", "-o", out / "answers.jsonl"],
        "export, with data": [
            *("export", made, "--external-above", "1", "--precision", "bfloat16", "-o", out / "model.onnx"),
        ],
    }  # fmt: skip


_HOLDER = """
import sys
from contextlib import ExitStack
from pathlib import Path
from peirce.files import hold_lock
with ExitStack() as held:
    for place in sys.argv[1:]:
        held.enter_context(hold_lock(Path(place), folder=not Path(place).suffix and Path(place).name != "train"))
    print("holds", flush=True)
    sys.stdin.read()
"""


def test_where_another_process_writes_every_command_is_refused_at_the_start(
    base: Path, toy_registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = FOLNET.replace(
        {"model.input.vocabulary": 10, "model.heads": [{"use": "classification", "classes": 2}]}
    )
    peirce.build(spec, registry=toy_registry).save(base / "made" / "model")
    places = {name: _place(given) for name, given in commands(base, tmp_path).items() if name != "kg answer"}
    command = [sys.executable, "-P", "-c", _HOLDER, *map(str, dict.fromkeys(places.values()))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        before = sorted(tmp_path.rglob("*"))
        for name, place in places.items():
            assert exit_code(*commands(base, tmp_path)[name]) == 2, name
            said = capsys.readouterr().err
            refused = f"another process writes to {place}; wait until it has ended, or give another place"
            assert said.endswith(f"error: {refused}\n"), said
        assert sorted(tmp_path.rglob("*")) == before
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def _place(arguments: Sequence[object]) -> Path:
    """What a command owns."""
    output = Path(str(arguments[-1]))
    return output / "train" if output.name == "queries" else output


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups of this kind")
@pytest.mark.parametrize(
    ("how", "times"), often([("SIGINT", 1), ("SIGINT", 2), ("SIGKILL", 1)], [("SIGINT", 2), ("SIGKILL", 1)])
)
def test_processes_beside_a_command_end_with_it(how: str, times: int, tmp_path: Path) -> None:
    number = signal.Signals[how]
    said = tmp_path / "said"
    command = [
        "-m",
        "peirce",
        "entailment",
        "generate",
        tmp_path / "made",
        "--pairs",
        "40000",
        "--workers",
        "2",
    ]
    # a shell that runs tests in the background has it ignored
    heard = "import os, signal, sys; signal.signal(2, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", heard, sys.executable, "-P", *map(str, command)],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        while process.poll() is None and not list(tmp_path.glob("made/.*.parts/*.gz")):
            time.sleep(0.01)
        for _ in range(times):
            # A terminal sends Ctrl-C to all of them.
            (os.killpg if how == "SIGINT" else os.kill)(process.pid, number)
        code = process.wait()
    while _session(process.pid):
        time.sleep(0.01)
    if how == "SIGINT":
        assert said.read_text() == "ended by Ctrl-C; what was complete is kept, and nothing else\n"
    assert code == {"SIGINT": 130, "SIGKILL": -9}[how]
    assert not list(tmp_path.glob("made/.*.parts/.*")) or how == "SIGKILL"


def _session(number: int) -> list[int]:
    """The processes of a session."""
    listed = subprocess.run(["ps", "-A", "-o", "sess=,pid="], capture_output=True, text=True, check=True)
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return [int(process) for session, process in pairs if int(session) == number]


@pytest.mark.thorough
def test_interrupted_commands_leave_nothing_half_written(
    base: Path, registry_file: Path, tmp_path: Path
) -> None:
    draw = random.Random(0)
    cases: list[dict[str, Any]] = []

    def case(name: str, folder: Path, how: str = "", at: int = 0, *more: str) -> dict[str, Any]:
        folder.mkdir(exist_ok=True)
        arguments = [*map(str, commands(base, folder)[name]), *more]
        cases.append({"command": name, "arguments": arguments, "folder": str(folder), "how": how, "at": at})
        return cases[-1]

    for name in FEW:
        case(name, tmp_path / f"{name}, whole")
        for how in KINDS:
            at = draw.choice((0, 90, 700, 3000, 12000)) if how == "size" else draw.randint(1, 40)
            folder = tmp_path / f"{name}, {how}"
            case(name, folder, how, at)
            case(name, folder, "", 0, *(["--resume"] if name == "train" else []))
    whole: dict[str, list[str]] = {}
    for told, end in zip(cases, _ends(cases, registry_file, tmp_path), strict=True):
        where = f"{told['command']}, {told['how']} {told['at']}: {end}"
        assert end["code"] != TRACEBACK, where
        assert "Traceback" not in end["said"], where
        if not told["how"]:
            assert end["code"] == 0, where
            assert _named(end["left"]) == whole.setdefault(told["command"], _named(end["left"])), where
        elif told["how"] == "size":
            assert end["code"] in (0, 1), where
            assert end["said"].count("error: ") == end["said"].count("run it again") == end["code"], where
        else:
            number = signal.Signals[told["how"]]
            assert end["code"] in (0, 143 if number == signal.SIGTERM else -number), where
        if told["how"] != "SIGKILL":
            hidden = [name for name in end["left"] if re.search(r"(^|/)\.(?!blocks(/[^.]|$))", name)]
            assert not hidden, where


def _named(left: list[str]) -> list[str]:
    """Names of files, without those of TensorBoard, which have the time and the process in them."""
    return [name for name in left if "tfevents" not in name]


def _ends(cases: list[dict[str, Any]], registry_file: Path, tmp_path: Path) -> list[Mapping[str, Any]]:
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    support = str(Path(interrupted.__file__).parent)
    own = {"PYTHONPATH": support, "OMP_NUM_THREADS": "1", "PEIRCE_REGISTRY": str(registry_file)}
    command = [sys.executable, interrupted.__file__, str(tmp_path / "cases.json"), *_MODULES]
    done = subprocess.run(command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True, check=True)
    ends: list[Mapping[str, Any]] = json.loads(done.stdout)
    return ends

"""The share of mutants that the conformance suite kills: how many slips in a part's source some check of it notices.

A mutant is a part built from its own source with one slip (`mutations.py`). It is killed if any check fails on it, the
check `record` left out: a stranger's part has no record. Of what passes them it is noted whether `record` fails.
One process runs all mutants of a part. For each it loads the part's modules anew, runs the checks in the order that
killed most in least time so far, and stops at the first failure. A mutant that cannot be built or raises in its first
call is counted apart: any test would see it. So is one that changes nothing, or what no check runs in this part, as a
branch of another part that shares the code.

    python benchmarks/mutants.py                        every part of every kind
    python benchmarks/mutants.py operators.join         one part
    python benchmarks/mutants.py --plugin my_lab        those of a plug-in

What is done stays in `--kept` (a line of JSON a mutant) and is not done again. Survivors that are equivalent to the
part are listed in `mutants.toml`, each with its reason.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from copy import copy
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from io import StringIO
from pathlib import Path
from random import Random
from types import CodeType, FrameType, ModuleType
from typing import Any, ClassVar

import torch
from attrs import evolve
from measuring import record
from mutations import HELPERS, SEEN, Mutant, mutants, regions

from peirce.registry import KINDS, Registered, Registry
from peirce_testing.check import Case, Check
from peirce_testing.checks import CHECKS
from peirce_testing.checks.tasks import use_everything
from peirce_testing.compare import BrokenError, NotApplicableError, NotRunError
from peirce_testing.examples import plain_view
from peirce_testing.harness.labels import WHOLE_GROUPS, losses
from peirce_testing.harness.sized import HeadHarness
from peirce_testing.options import example_options
from peirce_testing.stub_parts import with_stub_parts

HERE = Path(__file__).resolve().parent
LIMIT = 30.0
"""Seconds of CPU time that one check may take."""
LAST = ("memory", "save_load")
"""Checks of whole models, which are run last."""
UNCHANGED = ("task_process",)
"""Checks that ask another process, where the part has no slip."""
TRACED = ("onnx", "compiled")
"""Checks that trace a part, which has no notes then: they are run last of all."""


class OverTimeError(BaseException):
    """A check took too long; no `except Exception` of a part or a check stops it."""


class _Changed(MetaPathFinder, Loader):
    """Imports one module from other code."""

    def __init__(self, name: str, code: CodeType | None) -> None:
        self.name, self.code = name, code

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """The module, if it is that one."""
        return ModuleSpec(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the code, which may call the helpers of mutants."""
        vars(module).update(HELPERS)
        exec(self.code, vars(module))


@contextmanager
def loaded(part: type[Any], mutant: Mutant | None) -> Iterator[type[Any]]:
    """The part's class from modules that are loaded anew, with the mutant's change."""
    names, finders = list(regions(part)), sys.meta_path[:]
    kept = {name: sys.modules.pop(name) for name in names}
    parents = {name: (sys.modules.get(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in names}
    for parent, child in parents.values():
        with suppress(AttributeError):
            delattr(parent, child)
    sys.meta_path[:] = [each for each in finders if not isinstance(each, _Changed)]
    if mutant is not None:
        sys.meta_path.insert(0, _Changed(mutant.module, mutant.code))
    try:
        yield getattr(import_module(part.__module__), part.__name__)
    finally:
        sys.meta_path[:] = finders
        for name, module in kept.items():
            sys.modules[name] = module
            parent, child = parents[name]
            if parent is not None:
                setattr(parent, child, module)


def case_of(entry: Registered, part: type[Any], registry: Registry) -> Case:
    """The part under check, in place of the one that is registered."""
    changed = evolve(entry, part=part)
    others = copy(registry)
    owners = {key: changed if old is entry else old for key, old in registry._names.owners.items()}
    others._names = evolve(registry._names, owners=owners)
    return Case(changed, others)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Stop what takes longer, in CPU time, so that a busy machine kills no mutant."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise OverTimeError

    torch.set_grad_enabled(True)  # which a part that was stopped may have left off
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def ended(check: Check, case: Case, limit: float) -> str:
    """How a check ends: `passed`, `failed`, or that it says nothing or could not run."""
    try:
        with limited(limit), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            check.run(case)
    except (NotApplicableError, NotRunError):
        return "says nothing"
    except (BrokenError, OverTimeError, RecursionError):
        return "failed"
    return "passed"


def runs(case: Case) -> None:
    """Call the part once with each choice of its options, and a head's loss; the first must not raise.

    A task does all that a training asks of it, an exporter writes a file.
    """
    if case.entry.kind == "tasks":
        _ = case.task.model
        use_everything(case.task)
        return
    if case.entry.kind == "exporters":
        _ = case.exporter.trial
        return
    for i, harness in enumerate(case.harnesses):
        try:
            kind = harness.kinds[0]
            view = plain_view(kind, WHOLE_GROUPS if isinstance(harness, HeadHarness) else 2, 4)
            tensors, made = harness.draw(view).leaves(), harness.make()
            harness.run(made, tensors, view)
            if isinstance(harness, HeadHarness):
                losses(made, harness.predict(made, tensors, view), torch.Generator().manual_seed(0))
        except Exception:
            if not i:
                raise


class Checks:
    """The checks of one part, those first that killed most in least time.

    Attributes:
        times: seconds of CPU time that a check took last, on whatever part.
        kills: how many mutants of this part it killed.
        sound: whether it passes on the part itself, of those that ever failed.
    """

    times: ClassVar[dict[str, float]] = {}

    def __init__(self, entry: Registered, registry: Registry, chosen: Sequence[str]) -> None:
        self.entry, self.registry = entry, registry
        self.checks = {
            check.name: check
            for check in CHECKS
            if check.applies(entry.kind, entry.part)
            and not check.on_request
            and check.name not in UNCHANGED
            and (not chosen or check.name in chosen)
        }
        self.kills: Counter[str] = Counter()
        self.sound: dict[str, bool] = {}

    def order(self, *, traced: bool) -> list[str]:
        """The names of the checks that trace a part, or of those that do not; `record` is neither."""

        def gain(name: str) -> tuple[int, float]:
            place = LAST.index(name) if name in LAST else -1
            return place, -(self.kills[name] + 0.3) / (self.times.get(name, 1.0) + 0.01)

        names = [each for each in self.checks if each != "record" and (each in TRACED) is traced]
        return sorted(names, key=gain)

    def fails(self, name: str, case: Case) -> bool:
        """Whether a check fails, and would not on the part itself."""
        start = time.process_time()
        failed = ended(self.checks[name], case, LIMIT) == "failed"
        self.times[name] = time.process_time() - start
        if failed and name not in self.sound:
            with loaded(self.entry.part, None) as itself:
                unchanged = case_of(self.entry, itself, self.registry)
                self.sound[name] = ended(self.checks[name], unchanged, 10 * LIMIT) != "failed"
        return failed and self.sound[name]

    def killer(self, case: Case, *, traced: bool) -> str | None:
        """The first check that fails; None if all pass."""
        for name in self.order(traced=traced):
            if self.fails(name, case):
                self.kills[name] += 1
                return name
        return None


def outcome(entry: Registered, mutant: Mutant, registry: Registry, checks: Checks) -> dict[str, Any]:
    """What becomes of a mutant: `killed`, `survived`, `raises` where no call works, `nothing` changed, or `never run`.

    `by` says which check kills it, `record` whether the plug-in's record would, where no promise does.
    """
    SEEN.clear()
    found = {"part": f"{entry.kind}.{entry.name}", "mutant": mutant.key}
    noting = mutant.marked if mutant.marked.code else mutant
    with ExitStack() as stack:
        try:
            with limited(LIMIT), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                part = stack.enter_context(loaded(entry.part, noting))
                case = case_of(entry, part, registry)
                runs(case)
        except (Exception, OverTimeError, SystemExit):
            return found | {"outcome": "raises"}
        if mutant.helper and mutant.helper not in SEEN:
            return found | {"outcome": "nothing"}
        if by := checks.killer(case, traced=False):
            return found | {"outcome": "killed", "by": by}
        if noting is not mutant and "_reached" not in SEEN:
            return found | {"outcome": "never run"}
    with loaded(entry.part, mutant) as part:
        case = case_of(entry, part, registry)
        if by := checks.killer(case, traced=True):
            return found | {"outcome": "killed", "by": by}
        recorded = "record" in checks.checks and checks.fails("record", case)
        return found | {"outcome": "survived", "record": recorded}


def measure(task: tuple[str, str, argparse.Namespace]) -> None:
    """Try the mutants of one part, and add a line for each to the file; those that are in it already are not tried."""
    kind, name, given = task
    path: Path = given.kept
    torch.set_num_threads(1)
    sys.modules[Check.__module__].SHRINKING = 0.0  # type: ignore[attr-defined]  # a first failure is enough
    registry = with_stub_parts(Registry.discover(extra_plugins=given.plugin))
    entry = registry.entry(kind, name)
    done = {row["mutant"]: row for row in rows_of(path) if row["part"] == f"{kind}.{name}"}
    every = list(mutants(entry.part, example_options(entry.part)))
    Random(f"{given.seed} {kind} {name}").shuffle(every)
    live, checks = 0, None
    for mutant in every:
        if live >= given.each:
            break
        row = done.get(mutant.key)
        if row is None and mutant.code is None:
            continue  # no Python
        if row is None:
            checks = checks or Checks(entry, registry, given.checks)
            row = outcome(entry, mutant, registry, checks)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        live += row["outcome"] in ("killed", "survived")
    unsound = [name for name, sound in checks.sound.items() if not sound] if checks else []
    print(f"{kind}.{name}: {live} of {len(every)} mutants", *unsound, file=sys.stderr)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, if there is one."""
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    )


def reasons(what: str = "equivalent", why: str = "reason") -> dict[str, str]:
    """Why mutants are equivalent, or what would notice a `survivor`, by a part of their keys."""
    path = HERE / "mutants.toml"
    found = tomllib.loads(path.read_text(encoding="utf-8"))[what] if path.exists() else []
    return {each["mutant"]: each[why] for each in found}


def report(rows: Sequence[Mapping[str, Any]], known: Mapping[str, str]) -> list[dict[str, Any]]:
    """A row a part, and one for each mutant that survives, with the reason if it is equivalent."""
    table: list[dict[str, Any]] = []
    survivors: list[dict[str, Any]] = []
    noticed = {key.replace("|", "\\|"): text for key, text in reasons("survivor", "notice").items()}
    order = sorted({row["part"] for row in rows}, key=lambda part: (KINDS.index(part.split(".")[0]), part))
    for part in order:
        own = [row for row in rows if row["part"] == part]
        count = Counter(row["outcome"] for row in own)
        left = [row["mutant"] for row in own if row["outcome"] == "survived"]
        same = {mutant: reason for mutant in left for key, reason in known.items() if key in mutant}
        by_record = sum(row.get("record", False) and row["mutant"] not in same for row in own)
        counts = (count["killed"], len(left), len(same), count["raises"], count["never run"], by_record)
        table.append(_row(part, *counts))
        survivors += [
            _row(part, 0, 1, mutant in same, survivor=mutant, why=same.get(mutant, "")) for mutant in left
        ]
    for row in survivors:
        if row["what"] == "survivor":
            found = [text for key, text in noticed.items() if key in row["survivor"]]
            row["notice"] = found[0] if found else "not judged yet"
    names = ("killed", "survived", "equivalent", "raise at once", "never run", "by record")
    kinds = [
        _row(
            kind,
            *(sum(row[name] for row in table if row["part"].startswith(kind)) for name in names),
            what="kind",
        )
        for kind in KINDS
    ]
    total = _row("all", *(sum(row[name] for row in kinds) for name in names), what="kind")
    return [*kinds, total, *table, *survivors]


def _row(
    part: str,
    killed: int,
    survived: int,
    same: int,
    raised: int = 0,
    unreached: int = 0,
    by_record: int = 0,
    *,
    what: str = "part",
    survivor: str = "",
    why: str = "",
) -> dict[str, Any]:
    """Counts of mutants; the shares, with Wilson's intervals of 95 %, are of those that run and are not equivalent."""
    others = killed + survived - same
    shares = {
        f"{name}{end}": value
        for end, count in (("", killed), (" with records", killed + by_record))
        for name, value in zip(("share", "low", "high"), _interval(count, others), strict=True)
    }
    return {
        "what": ("equivalent" if why else "survivor") if survivor else what,
        "part": part, "mutants": others, "killed": killed, "survived": survived, "equivalent": int(same),
        "raise at once": raised, "never run": unreached, "by record": by_record, **shares,
        "survivor": f"`{survivor}`".replace("|", "\\|"), "why": why or "not yet",
    }  # fmt: skip


def _interval(killed: int, others: int) -> tuple[float, float, float]:
    """A share in percent, and Wilson's interval of 95 % around it."""
    if not others:
        return 100.0, 0.0, 100.0
    z, share = 1.96, killed / others
    middle = (share + z * z / (2 * others)) / (1 + z * z / others)
    reach = z * (share * (1 - share) / others + z * z / (4 * others**2)) ** 0.5 / (1 + z * z / others)
    return 100 * share, 100 * (middle - reach), 100 * (middle + reach)


def main() -> None:
    """Measure, and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="such as operators.join or positions; all if absent")
    parser.add_argument("--plugin", action="append", default=[], help="a plug-in whose parts are measured")
    parser.add_argument(
        "--each", type=int, default=60, help="mutants of a part that run, drawn where there are more"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=1, help="parts that are measured at the same time")
    parser.add_argument(
        "--kept", type=Path, default=Path("mutants.jsonl"), help="what is done, a line a mutant"
    )
    parser.add_argument("--checks", nargs="*", default=[], help="the checks that are run; all if absent")
    parser.add_argument("--only-report", action="store_true", help="measure nothing")
    parser.add_argument("--quiet", action="store_true", help="report nothing: others measure further parts")
    given = parser.parse_args()
    registry = Registry.discover(extra_plugins=given.plugin)
    own = set(Registry.of(*given.plugin).plugins) if given.plugin else set(registry.plugins)
    owners = {plugin.name for plugin in own}
    entries = [entry for kind in KINDS for entry in registry.entries(kind) if entry.plugin in owners]
    wanted = [
        (e.kind, e.name)
        for e in entries
        if not given.parts or {e.kind, f"{e.kind}.{e.name}"} & {*given.parts}
    ]
    Random(given.seed).shuffle(wanted)  # so that what is done when it is stopped is a sample of all
    tasks = [(*each, given) for each in wanted]
    if not given.only_report:
        if given.jobs == 1:
            for task in tasks:
                measure(task)
        else:
            with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
                pool.map(measure, tasks, chunksize=1)
    if given.quiet:
        return
    names = {".".join(each) for each in wanted}
    rows = report([row for row in rows_of(given.kept) if row["part"] in names], reasons())
    record("mutants", rows)


if __name__ == "__main__":
    main()

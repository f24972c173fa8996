"""The speed of an exported file: latencies and throughput by the sizes of its dims, beside torch if a model is given.

Without a model, nothing here imports torch.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.errors import InputError, check_known
from peirce.model import check_sizes
from peirce.parts import Signature
from peirce_export.cases import Case, inputs, real_of
from peirce_export.runtimes import Progress
from peirce_export.session import Session

if TYPE_CHECKING:
    from peirce.model import Model

EAGER = "torch"
"""The name of timings of the model itself; those of a file are named after its first provider."""
DEFAULT_SIZE = 32
"""The size of a dim that the user gives no size, or less if the model takes less; rows are 1."""
_Way = Callable[[Mapping[str, NDArray[Any]]], object]
PERCENTILES = (50, 90, 99)


@frozen(kw_only=True)
class Timing:
    """The times of one way at one size.

    Args:
        sizes: by symbolic dim.
        threads: of the runtime and of torch; None where each chose for itself.
        way: the provider that computed, or `torch`.
        seconds: of each run, inputs and outputs in the memory of the CPU.
        rows: how many rows a run computes; None where the inputs have no first dim in common.
    """

    sizes: Mapping[str, int]
    threads: int | None
    way: str
    seconds: tuple[float, ...]
    rows: int | None

    def percentile(self, part: int) -> float:
        """The seconds that so many percent of the runs take at most."""
        return float(np.percentile(self.seconds, part))

    @property
    def throughput(self) -> float:
        """Rows a second, or runs a second where there are no rows, at the mean latency."""
        return (self.rows or 1) / float(np.mean(self.seconds))

    def to_dict(self) -> dict[str, Any]:
        """The timing for JSON, in seconds."""
        return {
            "sizes": dict(self.sizes),
            "threads": self.threads,
            "way": self.way,
            "runs": len(self.seconds),
            "least": min(self.seconds),
            "mean": float(np.mean(self.seconds)),
            **{f"p{part}": self.percentile(part) for part in PERCENTILES},
            "rows": self.rows,
            "per_second": self.throughput,
        }


def rows_of(signature: Signature) -> str | None:
    """The symbolic dim that every input begins with, which counts the rows; None where there is none."""
    first = {spec.dims[0] if spec.dims else 1 for spec in signature.inputs}
    (only,) = first if len(first) == 1 else (None,)
    return only if isinstance(only, str) else None


def grid(signature: Signature, sizes_of: Mapping[str, Sequence[int]]) -> tuple[dict[str, int], ...]:
    """Every combination of the given sizes; a dim that is not given has one usual size.

    Raises:
        InputError: no such dim, or more than the model takes.
    """
    known, rows = signature.symbols, rows_of(signature)
    for dim in sizes_of:
        check_known("symbolic dim of the inputs", dim, known)
    most = {dim: min(DEFAULT_SIZE, signature.largest.get(dim, DEFAULT_SIZE)) for dim in known}
    usual = most | ({rows: 1} if rows else {})
    choices = (sizes_of.get(dim, (usual[dim],)) for dim in known)
    cells = [dict(zip(known, sizes, strict=True)) for sizes in product(*choices)]
    for cell in cells:
        check_sizes(signature, cell, None)
    return tuple(cells)


def measure(
    files: Sequence[Path],
    sizes_of: Mapping[str, Sequence[int]],
    *,
    threads: Sequence[int | None] = (None,),
    repeats: int = 20,
    seed: int = 0,
    providers: Sequence[str] | None = None,
    model: Model | None = None,
    progress: Progress = lambda words: None,
) -> list[Timing]:
    """Time files of one model, and the model beside them, in turns, so that a busy machine slows all alike.

    Args:
        files: any that a session opens, with the same inputs, such as one in each precision.
        sizes_of: sizes by symbolic dim of the inputs; every combination is measured.
        threads: each count is measured; None leaves the choice to the runtime and to torch.
        repeats: timed runs of each way at each size, after a warm-up.
        seed: of the random inputs.
        providers: what computes the files, in the runtime's own names.
        model: the model of the first file, timed without gradients; None times the files alone.
        progress: called before each size with a few words about it.

    Raises:
        ModelFileError: a file cannot be opened.
        InputError: a size, a provider or a count that cannot be, or files with other inputs.
    """
    found: list[Timing] = []
    for count in threads:
        with ExitStack() as opened:
            sessions = [
                opened.enter_context(Session(file, providers=providers, threads=count)) for file in files
            ]
            session, names = sessions[0], _names(sessions)
            cells = grid(session.signature, sizes_of)
            rows = rows_of(session.signature)
            with _eager(model, session, count) as eager:
                for place, cell in enumerate(cells, 1):
                    words = [f"{dim} {size}" for dim, size in cell.items()]
                    words += [] if count is None else [f"threads {count}"]
                    progress(f"{place} of {len(cells)}: {', '.join(words)}")
                    case = Case(name="timed", sizes=cell)
                    feeds = [inputs(each.signature, case, seed, real_of(each)) for each in sessions]
                    ways: dict[str, Callable[[], object]] = {
                        name: partial(each.run, fed)
                        for name, each, fed in zip(names, sessions, feeds, strict=True)
                    }
                    ways |= {} if eager is None else {EAGER: partial(eager, feeds[0])}
                    seconds: dict[str, list[float]] = {way: [] for way in ways}
                    for number, (way, call) in product(range(repeats + 1), ways.items()):
                        start = time.perf_counter()
                        call()
                        seconds[way] += [time.perf_counter() - start] if number else []
                    many = cell[rows] if rows else None
                    found += [
                        Timing(sizes=cell, threads=count, way=way, seconds=tuple(each), rows=many)
                        for way, each in seconds.items()
                    ]
    return found


def _names(sessions: Sequence[Session]) -> list[str]:
    """What the ways of files are called: of one its provider, of several the file's name, or its path if two share one.

    Raises:
        InputError: they have other inputs.
    """
    first, *others = sessions
    taken = {spec.name: spec.dims for spec in first.signature.inputs}
    for other in others:
        if {spec.name: spec.dims for spec in other.signature.inputs} != taken:
            raise InputError(
                f"{other.path} has other inputs than {first.path}; time them one after the other"
            )
    if not others:
        return [first.providers[0]]
    short = [Path(each.path).name for each in sessions]
    return short if len(set(short)) == len(short) else [str(each.path) for each in sessions]


@contextmanager
def _eager(model: Model | None, session: Session, threads: int | None) -> Iterator[_Way | None]:
    """The model as its file presents it, as a function of arrays; on a GPU where the file is on one."""
    if model is None:
        yield None
        return
    import torch

    from peirce_export.casting import outputs_of
    from peirce_export.roles import exportable_for

    on_gpu = session.providers[0] != "CPUExecutionProvider" and torch.cuda.is_available()
    twin = exportable_for(session.role, model).to("cuda" if on_gpu else "cpu")
    inputs, taken = ([spec.name for spec in each.signature.inputs] for each in (twin, session))
    if inputs != taken:
        raise InputError(
            f"the model {twin.spec.name!r} takes {', '.join(inputs)}, and {session.path} takes {', '.join(taken)}; "
            "give its own model with --model, or leave torch out with --alone"
        )
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        with torch.inference_mode():
            yield partial(outputs_of, twin)
    finally:
        torch.set_num_threads(before)


def picture(timings: Sequence[Timing], title: str, format: str) -> bytes:
    """Median latencies, with a bar up to the 90th percentile, over the dim that has most sizes; a line for the rest."""
    from matplotlib.figure import Figure

    counts = {dim: len({t.sizes[dim] for t in timings}) for dim in timings[0].sizes}
    across = max(counts, key=lambda dim: counts[dim]) if counts else ""
    lines: dict[str, list[Timing]] = {}
    for timing in timings:
        rest = [f"{dim} {size}" for dim, size in timing.sizes.items() if dim != across and counts[dim] > 1]
        rest += [] if timing.threads is None else [f"threads {timing.threads}"]
        lines.setdefault(", ".join([timing.way, *rest]), []).append(timing)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, line in lines.items():
        line = sorted(line, key=lambda timing: timing.sizes.get(across, 0))
        middle = [timing.percentile(50) * 1e3 for timing in line]
        above = [timing.percentile(90) * 1e3 - m for timing, m in zip(line, middle, strict=True)]
        axes.errorbar(
            [timing.sizes.get(across, 0) for timing in line],
            middle,
            yerr=[[0.0] * len(line), above],
            marker="o",
            capsize=3,
            linestyle="--" if line[0].way == EAGER else "-",
            label=label,
        )
    axes.set_xlabel(across)
    axes.set_ylabel("latency in ms, median to 90th percentile")
    axes.set_yscale("log")
    axes.set_title(title)
    axes.legend(fontsize="small")
    content = io.BytesIO()
    figure.savefig(content, format=format, dpi=120)
    return content.getvalue()

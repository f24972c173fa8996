"""`peirce bench`: the speed of any file that a session opens. It loads torch only to time the model beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from peirce.commands import Json, print_json, print_table
from peirce.errors import InputError, unknown
from peirce.extras import check_picture, require
from peirce.files import write_whole
from peirce.model import SPEC
from peirce_export.cli import Providers, Seed
from peirce_export.report import progress_spinner
from peirce_export.session import Session
from peirce_export.timing import EAGER, PERCENTILES, Timing, measure, picture

if TYPE_CHECKING:
    from peirce.model import Model

SCHEMA = "peirce.bench/1"
_SIZES = "peirce.sizes"


class BenchCommand(TyperCommand):
    """`peirce bench`, which takes an option for each symbolic dim of the file; they are known once it is open."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        """The context of the fixed options; any other option must be a dim, followed by its sizes.

        Raises:
            InputError: no number follows it.
        """
        known = {name for option in self.params for name in (*option.opts, *option.secondary_opts)} | {
            "--help"
        }
        options = sorted(name for name in known if name.startswith("--"))
        fixed: list[str] = []
        sizes: dict[str, str] = {}
        left = deque(args)
        while left and left[0] != "--":
            text = left.popleft()
            name, equals, value = text.partition("=")
            if not name.startswith("--") or name in known:
                fixed.append(text)
                continue
            if not equals and left and left[0][:1].isdigit():
                value = left.popleft()
            if not value[:1].isdigit():
                raise InputError(
                    f"{unknown('option', name, options)}. If it is a dim of FILE, give sizes: {name} 1,8"
                )
            sizes[name] = value
        fixed += left
        context = super().make_context(info_name, fixed, *rest, **extra)
        context.meta[_SIZES] = (sizes, options)
        return context


def bench(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="An exported file, or several of one model, such as its precisions."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="What is timed beside FILE, in torch: a saved model or a spec; FILE's folder by default.",
        ),
    ] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Time FILE alone, without torch.")] = False,
    threads: Annotated[
        str | None, typer.Option(metavar="SIZES", help="Threads within an operator; each count is measured.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs at each size, after a warm-up.")] = 20,
    seed: Seed = 0,
    provider: Providers = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the latencies into a .png, .svg or .pdf file.")
    ] = None,
    json: Json = False,
) -> None:
    """Time exported files: latencies and throughput, beside torch where their model is at hand.

    Each symbolic dim of FILE's inputs is an option that takes its sizes, such as `--batch 1,8 --length 32,128`. Every
    combination is measured.
    """
    if alone and model is not None:
        raise InputError("--alone times no model; leave out --model, or --alone")
    if plot is not None:
        check_picture(plot, "--plot", extra="peirce-export[pictures]")
    counts: list[int | None] = [None] if threads is None else list(_numbers("--threads", threads))
    texts, options = context.meta[_SIZES]
    if len(set(files)) < len(files):
        raise InputError("a file is given twice; leave one out")
    file, names = files[0], ", ".join(map(str, files))
    with Session(file, providers=provider) as session:
        sizes = _by_dim(texts, session.signature.symbols, options, file)
        providers = session.providers
    beside, note = _model(file, model, alone)
    how: dict[str, Any] = {"threads": counts, "repeats": repeats, "seed": seed, "providers": provider}
    with progress_spinner(f"timing {names}") as say:
        timings = measure(files, sizes, model=beside, progress=say, **how)
    if plot is not None:
        write_whole(plot, picture(timings, names, plot.suffix.lower()[1:]))
    if json:
        rows = [timing.to_dict() for timing in timings]
        every = {"files": list(map(str, files))} if len(files) > 1 else {}
        print_json(SCHEMA, file=str(file), **every, providers=list(providers), model=note or None, rows=rows)
        return
    _print_table(timings, f"{names} ({', '.join(providers)})")
    if note:
        typer.echo(f"{EAGER}: {note}, without gradients")
    if plot is not None:
        typer.echo(f"drawn in {plot}")


bench_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
"""The command `bench`."""
bench_app.command(cls=BenchCommand)(bench)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 0 < len(part) < 10 and int(part) for part in parts):
        raise InputError(
            f"{option} is {text!r}; give whole numbers from 1 with commas between them, such as 1,8"
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


def _by_dim(
    given: Mapping[str, str], known: Sequence[str], options: Sequence[str], file: Path
) -> dict[str, tuple[int, ...]]:
    """The sizes by dim, as the file names it; a name may have underscores, where options have hyphens."""
    named = {f"--{dim.replace('_', '-')}": dim for dim in known} | {f"--{dim}": dim for dim in known}
    for option in given:
        if option not in named:
            raise InputError(unknown(f"option or symbolic dim of {file}", option, [*named, *options]))
    return {named[option]: _numbers(option, text) for option, text in given.items()}


def _model(file: Path, given: str | None, alone: bool) -> tuple[Model | None, str]:
    """The model to time beside a file, and a description of it."""
    if alone or (given is None and not ((file.parent / SPEC).is_file() and find_spec("torch"))):
        return None, ""
    require("timing a model", "torch", extra="peirce-export[onnx]", instead="give --alone")
    from peirce.compose import read_model
    from peirce_export.casting import precision_of

    model = read_model(given or file.parent)
    return model, f"the model of {given or file.parent}, {precision_of(model)}"


def _print_table(timings: Sequence[Timing], title: str) -> None:
    known = list(timings[0].sizes)
    unit = "runs/s" if timings[0].rows is None else "rows/s"
    eager = {(*t.sizes.values(), t.threads): t.percentile(50) for t in timings if t.way == EAGER}
    rows = [
        (
            *timing.sizes.values(),
            timing.threads or "auto",
            timing.way,
            *(f"{timing.percentile(part) * 1e3:.2f}" for part in PERCENTILES),
            f"{timing.throughput:.1f}",
            *([f"{timing.percentile(50) / beside:.2f}"] if beside else []),
        )
        for timing in timings
        for beside in [eager.get((*timing.sizes.values(), timing.threads))]
    ]
    headings = [*known, "threads", "way", *(f"p{part} ms" for part in PERCENTILES), unit]
    print_table([*headings, *(["p50 / torch"] if eager else [])], rows, title)

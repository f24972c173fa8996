"""Predictions for a folder of Parquet files: file by file, in this process or by Ray Data, on from where a run ended.

Each file of predictions has the place of its source, is written whole or not at all, and says in its metadata what it
was made from. So nothing else is kept: a run looks at the files that are there, and makes the others. Then it measures
all of them.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, frozen

from peirce.errors import InputError, ModelFileError, TaskError
from peirce.extras import require
from peirce.files import digest_of, explain_disk_errors, hold_lock, parse_json, replace_file
from peirce.model import PROVENANCE
from peirce.progress import progress_bars
from peirce.workers import ray_cluster
from peirce_text.progress import print_line
from peirce_text.reading import Row, parquet_files, parquet_schema, read_batches, read_rows
from peirce_text.tabular.columns import Roles
from peirce_text.tabular.kinds import Measurement
from peirce_text.tabular.predictor import Predictions, Predictor, predict_rows, predictor
from peirce_text.tabular.words import join_words
from peirce_text.text.encoding import CHUNK

if TYPE_CHECKING:
    from rich.console import Console

KEY = b"peirce.predict"
"""Of what a file of predictions says of itself in its metadata."""
_ROW_GROUP = 1 << 26
"""Bytes after which a row group is written, half of what Parquet's documentation takes to be small."""
_TRIES = 3
"""How often a file is begun whose worker dies; Ray itself would begin it for ever."""
_UNKNOWN = Roles((), "")
_GOES_ON = "the files that are done are whole, and the same command goes on with the others"


@frozen(kw_only=True)
class Job:
    """What is asked for of every file.

    Args:
        source: the folder of the files.
        target: the folder of the predictions.
        model: what predicts, as `predictor` takes it.
        batch_size: the rows that are computed at once.
        threads: of each worker.
        device: where a saved model computes.
        providers: what computes an exported file.
        digest: what tells the model from others; found before the first file.
        roles: the columns that are read; found before the first file.
    """

    source: Path
    target: Path
    model: str
    batch_size: int = 32
    threads: int = 1
    device: str | None = None
    providers: Sequence[str] | None = None
    digest: str = ""
    roles: Roles = _UNKNOWN

    @property
    def request(self) -> dict[str, Any]:
        """All that predictions depend on beside the file, as plain values."""
        own = asdict(self, filter=lambda field, _: field.name not in ("source", "target", "roles"))
        # The name of a model may change, and its digest says which it is.
        return json.loads(json.dumps({**own, "model": "", **asdict(self.roles)}))

    def stamp(self, name: str) -> list[int]:
        """By what a changed source is known: its size, and when it was written."""
        found = (self.source / name).stat()
        return [found.st_size, found.st_mtime_ns]

    def record(self, name: str, *, overwrite: bool = False) -> dict[str, Any] | None:
        """What the predictions of a file say of themselves; None where there are none, or of what it was before.

        Args:
            name: the path of the file within the folder.
            overwrite: whether predictions of another request are none.

        Raises:
            TaskError: another file lies there, or predictions of another request.
        """
        path = self.target / name
        if not path.exists():
            return None
        import pyarrow.parquet

        try:
            found = parse_json((pyarrow.parquet.read_metadata(path).metadata or {})[KEY])
        except (pyarrow.ArrowException, OSError, KeyError, ValueError) as error:
            raise TaskError(
                f"{path} was not written by `peirce predict`, and stands where its predictions would go; give another "
                "folder with -o"
            ) from error
        differing = [key for key, value in self.request.items() if found["request"].get(key) != value]
        if differing and not overwrite:
            raise TaskError(
                f"{path} has predictions of another {' and '.join(differing)}".replace("digest", "model")
                + "; give another folder with -o, or --overwrite to replace them"
            )
        return None if differing or found["source"] != self.stamp(name) else found


@contextmanager
def _open(job: Job) -> Iterator[Predictor]:
    """The model, with as many threads as are asked for: on a CPU, more may round otherwise."""
    saved = Path(job.model).is_dir()
    if saved and find_spec("torch") is not None:
        import torch

        torch.set_num_threads(job.threads)
    threads = None if saved or "://" in job.model else job.threads
    with predictor(job.model, job.device, job.providers, threads) as found:
        yield found


def predict_folder(
    job: Job,
    names: Mapping[str, str | None],
    *,
    workers: int = 1,
    overwrite: bool = False,
    console: Console | None = None,
) -> Predictions:
    """Predict every file of a folder that has no predictions yet.

    Args:
        job: what is asked for.
        names: the columns that are named: `text`, `pair` and `label`.
        workers: how many of a Ray cluster; one is this process.
        overwrite: whether predictions of another request are replaced.
        console: where the progress is shown; nowhere if None.

    Raises:
        TaskError: the folder has no file, or predictions of another request.
        BusyError: another process writes there.
    """
    source, target = job.source, job.target
    require("a folder of Parquet files", "pyarrow", extra="peirce-text[train]")
    files = [str(name) for name in parquet_files(source)]
    if not files:
        raise TaskError(f"{source} has no .parquet files; save the table as some, or give one file")
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise TaskError(
            f"the predictions would lie among the files of {source}; give a folder outside with -o"
        )
    if target.exists() and not target.is_dir():
        raise TaskError(f"{target} is a file, where the folder of predictions would go; give another with -o")
    with _open(job) as found:
        kind, classes = found.kind, found.classes
        first = next((name for name in files[:-1] if _is_readable(source / name)), files[-1])
        row = Row(source / first, 1, dict.fromkeys(map(str.strip, parquet_schema(source / first).names)))
        roles = Roles.of(row, found.columns, tags=found.tags, **names)
        job = evolve(job, digest=_digest(job.model), roles=roles)
        if taken_from := job.roles.untrained(found.columns):
            print_line(taken_from)
        with explain_disk_errors(f"predictions in {target}", _GOES_ON), hold_lock(target, folder=True):
            before = {name for name in files if job.record(name, overwrite=overwrite) is not None}
            waiting, failed = [name for name in files if name not in before], dict[str, str]()
            bars = progress_bars(console)
            bar = bars.add_task("predicting files", total=len(files), completed=len(before), shown="")
            with bars:
                here = ((name, _attempt(job, found, name)) for name in waiting)
                for name, error in _by_ray(job, waiting, workers) if workers > 1 else here:
                    bars.advance(bar)
                    if error:
                        failed[name] = error
            done = ((name, job.record(name)) for name in files if name not in failed)
            records = {name: record for name, record in done if record is not None}
    return Predictions(
        output=target,
        rows=sum(record["rows"] for record in records.values()),
        empty=sum(record["empty"] for record in records.values()),
        measured=_measure(job, list(records), kind.measurement(classes)),
        classes=classes,
        label=job.roles.label,
        folder={"files": len(records), "kept": len(before), "failed": failed},
    )


def _measure(job: Job, names: Sequence[str], measured: Measurement) -> Measurement:
    """Count the predictions in files, of those that have the right classes."""
    label, query = job.roles.label, job.roles.texts[0]
    for path in (job.target / name for name in names):
        if label in map(str.strip, parquet_schema(path).names):
            for row in read_rows(path, only=(label, query, "prediction")):
                if row.values["prediction"] is not None:
                    measured.add(row, job.roles, row.values["prediction"])
    return measured


def _is_readable(path: Path) -> bool:
    try:
        parquet_schema(path)
    except TaskError:
        return False
    return True


def _digest(model: str) -> str:
    """What tells a model from others: the provenance, which has digests of its files, and an exported file."""
    path = Path(model)
    if "://" in model:
        return model
    files = [path / PROVENANCE] if path.is_dir() else [path.parent / PROVENANCE, path]
    return digest_of("".join(map(digest_of, files)).encode())


def _attempt(job: Job, found: Predictor, name: str) -> str:
    """Predict a file; why it could not be, empty if it was."""
    try:
        _predict_file(job, found, name)
    except (TaskError, InputError, FileNotFoundError) as error:
        return str(error)
    return ""


class _Tries:
    """Counts how often each file was begun, in a process of Ray's that outlives the workers."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str) -> int:
        """How often it was begun, this time included."""
        self._counts[name] += 1
        return self._counts[name]


class _Worker:
    """Predicts files in a process of Ray, which opens the model once."""

    def __init__(self, job: Job, tries: Any) -> None:
        self._job, self._tries, self._model = job, tries, ExitStack()
        self._found = self._model.enter_context(_open(job))

    def __call__(self, row: Mapping[str, str]) -> dict[str, str]:
        import ray

        name = row["name"]
        if ray.get(self._tries.add.remote(name)) > _TRIES:
            return {
                "name": name,
                "error": f"{_TRIES} workers died of it, perhaps for want of memory; try fewer workers",
            }
        return {"name": name, "error": _attempt(self._job, self._found, name)}


def _by_ray(job: Job, names: Sequence[str], workers: int) -> Iterator[tuple[str, str]]:
    """Predict files by Ray Data, a file for each task."""
    if not names:
        return
    with ray_cluster("--workers", workers, job.threads, extra="peirce-text[ray]") as size:
        import ray
        import ray.data

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        # The folders are those of every machine of the cluster, whose processes start elsewhere.
        model = job.model if "://" in job.model else str(Path(job.model).resolve())
        there = evolve(job, source=job.source.resolve(), target=job.target.resolve(), model=model)
        tasks = ray.data.from_items([{"name": name} for name in names], override_num_blocks=len(names))
        worker: Any = _Worker  # a class, of which each process makes one
        done = tasks.map(
            worker,
            fn_constructor_args=(there, ray.remote(num_cpus=0)(_Tries).remote()),
            compute=ray.data.ActorPoolStrategy(size=min(size, len(names)), max_tasks_in_flight_per_actor=1),
            num_cpus=job.threads,
            num_gpus=1 if (job.device or "").startswith("cuda") else 0,
        )
        try:
            for row in done.iter_rows():
                yield row["name"], row["error"]
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, TaskError | InputError | ModelFileError):
                raise cause from None
            raise TaskError(f"a Ray worker was lost: {str(error).splitlines()[0]}; {_GOES_ON}") from error


def _predict_file(job: Job, found: Predictor, name: str) -> None:
    """Write the predictions of a file: its columns as they are, and two more."""
    import pyarrow
    import pyarrow.parquet

    source, target = job.source / name, job.target / name
    stamp, schema = job.stamp(name), parquet_schema(source)
    names = list(map(str.strip, schema.names))
    first = Row(source, 1, dict.fromkeys(names))
    needed = [*job.roles.texts, *found.input_columns.columns.values()]
    for column in needed:
        first.value(column)
    if taken := [column for column in found.kind.added if column in names]:
        raise TaskError(f"{source} has a column {taken[0]!r} already, which would be added; rename it")
    roles = job.roles if job.roles.label in names else evolve(job.roles, label="")
    read = [name for name in dict.fromkeys([*needed, roles.label]) if name]
    text, integer = pyarrow.string(), pyarrow.int64()
    span = pyarrow.struct({"start": integer, "end": integer, "tag": text, "text": text})
    kinds = {"text": text, "number": pyarrow.float64(), "span": span}
    for column, holds in found.kind.added.items():
        many = holds.endswith("s")
        kind = kinds[holds.removesuffix("s")]
        schema = schema.append(pyarrow.field(column, pyarrow.list_(kind) if many else kind))
    measured = found.kind.measurement(
        found.classes
    )  # refuses labels that are none; what it counts is read later
    count = empty = 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(target) as fresh, pyarrow.parquet.ParquetWriter(fresh, schema) as writer:
        pending: list[Any] = []
        for batch in read_batches(source, CHUNK):
            cells = [batch.column(names.index(column)).to_pylist() for column in read]
            rows = [
                Row(source, count + number, dict(zip(read, values, strict=True)))
                for number, values in enumerate(zip(*cells, strict=True), 1)
            ]
            if found.tags and not count and next(join_words(iter(rows), roles.texts[0])) is not rows[0]:
                raise TaskError(
                    f"{source} has a word in each row, and in a folder each row has a text; give the file alone, or "
                    "put the words of a sentence into a list"
                )
            predicted = predict_rows(found, rows, roles, job.batch_size, measured)
            added = [
                pyarrow.array(values, schema.field(name).type)
                for name, values in zip(found.kind.added, zip(*predicted, strict=True), strict=True)
            ]
            pending.append(pyarrow.RecordBatch.from_arrays([*batch.columns, *added], schema=schema))
            count, empty = count + len(rows), empty + sum(guess is None for guess, *_ in predicted)
            if sum(each.nbytes for each in pending) >= _ROW_GROUP:
                writer.write_table(pyarrow.Table.from_batches(pending))
                pending.clear()
        if pending:
            writer.write_table(pyarrow.Table.from_batches(pending))
        record = {"request": job.request, "source": stamp, "rows": count, "empty": empty}
        writer.add_key_value_metadata({KEY: json.dumps(record).encode()})

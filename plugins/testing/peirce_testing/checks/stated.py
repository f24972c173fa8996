"""What a task reads, counts and measures is what it states in plain Python: its `reference` methods."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import torch
from numpy.typing import NDArray

from peirce.errors import PeirceError
from peirce.model import Model, Task
from peirce_testing.check import check
from peirce_testing.checks.tasks import measure
from peirce_testing.compare import BrokenError, NotRunError, is_refused
from peirce_testing.harness.tasks import SPLITS, WHOLE, Batch, TaskHarness
from peirce_testing.options import choices, given_fields, with_value
from peirce_testing.tiny_models import randomise

Rows = Sequence[Mapping[str, Any]]
NO_SPLIT = "no such split"


@check("tasks")
def task_reference(task: TaskHarness) -> None:
    """A task reads, counts and measures what its `reference` methods state in plain Python. Rows of each split,
    settings, the loss of each batch, and metrics by models with large random values; with the options of `example_in`,
    with other choices and numbers, and with `example_cases`. A split that is not there is refused.
    """
    part: type[Any] = task.entry.part
    if part.reference is Task.reference:
        raise NotRunError(
            "not run: it states no `reference`, so that nothing holds its rows, loss and metrics to what they should "
            "be; from the next release on that is a failure: state the rows of its small data, and `reference_loss` "
            "and `reference_metrics` over lists"
        )
    stated: set[str] = set()
    for label, harness, may_refuse in _cases(task):
        try:
            with torch.random.fork_rng(devices=[]):
                stated |= _check_case(harness, 1 if label else 2)
        except PeirceError:
            if not may_refuse:
                raise
        except Exception as error:
            error.add_note(f"with {label or 'its example options'}")
            raise
    names = ("reference", "reference_settings", "reference_loss", "reference_metrics")
    if empty := [
        each for each in names if getattr(part, each) is not getattr(Task, each) and each not in stated
    ]:
        raise BrokenError(f"{', '.join(empty)} states nothing in any case; return what is to be held")


def _cases(task: TaskHarness) -> Iterator[tuple[str, TaskHarness, bool]]:
    """The task with its small data: as it is, with other options, which it may refuse, and with hard data."""
    _ = task.data  # writes the files of `example_in`
    yield "", task.with_options(task.options), False
    for name, value in _numbers(task.options):
        yield f"{name} = {value}", task.with_options(with_value(task.options, name, value)), True
    for label, chosen in choices(task.options):
        yield label, task.with_options(chosen), True
    for case in task.entry.part.example_cases(task.folder):
        chosen = attrs.evolve(task.options, **case)
        yield (
            ", ".join(f"{name} = {value!r:.60}" for name, value in case.items()),
            task.with_options(chosen),
            False,
        )


def _numbers(options: Any) -> Iterator[tuple[str, Any]]:
    """A smaller and a larger value of each option that is a number, where the options take it."""
    for field in given_fields(options):
        now = getattr(options, field.name)
        if type(now) not in (int, float):
            continue
        for value in (now // 2 if type(now) is int else now / 2, now + 1 if type(now) is int else now * 2):
            try:
                with_value(options, field.name, value)
            except (ValueError, PeirceError):
                continue
            if value != now:
                yield field.name, value


def _check_case(task: TaskHarness, models_tried: int) -> set[str]:
    """Hold a task to what it states, by so many models; the names of the methods that state something."""
    one, stated = task.fresh(), set()
    data = task.__dict__["data"] = one.prepare()
    settings = task.__dict__["settings"] = dict(one.overrides(data))
    if (expected := one.reference_settings(data)) is not None:
        stated.add("reference_settings")
        _assert_alike(settings, dict(expected), "overrides")
    calls: dict[str, Callable[[], object]] = {
        "batches": lambda: task.batches(NO_SPLIT, task=one),
        "metrics": lambda: one.metrics(task.model, data, NO_SPLIT),
    }
    for name, call in calls.items():
        if not is_refused(call, f"asked for {name} of a split that is not there"):
            raise BrokenError(f"{name} of {NO_SPLIT!r} works; refuse the name of a split that is not there")
    models = [copy.deepcopy(task.model).double() for _ in range(models_tried)]
    for seed, model in enumerate(models):
        randomise(model, seed)
    for split in SPLITS:
        try:
            batches = task.batches(split, task=one, most=WHOLE)
        except PeirceError as error:
            if one.reference(data, split) is not None:
                raise BrokenError(f"it states rows of {split!r}, and gives none: {error}") from error
            continue
        rows = one.reference(data, split)
        if rows is None:
            continue
        stated.add("reference")
        endless = len(batches) == WHOLE
        of_batches = _match(rows, batches, f"the split {split!r}", task.model.spec.input.pad_id, endless)
        for number, model in enumerate(models):
            outputs = _outputs(model, rows, batches[0])
            for batch, places in zip(batches, of_batches, strict=not endless):
                expected = one.reference_loss([rows[i] for i in places], [outputs[i] for i in places])
                if expected is not None:
                    stated.add("reference_loss")
                    with torch.no_grad():
                        found = float(one.loss(model, batch))
                    _assert_alike(found, expected, f"the loss of a batch of {split!r}")
            metrics = one.reference_metrics(data, split, rows, outputs)
            if metrics is not None:
                stated.add("reference_metrics")
                measured = measure(one, model.train(number == 0), data, split)
                if model.training != (number == 0):
                    raise BrokenError("metrics leaves the model in another mode than it was in")
                model.eval()
                _assert_alike({n: measured.get(n) for n in metrics}, dict(metrics), f"metrics of {split!r}")
    return stated


def _outputs(model: Model, rows: Rows, batch: Batch) -> list[Mapping[str, Any]]:
    """What a model gives for each row by itself, as nested lists; nothing where the rows lack what it needs.

    Rows of one shape are given to it at once, which saves time, and pads none.
    """
    specs = [spec for spec in model.signature.inputs if rows and spec.name in rows[0]]
    found: list[Mapping[str, Any]] = [{} for _ in rows]
    if any(spec.required and spec not in specs for spec in model.signature.inputs):
        return found
    alike: dict[Any, list[int]] = {}
    for i, row in enumerate(rows):
        alike.setdefault(tuple(np.shape(row[spec.name]) for spec in specs), []).append(i)
    for places in alike.values():
        inputs = {}
        for spec in specs:
            value = torch.tensor(np.array([rows[i][spec.name] for i in places]))
            like = batch[spec.name].dtype if spec.name in batch else value.dtype
            value = value.to(model.dtype if value.is_floating_point() else like)
            inputs[spec.name] = value.flatten(0, 1) if value.dim() > len(spec.dims) else value
        with torch.no_grad():
            outputs = model(**inputs)
        for number, i in enumerate(places):
            each = {name: value.unflatten(0, (len(places), -1))[number] for name, value in outputs.items()}
            found[i] = {
                name: (value[0] if len(value) == 1 else value).tolist() for name, value in each.items()
            }
    return found


def _match(rows: Rows, batches: Sequence[Batch], where: str, pad: int, endless: bool) -> list[list[int]]:
    """The places among the stated rows of those of each batch, which are all of them, each once; padded alike.

    An endless stream is read until it has given each row; the batch that begins the next round is left out.
    """
    names = [name for name in (rows[0] if rows else ()) if name in batches[0]]
    if not names:
        raise BrokenError(f"{where}: no batch has a name of its `reference`")
    stated = [{name: np.asarray(row[name]) for name in names} for row in rows]
    left: dict[Any, dict[bytes, list[int]]] = {}  # by shapes, and by what is whole numbers
    for i, each in enumerate(stated):
        shapes = tuple(each[name].shape for name in names)
        left.setdefault(shapes, {}).setdefault(_key(each), []).append(i)
    order = sorted(left, key=lambda shapes: -sum(map(math.prod, shapes)))
    fillers: dict[str, set[str]] = {name: set() for name in names}
    found: list[list[int]] = []
    remaining = len(rows)
    for number, batch in enumerate(batches):
        count = min(len(batch[name]) for name in names)
        found.append([])
        for place in range(count):
            if endless and not remaining:  # the next round begins within this batch
                found.pop()
                break
            remaining -= 1
            row = {name: _row_of(batch[name], place, count) for name in names}
            chosen = None
            for shapes in order:
                cut = {n: _cut(row[n], shape) for n, shape in zip(names, shapes, strict=True)}
                same = (
                    left[shapes].get(_key(cut), []) if all(each is not None for each in cut.values()) else []
                )
                chosen = next((i for i in same if all(_close(cut[n], stated[i][n]) for n in names)), None)
                if chosen is not None:
                    same.remove(chosen)
                    break
            else:
                shown, what = (
                    {n: value.tolist() for n, value in row.items()},
                    f"row {place} of batch {number}",
                )
                raise BrokenError(f"{where}: {what} is {shown}; `reference` has no such row left")
            found[-1].append(chosen)
            for name in names:
                fillers[name] |= _rest(row[name], stated[chosen][name].shape)
    if more := [i for buckets in left.values() for some in buckets.values() for i in some]:
        shown = {name: value.tolist() for name, value in stated[more[0]].items()}
        raise BrokenError(f"{where}: {len(more)} rows of `reference` are in no batch, such as {shown}")
    for name, values in fillers.items():
        if len(values) > 1 or (name == "input_ids" and values - {repr(pad)}):
            raise BrokenError(
                f"{where}: {name!r} is filled with {' and '.join(sorted(values))}; padding has one value"
            )
    return found


def _row_of(tensor: Any, place: int, count: int) -> NDArray[Any]:
    """What a batch has of one row: where it has several of each row, all of them."""
    size = len(tensor) // count
    found: NDArray[Any] = tensor[place * size : (place + 1) * size].numpy()
    return found[0] if size == 1 else found


def _key(arrays: Mapping[str, Any]) -> bytes:
    """What tells rows apart by their whole numbers."""
    return b"".join(a.astype(np.int64).tobytes() for a in arrays.values() if a.dtype.kind in "iub")


def _cut(value: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """The beginning of a padded array, as large as what is stated; None where it is smaller."""
    if value.ndim != len(shape) or any(a < b for a, b in zip(value.shape, shape, strict=True)):
        return None
    found: NDArray[Any] = value[tuple(map(slice, shape))]
    return found


def _close(value: Any, stated: NDArray[Any]) -> bool:
    """Whether numbers are what is stated."""
    if value.dtype.kind in "iub" and stated.dtype.kind in "iub":
        return True  # as their key is
    same: bool = np.allclose(value.astype(float), stated.astype(float), 1e-5, 1e-6, equal_nan=True)
    return same


def _rest(value: NDArray[Any], shape: tuple[int, ...]) -> set[str]:
    """The values of a padded array beyond what is stated."""
    outside = np.ones(value.shape, bool)
    outside[tuple(map(slice, shape))] = False
    return {repr(each) for each in value[outside].tolist()}


def _assert_alike(found: Any, stated: Any, what: str) -> None:
    """Assert that settings or numbers are those that are stated."""
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        if sorted(found) != sorted(stated):
            raise BrokenError(f"{what}: there are {', '.join(found)}, and it states {', '.join(stated)}")
        for name in stated:
            _assert_alike(found[name], stated[name], f"{what}: {name!r}")
    elif isinstance(stated, list | tuple) and isinstance(found, list | tuple) and len(stated) == len(found):
        for one, other in zip(found, stated, strict=True):
            _assert_alike(one, other, what)
    elif isinstance(stated, float) and found is not None:
        if not math.isclose(found, stated, rel_tol=1e-4, abs_tol=1e-5):
            raise BrokenError(f"{what} is {found:.6g}, and it states {stated:.6g}")
    elif found != stated:
        raise BrokenError(f"{what} is {found!r:.200}, and it states {stated!r:.200}")

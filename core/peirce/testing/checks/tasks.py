"""What a task promises to a training: data, batches that can be made again, terms that add up, honest metrics."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor

from peirce.errors import PeirceError
from peirce.model import AnyTask
from peirce.testing.check import Case, check
from peirce.testing.checks.shared import left_alone
from peirce.testing.compare import finite, same
from peirce.testing.failures import BrokenError, NotApplicableError
from peirce.testing.options import choices
from peirce.testing.subjects.tasks import Batch, TaskSubject, moved

STEPS = 30
"""Steps of the training that must lower the loss of one batch."""
SIZES = (1, 2, 3, 5)
"""Rows of a batch, which leave other rests of a split."""


@check(
    "tasks",
    contract="`prepare` gives the same data each time, `overrides` are settings of a spec, `assets` are plain files",
)
def task_data(case: Case) -> None:
    """Prepared twice, under other states of the global random generators."""
    task = case.task
    first = _facts(task, task.data)
    with left_alone("prepare"):
        again = task.fresh().prepare()
    for name, value in _facts(task, again).items():
        if value != first[name]:
            raise BrokenError(
                f"prepared twice, its {name} differ: {_short(first[name])}, then {_short(value)}"
            )
    for split in task.splits:
        made = [moved(batch) for batch in _first(task.fresh().batches(again, split, 0, 0))]
        _same_batches(made, task.batches(split), f"the split {split!r}, prepared again")
    for name, content in first["assets"].items():
        if name != Path(name).name or name in ("", ".", ".."):
            raise BrokenError(f"assets names {name!r}, which is no plain file name")
        if not isinstance(content, bytes):
            raise BrokenError(f"assets gives a {type(content).__name__} for {name!r}, and must give bytes")
    _ = task.model  # a spec has a place for the overrides, and a model suits the task


@check(
    "tasks",
    contract="seed and epoch alone determine the batches of a pass and their order; an evaluation leaves out no row",
)
def task_batches(case: Case) -> None:
    """Again, after others, two passes at once, from a new task, under other global random states, in other sizes."""
    task = case.task
    for split in task.splits:
        with left_alone(f"batches of {split!r}"):
            first = task.batches(split, 1, 2)
        what = f"the split {split!r}"
        _same_batches(task.batches(split, 1, 2), first, f"{what}, from a new task")
        one = task.fresh()
        for seed, epoch in ((0, 0), (5, 1)):
            task.batches(split, seed, epoch, task=one)
        _same_batches(
            task.batches(split, 1, 2, task=one), first, f"{what}, after passes of other seeds and epochs"
        )
        mine, other = (one.batches(task.data, split, seed, 2) for seed in (1, 3))
        both = [moved(batch) for batch, _ in _first(zip(mine, other, strict=False))]
        _same_batches(both, first, f"{what}, beside another pass")
        whole = [moved(batch) for batch in one.batches(task.data, split, 1, 2)]
        _same_batches(whole[: len(first)], first, f"{what}, when the pass is taken whole")
        names = {tuple(sorted(batch)) for batch in whole}
        if len(names) > 1:
            raise BrokenError(
                f"in {what}, batches hold different tensors: {' and '.join(map(str, sorted(names)))}"
            )
        for batch in whole:
            for name, tensor in batch.items():
                if not isinstance(tensor, Tensor):
                    raise BrokenError(
                        f"a batch of {what} holds {name!r}, a {type(tensor).__name__} and no tensor"
                    )
                if tensor.requires_grad:
                    raise BrokenError(f"{name!r} in a batch of {what} requires a gradient")
    if "train" in task.splits:
        _reordered(task)
    _all_rows(task)


def _all_rows(task: TaskSubject) -> None:
    """A pass over what is evaluated has as many rows, whatever `batch_size` is; a training may drop the last ones."""
    if not isinstance(getattr(task.options, "batch_size", None), int):
        return
    for split in (name for name in task.splits if name != "train"):
        rows: dict[str, dict[int, int]] = {}
        for size in SIZES:
            try:
                one = task.fresh(attrs.evolve(task.options, batch_size=size))
                found = list(map(moved, one.batches(task.data, split, 0, 0)))
            except (PeirceError, ValueError):
                continue  # a size that the task refuses
            for name in {name for batch in found for name, tensor in batch.items() if tensor.dim()}:
                rows.setdefault(name, {})[size] = sum(len(batch[name]) for batch in found)
        if rows and all(len(set(of_sizes.values())) > 1 for of_sizes in rows.values()):
            name, of_sizes = min(rows.items())
            said = ", ".join(f"{count} rows with batch_size {size}" for size, count in of_sizes.items())
            raise BrokenError(
                f"{name!r} of a pass over {split!r} has {said}; an evaluation leaves out no row"
            )


def _reordered(task: TaskSubject) -> None:
    """Seeds and epochs have orders of their own, where there is more than one row."""
    of_seeds = [task.batches("train", seed, 0) for seed in range(4)]
    of_epochs = [task.batches("train", 0, epoch) for epoch in range(4)]
    rows = sum(max((len(t) for t in batch.values() if t.dim()), default=1) for batch in of_seeds[0])
    if rows < 4:
        return
    for what, passes in (("seeds", of_seeds), ("epochs", of_epochs)):
        if all(_alike(passes[0], each) for each in passes[1:]):
            raise BrokenError(f"four {what} give the same batches of 'train' in the same order")


@check(
    "tasks",
    contract="`terms` are the summands of `loss` by name, scalars; `targets` counts what each is a mean over",
)
def task_terms(case: Case) -> None:
    """The sum, the names, the gradient, and two batches joined into one where their tensors allow it."""
    task, model = case.task, case.task.model
    batches = [b for split in task.splits for b in task.batches(split, most=2)]
    names: list[tuple[str, ...]] = []
    one = task.fresh()
    for batch in batches:
        kept = moved(batch)
        with left_alone("loss"):
            loss, terms = one.loss(model, batch), dict(one.terms(model, batch))
        _same_batches([batch], [kept], "after its loss was taken, the batch")
        names.append(tuple(terms))
        for name, value in {"the loss": loss, **{f"the term {n!r}": t for n, t in terms.items()}}.items():
            if not isinstance(value, Tensor) or value.dim():
                raise BrokenError(f"{name} is {_kind(value)} and must be a scalar tensor")
            finite(value.detach(), name)
        total = sum((term.detach() for term in terms.values()), torch.zeros(()))
        same(
            total, loss.detach(), f"the sum of the terms {', '.join(terms)}, against the loss", tolerance=1e-5
        )
        counts = dict(one.targets(batch))
        if unknown := sorted(set(counts) - set(terms)):
            raise BrokenError(f"targets counts {', '.join(unknown)}, and the terms are {', '.join(terms)}")
        for name, count in counts.items():
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
                raise BrokenError(f"targets counts {count!r} for {name!r}; a count is an integer from 0 on")
    if len(set(names)) > 1:
        raise BrokenError(f"batches have different terms: {' and '.join(map(str, dict.fromkeys(names)))}")
    again = [value for batch in reversed(batches) for value in task.losses([batch])]
    for one_loss, other in zip(task.losses(batches), reversed(again), strict=True):
        same(other, one_loss, "the loss of a batch, after other batches", tolerance=1e-6)
    _flows(task, batches[0])
    _means(task)


def _flows(task: TaskSubject, batch: Batch) -> None:
    """A gradient of the loss reaches the model."""
    if task.trains_nothing:
        return
    task.model.zero_grad()
    loss = task.fresh().loss(task.model, batch)
    if not loss.requires_grad:
        raise BrokenError("the loss is cut off from the model: it requires no gradient")
    torch.autograd.backward(loss)
    found = {name: p.grad for name, p in task.model.named_parameters() if p.grad is not None}
    for name, gradient in found.items():
        finite(gradient, f"the gradient of {name}")
    if not any(bool(gradient.any()) for gradient in found.values()):
        raise BrokenError("the gradient of the loss is zero for every parameter of the model")
    task.model.zero_grad()


def _means(task: TaskSubject) -> None:
    """What is counted is a mean: joined, two batches have the mean of theirs, weighed by their targets."""
    with torch.no_grad():
        one = task.fresh()
        for split in task.splits:
            found = task.batches(split)
            for first in found:
                for second in found[::-1]:
                    joined = _joined(first, second)
                    if joined is None:
                        continue
                    counts = [one.targets(batch) for batch in (first, second, joined)]
                    terms = [one.terms(task.model, batch) for batch in (first, second, joined)]
                    for name in counts[0]:
                        a, b, both = (count[name] for count in counts)
                        if both != a + b:
                            raise BrokenError(
                                f"targets counts {a} and {b} of {name!r} in two batches, and {both} in both as one"
                            )
                        if not both:
                            continue
                        expected = (terms[0][name] * a + terms[1][name] * b) / both
                        what = f"the term {name!r} of two batches as one, with {a} and {b} targets"
                        same(terms[2][name], expected, what, tolerance=1e-4)


def _joined(first: Batch, second: Batch) -> dict[str, Tensor] | None:
    """Two batches as one: None where they are no rows of equal widths, each with its own."""
    if first is second or any(not tensor.dim() for tensor in (*first.values(), *second.values())):
        return None
    sizes = [{len(tensor) for tensor in batch.values()} for batch in (first, second)]
    widths = [{name: tensor.shape[1:] for name, tensor in batch.items()} for batch in (first, second)]
    if widths[0] != widths[1] or any(len(size) != 1 for size in sizes):
        return None
    return {name: torch.cat([first[name], second[name]]) for name in first}


@check("tasks", contract="a tiny model learns: a few steps on one batch lower its loss")
def task_training(case: Case) -> None:
    """Thirty steps of Adam."""
    from peirce.compose import build

    task = case.task
    if task.trains_nothing:
        raise NotApplicableError("the task evaluates alone")
    model = build(task.model.spec, registry=task.registry, seed=1).train()
    (batch,) = task.batches(most=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    one, values = task.fresh(), []
    for _ in range(STEPS):
        loss = one.loss(model, moved(batch))
        values.append(float(loss.detach()))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    if not min(values[STEPS // 2 :]) < values[0]:
        raise BrokenError(
            f"the loss of a batch begins at {values[0]:.4f}, and after {STEPS} steps it is {values[-1]:.4f}"
        )


@check("tasks", contract="every option is read by something, and every choice of one works")
def task_options(case: Case) -> None:
    """Which fields are read while the task does all of its work; and each other choice of an option of few values."""
    task = case.task
    others = list(choices(task.options))
    _ = task.model
    task.read.clear()
    _works(task, task.fresh())
    for label, chosen in others:
        other = TaskSubject(case.entry, case.registry)
        other.__dict__["options"] = chosen
        try:
            other.data = other.fresh().prepare()
            _works(other, other.fresh())
        except PeirceError:
            continue  # what the choice needs beside it is not there
        except BrokenError as error:
            if "no tiny model" not in str(error):
                raise BrokenError(f"with {label}: {error}") from error
        except Exception as error:
            raise BrokenError(f"with {label}: {type(error).__name__}: {error}") from error
    fields = [field.name for field in attrs.fields(case.entry.part.Options) if field.init]
    if dead := [name for name in fields if name not in task.read]:
        raise BrokenError(
            f"nothing reads the option{'s' if len(dead) > 1 else ''} {', '.join(dead)}: not `prepare`, `overrides`, "
            "`batches`, `loss`, `metrics`, `check`, `remarks` or `assets`"
        )


def _works(task: TaskSubject, one: AnyTask) -> None:
    """Everything that a training asks of a task, once."""
    data = one.prepare()
    one.overrides(data)
    one.assets(data)
    one.check(task.model, data)
    with torch.no_grad():
        for split in task.splits:
            for batch in [moved(batch) for batch in _first(one.batches(data, split, 0, 1))]:
                one.loss(task.model, batch)
                one.terms(task.model, batch)
                one.targets(batch)
            one.metrics(task.model, data, split)
            one.remarks(task.model, data, split)


@check("tasks", contract="data that are missing or damaged are refused by a PeirceError in one line")
def task_errors(case: Case) -> None:
    """Each file of the small data emptied, cut off, filled with noise, and away."""
    task = case.task
    _ = task.data
    files = sorted(path for path in task.folder.rglob("*") if path.is_file())
    if not files:
        raise NotApplicableError("the task reads no files; `example_in` writes those of one that does")
    noise = random.Random(0).randbytes(512)
    for path in files:
        content, name = path.read_bytes(), path.relative_to(task.folder)
        damages: Sequence[tuple[str, bytes | None]] = (
            ("is not there", None), ("is empty", b""), ("is cut off", content[: len(content) // 2]),
            ("is noise", noise), ("ends in noise", content[:-1] + noise),
        )  # fmt: skip
        for what, damaged in damages:
            try:
                path.unlink() if damaged is None else path.write_bytes(damaged)
                _refused(lambda: _used(task), f"where {name} {what}")
            finally:
                path.write_bytes(content)


def _used(task: TaskSubject) -> None:
    """Prepare and take a first batch; files may be read late."""
    one = task.fresh()
    data = one.prepare()
    for split in task.splits:
        _ = [moved(batch) for batch in islice(one.batches(data, split, 0, 0), 1)]


def _refused(call: Callable[[], object], where: str) -> None:
    """Hold that a call works, or is refused in one line."""
    try:
        call()
    except PeirceError as error:
        said = str(error).strip()
        if not said or "\n" in said:
            raise BrokenError(f"{where}, the message is {said!r}; it says in one line what to do") from error
    except Exception as error:
        raise BrokenError(f"{where}, it raises {type(error).__name__}: {error}; raise a TaskError") from error


def _facts(task: TaskSubject, data: Any) -> dict[str, Any]:
    one = task.fresh()
    return {"overrides": dict(one.overrides(data)), "assets": dict(one.assets(data))}


def _first(batches: Iterator[Any]) -> Iterator[Any]:
    return islice(batches, 3)


def _alike(first: Sequence[Batch], second: Sequence[Batch]) -> bool:
    try:
        _same_batches(second, first, "")
    except BrokenError:
        return False
    return True


def _same_batches(given: Sequence[Batch], expected: Sequence[Batch], what: str) -> None:
    """Hold batches equal, tensor by tensor."""
    if len(given) != len(expected):
        raise BrokenError(f"{what}: {len(given)} batches where there were {len(expected)}")
    for i, (one, other) in enumerate(zip(given, expected, strict=True)):
        if sorted(one) != sorted(other):
            raise BrokenError(f"{what}: batch {i} holds {sorted(one)} where it held {sorted(other)}")
        for name, tensor in one.items():
            if tensor.dtype != other[name].dtype:
                raise BrokenError(f"{what}: {name!r} is {tensor.dtype} where it was {other[name].dtype}")
            same(tensor, other[name], f"{what}: {name!r} of batch {i}", tolerance=0.0)


def _kind(value: object) -> str:
    return f"of the shape {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _short(value: object) -> str:
    return repr(value)[:120]

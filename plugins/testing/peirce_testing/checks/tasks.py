"""What a task promises to a training: data, batches that can be made again, terms that add up, honest metrics."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np
import torch
from torch import Tensor

from peirce.compose import build
from peirce.errors import PeirceError
from peirce.model import AnyTask, Model
from peirce.parts import IGNORED
from peirce_testing.check import check
from peirce_testing.compare import (
    BrokenError,
    NotApplicableError,
    assert_equal,
    assert_finite,
    assert_same_state,
    is_refused,
    torch_unchanged,
)
from peirce_testing.harness.elsewhere import digests_elsewhere, task_digests
from peirce_testing.harness.tasks import WHOLE, Batch, TaskHarness, copy_batch, first_batches
from peirce_testing.options import choices, given_fields

T = TypeVar("T")
STEPS = 30
"""Steps of the training that must lower the loss of one batch."""
SIZES = (1, 2, 3, 5)
"""Rows of a batch, which leave other rests of a split."""
CHANCE = 100
"""Of so many rows one may be the same in two splits, as where rows are drawn."""


@check("tasks")
def task_data(task: TaskHarness) -> None:
    """`prepare` gives the same data each time, `overrides` are settings of a spec, `assets` are plain files. Prepared
    twice, under other states of the global random generators.
    """

    def facts(data: Any) -> dict[str, Any]:
        one = task.fresh()
        return {"overrides": dict(one.overrides(data)), "assets": dict(one.assets(data))}

    first = facts(task.data)
    with torch_unchanged("prepare"):
        again = task.fresh().prepare()
    for name, value in facts(again).items():
        if value != first[name]:
            raise BrokenError(f"prepared twice, its {name} differ: {first[name]!r:.120}, then {value!r:.120}")
    for split in task.splits:
        instance = first_batches(task.fresh().batches(again, split, 0, 0))
        _same_batches(instance, task.batches(split), f"the split {split!r}, prepared again")
    for name, content in first["assets"].items():
        if name != Path(name).name or name in ("", ".", "..") or not isinstance(content, bytes):
            raise BrokenError(f"assets gives {name!r}: {type(content).__name__}; give bytes by plain names")
    _ = task.model  # a spec has a place for the overrides, and a model suits the task


@check("tasks", slow=True)
def task_process(task: TaskHarness) -> None:
    """Another process prepares the same data. Settings, files and batches, under another seed of Python's hashes, which
    orders sets otherwise.
    """
    _ = task.data

    def target(part: type[Any]) -> str:
        return f"{part.__module__}:{part.__qualname__}"

    mine = [each.part for each in task.registry.entries("tasks") if each.plugin == task.entry.plugin]
    found = digests_elsewhere(tuple(map(target, mine))).get(target(task.entry.part))
    if found is None:
        raise NotApplicableError("another process cannot import its module")
    own = task_digests(task.entry.part)
    if wrong := [what for what in {**own, **found} if own.get(what) != found.get(what)]:
        raise BrokenError(
            f"{', '.join(wrong)}: not the same in another process; sort what comes from a set, and draw from no seed "
            "that `hash` gives"
        )


@check("tasks")
def task_splits(task: TaskHarness) -> None:
    """Rows of `train` are not rows of the splits that are evaluated. What the model reads of each row, padding apart;
    one row of a hundred may be the same by chance.
    """
    train, *others = task.splits
    if train != "train" or not others:
        raise NotApplicableError("the task does not both train and evaluate")
    known = set(_rows(task, train))
    for split in others:
        rows = _rows(task, split)
        shared = [number for number, row in enumerate(rows) if row in known]
        if len(shared) > len(rows) / CHANCE:
            raise BrokenError(
                f"{len(shared)} of the {len(rows)} rows of {split!r} are rows of 'train' too, the first of them row "
                f"{shared[0]}; split before rows are repeated, and write other small data for each split"
            )


def _rows(task: TaskHarness, split: str) -> list[tuple[Any, ...]]:
    """What a model reads of each row of a pass: numbers other than zero, with their places, which padding leaves."""
    inputs = {each.name for each in task.model.signature.inputs if each.dims[:1] == ("batch",)}
    found = []
    for batch in task.batches(split, most=WHOLE):
        names = sorted(inputs & batch.keys()) or sorted(batch)  # of a task that makes the inputs in its loss
        columns = [batch[name] for name in names if batch[name].dim()]
        for row in zip(*columns, strict=False):
            places = [(each != 0) & (each != IGNORED) for each in row]
            found.append(
                tuple(
                    (place.nonzero().numpy().tobytes(), each[place].numpy().tobytes())
                    for each, place in zip(row, places, strict=True)
                )
            )
    return found


@check("tasks")
def task_batches(task: TaskHarness) -> None:
    """Seed and epoch alone determine the batches of a pass and their order; an evaluation leaves out no row. Again,
    after others, two passes at once, from a new task, under other global random states, in other sizes.
    """
    for split in task.splits:
        what, one = f"the split {split!r}", task.fresh()
        with torch_unchanged(f"batches of {split!r}"):
            first = task.batches(split, 1, 2)
        _same_batches(task.batches(split, 1, 2), first, f"{what}, from a new task")
        for seed, epoch in ((0, 0), (5, 1)):
            task.batches(split, seed, epoch, task=one)
        again = task.batches(split, 1, 2, task=one)
        _same_batches(again, first, f"{what}, after passes of other seeds and epochs")
        mine, other = (one.batches(task.data, split, seed, 2) for seed in (1, 3))
        beside = first_batches(batch for batch, _ in zip(mine, other, strict=False))
        _same_batches(beside, first, f"{what}, beside another pass")
        whole = task.batches(split, 1, 2, task=one, most=WHOLE)
        _same_batches(whole[: len(first)], first, f"{what}, when the pass is taken whole")
        if len(names := {tuple(sorted(batch)) for batch in whole}) > 1:
            raise BrokenError(f"in {what}, batches hold different tensors: {' and '.join(map(str, names))}")
        for name, tensor in (each for batch in whole for each in batch.items()):
            if not isinstance(tensor, Tensor) or tensor.requires_grad:
                raise BrokenError(f"{name!r} in a batch of {what} must be a tensor that requires no gradient")
        if split == "train":
            _check_orders(task)
        else:
            _check_all_rows(task, split)


def _by_batch_size(task: TaskHarness, call: Callable[[AnyTask], T]) -> Iterator[tuple[int, T]]:
    """What a call gives of the task with each `batch_size`, if it has such an option, that it does not refuse."""
    for size in SIZES if isinstance(getattr(task.options, "batch_size", None), int) else ():
        try:
            one = task.fresh(attrs.evolve(task.options, batch_size=size))
        except ValueError:  # of a validator
            continue
        with suppress(PeirceError):
            yield size, call(one)


def _check_all_rows(task: TaskHarness, split: str) -> None:
    """A pass over what is evaluated has as many rows, whatever `batch_size` is; a training may drop the last ones."""
    rows: dict[str, dict[int, int]] = {}
    for size, found in _by_batch_size(task, lambda one: task.batches(split, task=one, most=WHOLE)):
        if len(found) == WHOLE:
            return  # a stream, which may have no end
        for name in {name for batch in found for name, tensor in batch.items() if tensor.dim()}:
            rows.setdefault(name, {})[size] = sum(len(batch[name]) for batch in found)
    if rows and all(len(set(of_sizes.values())) > 1 for of_sizes in rows.values()):
        name, of_sizes = min(rows.items())
        counts = ", ".join(f"{count} rows with batch_size {size}" for size, count in of_sizes.items())
        raise BrokenError(f"{name!r} in {split!r} has {counts}; an evaluation leaves out no row")


def _check_orders(task: TaskHarness) -> None:
    """Seeds and epochs have orders of their own, where there is more than one row."""
    of_seeds = [task.batches("train", seed, 0) for seed in range(4)]
    of_epochs = [task.batches("train", 0, epoch) for epoch in range(4)]
    if sum(max((len(t) for t in batch.values() if t.dim()), default=1) for batch in of_seeds[0]) < 4:
        return
    for what, (first, *others) in (("seeds", of_seeds), ("epochs", of_epochs)):
        try:
            for each in others:
                _same_batches(each, first, "")
        except BrokenError:
            continue
        raise BrokenError(f"four {what} give the same batches of 'train' in the same order")


@check("tasks")
def task_terms(task: TaskHarness) -> None:
    """`terms` are the summands of `loss` by name, scalars; `targets` counts what each is a mean over. The sum, the
    names, two batches joined into one where their tensors allow it, and a batch without targets.
    """
    batches = [b for split in task.splits for b in task.batches(split, most=2)]
    names: list[tuple[str, ...]] = []
    one = task.fresh()
    for batch in batches:
        kept = copy_batch(batch)
        with torch_unchanged("loss"):
            loss, terms = one.loss(task.model, batch), dict(one.terms(task.model, batch))
        _same_batches([batch], [kept], "after its loss was taken, the batch")
        names.append(tuple(terms))
        for name, value in {"the loss": loss, **{f"the term {n!r}": t for n, t in terms.items()}}.items():
            if not isinstance(value, Tensor) or value.dim():
                raise BrokenError(f"{name} is {value!r:.120} and must be a scalar tensor")
            assert_finite(value.detach(), name)
        total = sum((term.detach() for term in terms.values()), torch.zeros(()))
        what = f"the sum of the terms {', '.join(terms)}, against the loss"
        assert_equal(total, loss.detach(), what, tolerance=1e-5)
        counts = one.targets(batch)
        for name, count in counts.items():
            whole = isinstance(count, int | np.integer) and not isinstance(count, bool) and count >= 0
            if name not in terms or not whole:
                wanted = f"it counts integers from 0 on, for {', '.join(terms)}"
                raise BrokenError(f"targets counts {count!r} for {name!r}; {wanted}")
        _check_without_targets(task, batch, [name for name, count in counts.items() if count])
    if len(set(names)) > 1:
        raise BrokenError(f"batches have different terms: {' and '.join(map(str, dict.fromkeys(names)))}")
    again = [value for batch in reversed(batches) for value in task.losses([batch])]
    for one_loss, other in zip(task.losses(batches), reversed(again), strict=True):
        assert_equal(other, one_loss, "the loss of a batch, after other batches", tolerance=1e-6)
    _check_means(task)


def _check_without_targets(task: TaskHarness, batch: Batch, names: Sequence[str]) -> None:
    """A term is finite where every label is -100, if that leaves it without targets."""
    bare = {name: torch.full_like(t, IGNORED) if "label" in name else t for name, t in batch.items()}
    without = [name for name in names if task.fresh().targets(bare).get(name) == 0]
    if without:
        with torch.no_grad():
            terms = task.fresh().terms(task.model, bare)
        for name in without:
            assert_finite(terms[name], f"the term {name!r} of a batch without targets")


def _check_means(task: TaskHarness) -> None:
    """What is counted is a mean: joined, two batches have the mean of theirs, weighed by their targets."""
    one = task.fresh()
    found = [task.batches(split) for split in task.splits]
    for first, second in ((a, b) for batches in found for a in batches for b in batches[::-1]):
        if (joined := _join_batches(first, second)) is None:
            continue
        every = first, second, joined
        counts = [one.targets(batch) for batch in every]
        with torch.no_grad():
            terms = [one.terms(task.model, batch) for batch in every]
        for name in counts[0]:
            a, b, both = (count[name] for count in counts)
            if both != a + b:
                message = f"targets counts {a} and {b} of {name!r} in two batches"
                raise BrokenError(f"{message}, but {both} in the two joined")
            if both:
                expected = (terms[0][name] * a + terms[1][name] * b) / both
                what = f"the term {name!r} of two batches as one, with {a} and {b} targets"
                assert_equal(terms[2][name], expected, what, tolerance=1e-4)


def _join_batches(first: Batch, second: Batch) -> dict[str, Tensor] | None:
    """Two batches as one: None if they are not rows of equal widths."""
    every = *first.values(), *second.values()
    if first is second or not all(tensor.dim() for tensor in every):
        return None
    widths = [{name: tensor.shape[1:] for name, tensor in batch.items()} for batch in (first, second)]
    if widths[0] != widths[1] or any(len(set(map(len, b.values()))) != 1 for b in (first, second)):
        return None
    return {name: torch.cat([first[name], second[name]]) for name in first}


@check("tasks")
def task_metrics(task: TaskHarness) -> None:
    """`metrics` are finite numbers of the split that is asked for, the same each time, and leave the model as it is. On
    every split, by a model in evaluation mode, and by models that always answer the same.
    """
    one, model, always = task.fresh(), task.model, "by a model that always answers the same, "
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.zero_grad()
    for split in task.splits:
        with torch_unchanged(f"metrics of {split!r}", draws=True):
            first, second = (measure(one, model, task.data, split) for _ in range(2))
        remarks = one.remarks(model, task.data, split)
        if isinstance(remarks, str) or not all(isinstance(each, str) for each in remarks):
            raise BrokenError(f"remarks gives {remarks!r}; it gives sentences, a tuple of strings")
        if first != second:
            raise BrokenError(f"the metrics of {split!r} are {first}, and then {second}")
        if not first and split != "train":
            raise BrokenError(f"the split {split!r} has no metric")
        if model.training:
            raise BrokenError("metrics leaves the model in training mode")
        if any(parameter.grad is not None for parameter in model.parameters()):
            raise BrokenError("metrics leaves gradients on parameters, to which the next step adds")
    assert_same_state(model.state_dict(), before, "of the model after metrics")
    for split in task.splits:
        _check_split(task, split)
        if split != "train":  # whose rows a task may draw anew for each batch
            _check_batch_sizes(task, split)
            _check_padding(task, split)
        for sign in (-1, 0, 1):
            measure(one, _constant_model(model, sign), task.data, split, always)


def _check_batch_sizes(task: TaskHarness, split: str) -> None:
    """Metrics are those of the rows, whatever `batch_size` is."""
    known: dict[str, float] = {}
    for size, found in _by_batch_size(task, lambda one: measure(one, task.model, task.data, split)):
        known = known or found
        for name, value in found.items():
            if not math.isclose(value, known.get(name, value), rel_tol=1e-4, abs_tol=1e-6):
                values = f"{known[name]:.6g}, and with batch_size {size} {value:.6g}"
                raise BrokenError(
                    f"the metric {name!r} of {split!r} depends on the size of batches: {values}"
                )


def _check_padding(task: TaskHarness, split: str) -> None:
    """Metrics count real tokens: what a model gives at padding changes none of them."""
    model, signature = copy.deepcopy(task.model), task.model.signature
    masks = [spec for spec in signature.inputs if spec.masks is not None]
    before = measure(task.fresh(), model, task.data, split)

    def disturb(
        _: Any, __: Any, given: Mapping[str, Tensor], outputs: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        for mask, spec in ((m, s) for m in masks for s in signature.outputs if m.masks in s.dims):
            real, value, axis = (
                given.get(mask.name),
                outputs.get(spec.name),
                spec.dims.index(mask.masks or ""),
            )
            if real is not None and value is not None and value.is_floating_point():
                shape = [len(value), *(size if i == axis else 1 for i, size in enumerate(value.shape[1:], 1))]
                noise = 1e3 * torch.arange(1, value.shape[-1] + 1, dtype=value.dtype).expand_as(value)
                outputs[spec.name] = torch.where(real.bool().view(shape), value, noise)
        return outputs

    model.register_forward_hook(disturb, with_kwargs=True)
    for name, value in measure(task.fresh(), model, task.data, split).items():
        if not math.isclose(value, before.get(name, value), rel_tol=1e-4, abs_tol=1e-6):
            raise BrokenError(
                f"the metric {name!r} of {split!r} is {before[name]:.6g}, and {value:.6g} where a model answers "
                "otherwise at padding; count real tokens alone"
            )


def measure(task: AnyTask, model: Model, data: Any, split: str, by: str = "") -> dict[str, float]:
    """The metrics as an evaluation takes them: random generators start from a seed, and are put back."""
    kept = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        try:
            found = task.metrics(model, data, split)
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
    for name, value in found.items():
        if (isinstance(value, Tensor) and value.dim()) or not math.isfinite(float(value)):
            raise BrokenError(
                f"{by}the metric {name!r} of {split!r} is {value!r}; it must be a finite number"
            )
    return {name: float(value) for name, value in found.items()}


def _constant_model(model: Model, sign: int) -> Model:
    """A copy whose outputs depend on no input: matrices are zero, vectors go from -1 to 1 times `sign`."""
    constant = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in constant.parameters():
            rising = torch.linspace(-1, 1, len(parameter)) if parameter.dim() == 1 else torch.zeros(())
            parameter.copy_(sign * rising)
    return constant


class _RecordingSplits(dict[str, Any]):
    """Data by split that record which splits are read."""

    def __init__(self, data: Mapping[str, Any], read: set[str]) -> None:
        super().__init__(data)
        self.read = read

    def __getitem__(self, split: str) -> Any:
        self.read.add(split)
        return super().__getitem__(split)


def _check_split(task: TaskHarness, split: str) -> None:
    """Metrics look at the split that is asked for, as far as it shows: by `batches`, or by data that are a dict."""
    one, read = task.fresh(), set[str]()
    batches: Callable[..., Iterator[Batch]] = one.batches

    def noted(data: Any, split: str, seed: int, epoch: int) -> Iterator[Batch]:
        read.add(split)
        return batches(data, split, seed, epoch)

    one.batches = noted
    data = task.data
    if type(data) is dict and set(task.splits) <= set(data):
        data = _RecordingSplits(data, read)
    measure(one, task.model, data, split)
    if (others := sorted(read & set(task.splits))) and split not in others:
        raise BrokenError(f"metrics of {split!r} look at {' and '.join(others)}, and never at {split!r}")


@check("tasks")
def task_training(task: TaskHarness) -> None:
    """A tiny model learns: a few steps on one batch lower its loss. Thirty steps of Adam."""
    if "train" not in task.splits:
        raise NotApplicableError("the task only evaluates")
    model = build(task.model.spec, registry=task.registry, seed=1).train()
    (batch,) = task.batches(most=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    one, values = task.fresh(), []
    for _ in range(STEPS):
        loss = one.loss(model, copy_batch(batch))
        values.append(float(loss.detach()))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    if not min(values[STEPS // 2 :]) < values[0]:
        change = f"begins at {values[0]:.4f}, and after {STEPS} steps it is {values[-1]:.4f}"
        raise BrokenError(f"the loss of a batch {change}")


@check("tasks")
def task_options(task: TaskHarness) -> None:
    """Every option is read by something, and every choice of one works and changes something. Which fields are read
    while the task does all of its work; and each other choice of an option of few values. What is refused, or may be,
    as where a choice is `refuse`, is not asked what it changes.
    """
    others = list(choices(task.options))
    _ = task.model
    task.read.clear()
    before = use_everything(task)
    same: dict[str, bool] = {}
    for label, chosen in others:
        name = label.partition(" = ")[0]
        refuses = "refuse" in (getattr(task.options, name), getattr(chosen, name))
        other = task.with_options(chosen)
        try:
            same[name] = same.get(name, True) and use_everything(other) == before and not refuses
        except PeirceError:
            same[name] = False  # what the choice needs beside it is not there
        except Exception as error:
            broken = isinstance(error, BrokenError)
            if not broken or "no tiny model" not in str(error):
                message = error if broken else f"{type(error).__name__}: {error}"
                raise BrokenError(f"with {label}: {message}") from error
    names = [field.name for field in given_fields(task.entry.part.Options)]
    if dead := [name for name in names if name not in task.read]:
        raise BrokenError(
            f"nothing reads the option{'s' if len(dead) > 1 else ''} {', '.join(dead)}: not `prepare`, `overrides`, "
            "`batches`, `loss`, `metrics`, `check`, `remarks` or `assets`"
        )
    if silent := [name for name, alike in same.items() if alike]:
        raise BrokenError(
            f"no choice of {', '.join(silent)} changes a setting, a file, a batch, a loss or a metric"
        )


def use_everything(task: TaskHarness) -> list[str]:
    """Call each method of a task that a training calls, once; what each gives."""
    one = task.fresh()
    data = task.__dict__["data"] = one.prepare()
    found = [repr(sorted(each.items())) for each in (one.overrides(data), one.assets(data))]
    one.check(task.model, data)
    with torch.no_grad():
        for split in task.splits:
            for batch in first_batches(one.batches(data, split, 0, 1)):
                terms = {"": one.loss(task.model, batch), **one.terms(task.model, batch)}
                found += [
                    f"{name} {tensor.dtype} {tensor.tolist()}" for name, tensor in sorted(batch.items())
                ]
                found += [repr([*terms.values()]), repr(one.targets(batch))]
            found += [
                repr(measure(one, task.model, data, split)),
                repr(one.remarks(task.model, data, split)),
            ]
    return found


@check("tasks")
def task_errors(task: TaskHarness) -> None:
    """Data that are missing or damaged are refused by a PeirceError in one line. Each file of the small data emptied,
    cut off, filled with noise, and away.
    """
    _ = task.data
    files = sorted(path for path in task.folder.rglob("*") if path.is_file())
    if not files:
        raise NotApplicableError("the task reads no files; `example_in` writes those of one that does")
    noise = random.Random(0).randbytes(512)

    def used() -> None:  # to a first batch, since files may be read late
        one = task.fresh()
        data = one.prepare()
        for split in task.splits:
            first_batches(one.batches(data, split, 0, 0), 1)

    for path in files:
        content = path.read_bytes()
        for what, damaged in (
            ("is not there", None), ("is empty", b""), ("is cut off", content[: len(content) // 2]),
            ("is noise", noise), ("ends in noise", content[:-1] + noise),
        ):  # fmt: skip
            try:
                path.unlink() if damaged is None else path.write_bytes(damaged)
                is_refused(used, f"where {path.relative_to(task.folder)} {what}")
            finally:
                path.write_bytes(content)


def _same_batches(given: Sequence[Batch], expected: Sequence[Batch], what: str) -> None:
    """Assert that batches are equal, tensor by tensor."""
    if len(given) != len(expected):
        raise BrokenError(f"{what}: {len(given)} batches where there were {len(expected)}")
    for i, (one, other) in enumerate(zip(given, expected, strict=True)):
        kinds, wanted = ({name: batch[name].dtype for name in sorted(batch)} for batch in (one, other))
        if kinds != wanted:
            raise BrokenError(f"{what}: batch {i} holds {kinds} where it held {wanted}")
        for name, tensor in one.items():
            assert_equal(tensor, other[name], f"{what}: {name!r} of batch {i}", tolerance=0.0)

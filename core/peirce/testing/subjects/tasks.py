"""Tasks as checks see them: with small data, and a tiny model that can be trained on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import attrs
import torch
from attrs import define, field
from torch import Tensor

from peirce.compose import build, resolve
from peirce.errors import PeirceError
from peirce.model import AnyTask, Model
from peirce.registry import Registered, Registry
from peirce.spec import HeadSpec, Spec, structured
from peirce.testing.companions import last
from peirce.testing.composed import fitting, tiny_spec
from peirce.testing.failures import BrokenError, NotApplicableError, NotRunError
from peirce.testing.options import as_table, example_options
from peirce.testing.recording import recording
from peirce.testing.subjects.exporters import one

SPLITS = ("train", "valid", "test")
"""What training and evaluation ask for."""
MOST = 3
"""Batches of a pass that checks look at."""
ENOUGH_IDS = 128
"""The vocabulary of a tiny model, for a task that takes a model as it is, with a small tokenizer of its own."""
Batch = Mapping[str, Tensor]


@define(slots=False)
class TaskSubject:
    """A task with the small data of its `example_in`, or of its example options.

    Attributes:
        read: the options that anything has read so far.
    """

    entry: Registered
    registry: Registry
    read: set[str] = field(factory=set, init=False)
    _refused: str = field(default="", init=False)
    _kept: Path = field(factory=lambda: Path(mkdtemp(prefix="peirce-check-")), init=False)

    def __attrs_post_init__(self) -> None:
        finalize(self, rmtree, self._kept, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """Where the small data are."""
        return self._kept

    @cached_property
    def options(self) -> Any:
        """The options that read the small data, which record what is read of them."""
        part: type[AnyTask] = self.entry.part
        try:
            table = {**part.example, **part.example_in(self.folder)}
            chosen = structured(part.Options, table)
        except Exception as error:
            raise BrokenError(
                f"`example_in` gives no options that the task takes: {type(error).__name__}: {error}"
            ) from error
        return recording(chosen, self.read)

    def fresh(self, options: Any = None) -> AnyTask:
        """The task, newly made."""
        task: AnyTask = self.entry.part(self.options if options is None else options)
        return task

    @cached_property
    def data(self) -> Any:
        """What the task prepares.

        Raises:
            NotRunError: it needs data that its author did not give.
        """
        try:
            return self.fresh().prepare()
        except PeirceError as error:
            if not any(self.folder.iterdir()):
                raise NotRunError(
                    f"not run: the task has no data to be checked with ({error}); write small ones in `example_in`"
                ) from error
            raise

    def batches(
        self,
        split: str = "train",
        seed: int = 0,
        epoch: int = 0,
        *,
        task: AnyTask | None = None,
        most: int = MOST,
    ) -> list[dict[str, Tensor]]:
        """The first batches of a pass, as a training moves them to its device."""
        return [
            moved(batch)
            for batch in islice((task or self.fresh()).batches(self.data, split, seed, epoch), most)
        ]

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are batches of; `train` first.

        Raises:
            NotApplicableError: there are none at all.
        """
        found = []
        for split in SPLITS:
            try:
                if self.batches(split, most=1):
                    found.append(split)
            except PeirceError:
                continue
        if not found:
            raise NotApplicableError("with its example options, the task gives no batches of any split")
        return tuple(found)

    @property
    def trains_nothing(self) -> bool:
        """Whether the task refuses to be trained, and evaluates alone."""
        try:
            return not self.batches("train", most=1)
        except PeirceError:
            return True

    @cached_property
    def model(self) -> Model:
        """A tiny model that the task accepts, in evaluation mode.

        Raises:
            BrokenError: no registered architecture and head make one.
        """
        if self._refused:
            raise BrokenError(self._refused)
        overrides = self.fresh().overrides(self.data)
        batch = self.batches(self.splits[0], most=1)[0]
        why: dict[str, None] = {}
        for spec in self._specs():
            try:
                suited = spec.replace(overrides)
                resolve(suited, self.registry)
            except PeirceError as error:
                why[str(error).splitlines()[0]] = None
                continue
            model = build(suited, registry=self.registry, seed=0).eval()
            try:
                task = self.fresh()
                task.check(model, self.data)
                task.loss(model, batch)
                return model
            except Exception as error:
                why[f"{type(error).__name__}: {str(error).splitlines()[0]}"] = None
        reasons = "\n".join(f"  {reason}" for reason in list(why)[-6:])
        self._refused = f"no tiny model of the registered architectures and heads suits it\n{reasons}"
        raise BrokenError(self._refused)

    def _specs(self) -> Iterator[Spec]:
        """Tiny specs: with the heads that the task itself asks for, with all that there are, and with each one."""
        plain = [spec for entry in self._architectures() for spec in self._plain(entry.part)]
        one_by_one = [
            HeadSpec(use=entry.name, options=as_table(example_options(entry.part)))
            for entry in self.registry.entries("heads")
        ]
        yield from plain
        for spec in plain[:1]:
            together: Any = [head for head in one_by_one if self._adds_nothing(spec, head)]
            yield attrs.evolve(spec, heads=tuple(together))
        for spec in plain:
            yield from (attrs.evolve(spec, heads=one(head)) for head in one_by_one if self._holds(spec, head))

    def _architectures(self) -> list[Registered]:
        """Plain ones first."""
        entries = self.registry.entries("architectures")
        return sorted(entries, key=lambda e: (last(e), e.part.recurrent, e.part.fixed_layer, e.part.branches))

    def _plain(self, part: Any) -> Iterator[Spec]:
        """Tiny specs of an architecture without heads, for texts of any length."""
        options = example_options(part)
        for scope in ("bidirectional", "causal") if part.scope is None else ("bidirectional",):
            if part.check_scope(options, scope) is not None:
                continue
            spec = tiny_spec(part, options, scope=scope, layers=1)
            with suppress(PeirceError):
                found = fitting(spec, self.registry)
                ids = found.input.vocabulary and max(found.input.vocabulary, ENOUGH_IDS)
                yield attrs.evolve(found, input=attrs.evolve(found.input, max_length=512, vocabulary=ids))

    def _holds(self, spec: Spec, head: HeadSpec) -> bool:
        try:
            resolve(attrs.evolve(spec, heads=one(head)), self.registry)
        except PeirceError:
            return False
        return True

    def _adds_nothing(self, spec: Spec, head: HeadSpec) -> bool:
        """Whether a head needs no inputs of its own, so that it may stand beside others."""
        if not self._holds(spec, head):
            return False
        model = build(attrs.evolve(spec, heads=one(head)), registry=self.registry)
        standard = ("input_ids", "attention_mask", "token_type_ids")
        return all(each.name in standard for each in model.signature.inputs)

    def losses(self, batches: list[dict[str, Tensor]]) -> list[Tensor]:
        """The loss of each batch, by one task."""
        task = self.fresh()
        with torch.no_grad():
            return [task.loss(self.model, batch) for batch in batches]


def moved(batch: Batch) -> dict[str, Tensor]:
    """A batch as a training takes it: every tensor of it, in copies."""
    return {name: batch[name].clone() for name in batch}

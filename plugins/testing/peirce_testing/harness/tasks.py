"""Tasks as checks see them: with small data, and a tiny model that can be trained on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import Any

import attrs
import torch
from attrs import define, field
from torch import Tensor

from peirce.compose import build, resolve
from peirce.errors import PeirceError
from peirce.model import AnyTask, Model
from peirce.spec import HeadSpec, Spec, structure_value
from peirce_testing.compare import BrokenError, NotApplicableError, NotRunError
from peirce_testing.harness.base import UsedHarness
from peirce_testing.options import record_reads
from peirce_testing.tiny_models import example_heads, plain_specs, spec_with_heads

SPLITS = ("train", "valid", "test")
"""What training and evaluation ask for."""
MOST, WHOLE = 3, 200
"""Batches that checks look at: of most passes, and of one that is taken whole unless it has no end."""
ENOUGH_IDS = 128
"""The vocabulary of a tiny model, for a task that takes a model as it is, with a small tokenizer of its own."""
Batch = Mapping[str, Tensor]


@define(slots=False)
class TaskHarness(UsedHarness):
    """A task with the small data of its `example_in`, or of its example options.

    Attributes:
        first: a spec to try before others, since it suits the task with other options.
    """

    first: Spec | None = None
    _refused: str = field(default="", init=False)

    @cached_property
    def options(self) -> Any:
        """The options that read the small data, which record what is read of them."""
        part: type[AnyTask] = self.entry.part
        try:
            chosen = structure_value(part.Options, {**part.example, **part.example_in(self.folder)})
        except Exception as error:
            message = f"`example_in` gives no options that the task takes: {type(error).__name__}: {error}"
            raise BrokenError(message) from error
        return record_reads(chosen, self.read)

    def with_options(self, options: Any) -> TaskHarness:
        """The task with other options for the same files, whose model is the same where that suits it."""
        other = TaskHarness(self.entry, self.registry, self.folder, first=self.model.spec)
        other.__dict__["options"] = options
        return other

    @cached_property
    def data(self) -> Any:
        """What the task prepares.

        Raises:
            NotRunError: it needs data that its author did not give.
        """
        try:
            return self.fresh().prepare()
        except PeirceError as error:
            if any(self.folder.iterdir()):
                raise
            raise NotRunError(
                f"not run: the task has no data to be checked with ({error}); write small ones in `example_in`"
            ) from error

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
        return first_batches((task or self.fresh()).batches(self.data, split, seed, epoch), most)

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are batches of; `train` first.

        Raises:
            NotApplicableError: there are none at all.
        """
        found = []
        for split in SPLITS:
            with suppress(PeirceError):
                if self.batches(split, most=1):
                    found.append(split)
        if not found:
            raise NotApplicableError("with its example options, the task gives no batches of any split")
        return tuple(found)

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """What the data set in the spec of the model."""
        found: Mapping[str, Any] = self.fresh().overrides(self.data)
        return found

    @cached_property
    def model(self) -> Model:
        """A tiny model that the task accepts, in evaluation mode.

        Raises:
            BrokenError: no registered architecture and head make one.
        """
        if self._refused:
            raise BrokenError(self._refused)
        (batch,) = self.batches(self.splits[0], most=1)
        why: dict[str, None] = {}
        for spec in self._specs():
            try:
                suited = spec.replace(self.settings)
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
        """Tiny specs for texts: with the heads that the task asks for, with all that there are, and with each one.

        Those of architectures of the task's own plug-in come first.
        """
        if self.first is not None:
            yield self.first
        plain = []
        for spec in plain_specs(self.registry, self.entry.plugin):
            ids = spec.input.vocabulary and max(spec.input.vocabulary, ENOUGH_IDS)
            plain.append(attrs.evolve(spec, input=attrs.evolve(spec.input, max_length=512, vocabulary=ids)))
            yield plain[-1]
        heads = [head for _, head in example_heads(self.registry)]
        for spec in plain[:1]:
            yield spec_with_heads(spec, *(head for head in heads if self._adds_nothing(spec, head)))
        for spec in plain:
            yield from (spec_with_heads(spec, head) for head in heads if self._holds(spec, head))

    def _holds(self, spec: Spec, head: HeadSpec) -> bool:
        try:
            resolve(spec_with_heads(spec, head), self.registry)
        except PeirceError:
            return False
        return True

    def _adds_nothing(self, spec: Spec, head: HeadSpec) -> bool:
        """Whether a head needs no inputs of its own, so that it may stand beside others."""
        if not self._holds(spec, head):
            return False
        model = build(spec_with_heads(spec, head), registry=self.registry)
        standard = ("input_ids", "attention_mask", "token_type_ids")
        return all(each.name in standard for each in model.signature.inputs)

    def losses(self, batches: list[dict[str, Tensor]]) -> list[Tensor]:
        """The loss of each batch, by one task."""
        task = self.fresh()
        with torch.no_grad():
            return [task.loss(self.model, batch) for batch in batches]


def copy_batch(batch: Batch) -> dict[str, Tensor]:
    """A batch as a training takes it: every tensor of it, in copies."""
    return {name: batch[name].clone() for name in batch}


def first_batches(batches: Iterator[Batch], most: int = MOST) -> list[dict[str, Tensor]]:
    """Copies of the first batches."""
    return list(map(copy_batch, islice(batches, most)))

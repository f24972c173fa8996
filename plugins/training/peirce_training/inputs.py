"""Whether the inputs that a model needs are among those that a task gives it, before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import fields_dict
from torch import nn

from peirce.errors import TaskError
from peirce.model import AnyTask, Model
from peirce.parts import Architecture, Augmenter, Head, Position, TensorSpec

_KINDS: Mapping[type[Any], str] = {
    Position: "position", Augmenter: "augmenter", Head: "head", Architecture: "architecture",
}  # fmt: skip


class _CalledError(Exception):
    """What ends a task's first call of the model, with the names of the inputs that it gives."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names


def check_inputs(model: Model, task: AnyTask, data: Any, split: str, seed: int) -> None:
    """Refuse a model that needs an input which the task does not give.

    Where the names of a batch do not say so already, the task's own loss is asked, which ends as it calls the model:
    batches may have other names than the inputs that a task makes of them.

    Raises:
        TaskError: names the part that declares the input, the input, the task, and what to do.
    """
    needed = {spec.name: spec for spec in model.signature.inputs if spec.required}
    batch = next(iter(task.batches(data, split, seed, 0)), None)
    if batch is None or needed.keys() <= batch.keys():
        return

    def end(_: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        raise _CalledError(
            set(named) | {name for each in given if isinstance(each, Mapping) for name in each}
        )

    hooks = [each.register_forward_pre_hook(end, with_kwargs=True) for each in (model, model.network)]
    try:
        task.terms(model, batch)
        return
    except _CalledError as called:
        missing = [spec for name, spec in needed.items() if name not in called.names]
    finally:
        for hook in hooks:
            hook.remove()
    if missing:
        column = f"--set task.inputs.{missing[0].name}=COLUMN"
        feed = f"feed it from a column of the table with {column}, or " if _reads_columns(task) else ""
        raise TaskError(
            f"{'; '.join(f'{_declaring_part(model, spec)} needs {_describe(spec)}' for spec in missing)}. The "
            f"task {task.name!r} does not give {'it' if len(missing) == 1 else 'them'}: {feed}make it optional in the "
            "part's `inputs()`, with required=False and a default, or leave the part out"
        )


def _reads_columns(task: AnyTask) -> bool:
    return "inputs" in fields_dict(type(task.options))


def _describe(spec: TensorSpec) -> str:
    meaning = f", {spec.meaning.rstrip('.')}" if spec.meaning else ""
    return f"the input {spec.name!r} ({spec.dtype} [{', '.join(map(str, spec.dims))}]{meaning})"


def _declaring_part(model: Model, spec: TensorSpec) -> str:
    """The kind and the name of the part that declares an input; an architecture repeats what its parts declare."""
    parts: list[Any] = [each for each in model.modules() if isinstance(each, tuple(_KINDS))]
    declaring = [part for part in parts if spec.name in {each.name for each in part.inputs()}]
    part = min(declaring, key=lambda each: isinstance(each, Architecture))
    return f"{next(word for kind, word in _KINDS.items() if isinstance(part, kind))} {part.name!r}"

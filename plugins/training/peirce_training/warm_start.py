"""A training that starts from a saved model: its body is taken whole, and each of its heads that still fits.

Nothing is taken or left out silently: a `WarmStart` lists what a training begins with, and is printed, returned and
written to `training.json`.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import attrs
from attrs import frozen
from torch import Tensor

from peirce.compose import load, place_tensors, refuse_changed_outputs, take_weights
from peirce.errors import PlanError, TaskError
from peirce.files import digest_of, parse_json, read_bytes
from peirce.model import (
    ASSETS,
    SPEC,
    WEIGHTS,
    AnyTask,
    Model,
    saved_files,
    shorten_list,
    weight_differences,
)
from peirce.registry import Registry, load_spec
from peirce.spec import Spec, to_plain

TOKENIZER = "tokenizer"
"""The option of a task that names its tokenizer; left empty, it is the one that a saved model keeps."""
TOKENIZER_FILE = "tokenizer.json"
_VOCABULARIES = ("tokenizer", "vocabulary", "vocab", "tokens")
"""The stems of assets that say which token an id is; these may not differ between a model and what it starts from."""

Tensors = Mapping[str, Tensor]


@final
@frozen(kw_only=True)
class WarmStart:
    """What a training took from a saved model, and what is new.

    Args:
        directory: the saved model.
        digest: SHA-256 of its weights.
        tensors: how many tensors were taken.
        parameters: how many numbers they hold.
        heads_taken: prefixes of the heads that were taken.
        heads_new: prefixes of the heads that start afresh.
        heads_left: prefixes of the saved model's heads that the new one lacks.
        parameters_new: how many numbers the new heads hold.
        parameters_gained: how many numbers of the body are new, of a spec that contains the saved one's.
        changed: keys of the spec that differ, heads aside.
        converted: dtypes of the saved model that are not those of the new one, to which its tensors were converted.
    """

    directory: str
    digest: str
    tensors: int
    parameters: int
    heads_taken: tuple[str, ...]
    heads_new: tuple[str, ...]
    heads_left: tuple[str, ...]
    parameters_new: int
    changed: tuple[str, ...]
    converted: tuple[str, ...] = ()
    parameters_gained: int = 0

    def __str__(self) -> str:
        def heads(prefixes: tuple[str, ...]) -> str:
            return f"head{'s' if len(prefixes) > 1 else ''} {', '.join(prefixes)}"

        taken = f"the body and {heads(self.heads_taken)}" if self.heads_taken else "the body"
        parts = {
            f"taken from {self.directory}: {taken} ({self.tensors:,} tensors, {self.parameters:,} parameters)": True,
            f"new: {heads(self.heads_new)} ({self.parameters_new:,} parameters)": self.heads_new,
            f"new in the body: {self.parameters_gained:,} parameters": self.parameters_gained,
            f"left behind: {heads(self.heads_left)}": self.heads_left,
            f"the spec differs in {', '.join(self.changed)}": self.changed,
            f"converted from {' and '.join(self.converted)}": self.converted,
        }
        return "; ".join(text for text, there in parts.items() if there)


def saved_spec(directory: str | Path, overrides: Mapping[str, Any] | None = None) -> Spec:
    """The spec of a saved model, with some values changed.

    Raises:
        TaskError: there is no saved model.
        SpecError: its spec, or a change of it, is not valid.
    """
    path = Path(directory) / SPEC
    if not path.is_file():
        raise TaskError(
            f"there is no saved model at {directory} to start from: it has no {SPEC}; give the directory of a trained "
            "or an imported model"
        )
    return load_spec(path, overrides)


def with_tokenizer(task: AnyTask, directory: str | Path) -> AnyTask:
    """The task with the tokenizer that a saved model keeps, if the task takes one and has been given none."""
    file = Path(directory) / ASSETS / TOKENIZER_FILE
    names = attrs.fields_dict(type(task.options))
    if TOKENIZER not in names or getattr(task.options, TOKENIZER) or not file.is_file():
        return task
    with_it = copy.copy(task)
    with_it.options = attrs.evolve(task.options, **{TOKENIZER: str(file)})
    return with_it


def keep_vocabulary(overrides: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """Overrides from a task's data for an existing model, which may have more token vectors than the task tokens."""
    key, vocabulary = "model.input.vocabulary", spec.input.vocabulary
    tokens = overrides.get(key)
    more = vocabulary is not None and isinstance(tokens, int) and vocabulary > tokens
    return {**overrides, key: vocabulary} if more else dict(overrides)


@final
@frozen(eq=False)
class SavedModel:
    """A saved model that a training starts from.

    Args:
        directory: where it was saved.
        model: the model.
        digest: SHA-256 of its weights.
    """

    directory: Path
    model: Model
    digest: str

    @classmethod
    def read(cls, directory: str | Path, registry: Registry) -> SavedModel:
        """Read a saved model.

        Raises:
            ModelFileError: a file is missing or damaged, or a part is not here.
        """
        model = load(directory, registry=registry)
        with saved_files(Path(directory), digests=False) as files:
            return cls(Path(directory), model, digest_of(files.path(WEIGHTS)))

    def begin(self, model: Model, task: AnyTask, assets: Mapping[str, bytes]) -> WarmStart:
        """Copy the body, and the heads that fit, into a freshly built model; its other heads keep what they have.

        The model's body may have more than the saved one, as long as it gives the same.

        Args:
            model: the model.
            task: what it is trained on, whose option `tokenizer` is empty if it makes one of its own.
            assets: those of the task, whose token ids must mean what they mean to the saved model.

        Raises:
            TaskError: another vocabulary, or one that was made for the task's data alone; or a size or a tensor of the
                body is missing, unknown or of another shape; all of them are named. Or what the body has beyond the
                saved one changes what it gives.
        """
        self._check_vocabulary(assets, own=not getattr(task.options, TOKENIZER, True))
        ours, theirs = (_by_head(each.state_dict()) for each in (model, self.model))
        names = place_tensors(self.model.state_dict(), model.state_dict())
        placed = {names.get(name, name): tensor for name, tensor in theirs[""].items()}
        tensors, fresh = _tensor_differences(ours[""], placed), [*(ours[""].keys() - placed.keys())]
        sizes = [*_size_differences(model, self.model, length=bool(tensors))]
        if sizes or len(tensors) > bool(fresh):
            if model.spec.architecture != self.model.spec.architecture:
                sizes.insert(
                    0,
                    f"the architecture is {model.spec.architecture!r} and was {self.model.spec.architecture!r}",
                )
            raise TaskError(
                f"spec {model.spec.name!r} cannot start from {self.directory}: {'; '.join([*sizes, *tensors])}. Only "
                "heads may differ: give no spec to take the saved one's, or change yours to agree"
            )
        heads, saved = ({head.as_: head.use for head in each.spec.heads} for each in (model, self.model))
        fits = [
            prefix
            for prefix, use in heads.items()
            if saved.get(prefix) == use and not _tensor_differences(ours[prefix], theirs[prefix])
        ]
        new = tuple(prefix for prefix in heads if prefix not in fits)
        taken = {name: tensor for prefix in ("", *fits) for name, tensor in theirs[prefix].items()}
        before = model.state_dict()
        converted = {str(t.dtype) for name, t in taken.items() if t.dtype != before[names[name]].dtype}
        take_weights(model, self.model, {name: names[name] for name in taken})
        if fresh:
            try:
                refuse_changed_outputs(self.model, model, heads=False)
            except PlanError as error:
                raise TaskError(
                    f"spec {model.spec.name!r} has more than {self.directory} ({tensors[0]}), and cannot start from "
                    f"it: {error}"
                ) from error
        return WarmStart(
            directory=str(self.directory),
            digest=self.digest,
            tensors=len(taken),
            parameters=sum(t.numel() for t in taken.values()),
            heads_taken=tuple(fits),
            heads_new=new,
            heads_left=tuple(prefix for prefix in saved if prefix not in fits),
            parameters_new=sum(t.numel() for prefix in new for t in ours[prefix].values()),
            changed=_changed_keys(model.spec, self.model.spec),
            parameters_gained=sum(ours[""][name].numel() for name in fresh),
            converted=tuple(sorted(dtype.removeprefix("torch.") for dtype in converted)),
        )

    def _check_vocabulary(self, assets: Mapping[str, bytes], *, own: bool) -> None:
        ours = {name: content for name, content in assets.items() if Path(name).stem in _VOCABULARIES}
        folder = self.directory / ASSETS
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        theirs = {path.name: read_bytes(path, text=True) for path in paths if path.stem in _VOCABULARIES}
        if own and ours and not theirs:
            raise TaskError(
                f"the model in {self.directory} keeps no tokenizer, and one that is made for the task's texts gives "
                "ids that mean something else to it; give the model's own with --set tokenizer=PATH, a "
                "tokenizer.json, a vocab.txt or a folder with one"
            )
        shared = sorted(ours.keys() & theirs.keys())
        if ours and theirs and not shared:
            raise TaskError(
                f"the model in {self.directory} has the vocabulary {', '.join(theirs)} and the task has "
                f"{', '.join(sorted(ours))}: its tokens mean something else. Start from a model that was trained on "
                "the task's kind of data"
            )
        if differing := [name for name in shared if not equal_files(ours[name], theirs[name])]:
            raise TaskError(
                f"the task's {', '.join(differing)} is not the one in {folder}: its token ids mean something else to "
                f"the model. Give the task the saved one: leave its option `tokenizer` empty, or name {folder}"
            )


def _by_head(state: Tensors) -> Mapping[str, dict[str, Tensor]]:
    """Tensors by the prefix of their head; those of the body by an empty one."""
    found: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in state.items():
        first, _, rest = name.partition(".")
        found[rest.partition(".")[0] if first == "heads" else ""][name] = tensor
    return found


def _tensor_differences(ours: Tensors, theirs: Tensors) -> list[str]:
    """How a model's tensors differ from those of a saved model that it starts from: a clause for each kind."""
    found = weight_differences(theirs, {name: tensor.shape for name, tensor in ours.items()})
    kinds = ("the saved model lacks", "the spec has no place for", "of another shape")
    return [
        f"{kind}: {shorten_list(names, 3)}"
        for kind, names in zip(kinds, found.values(), strict=True)
        if names
    ]


def _size_differences(model: Model, saved: Model, *, length: bool) -> Iterator[str]:
    """Sizes of a saved model that differ; tensors alone do not tell 12 heads of 64 from 24 heads of 32.

    The longest input may differ, unless a tensor has another shape, which a table of positions would have.
    """
    ours, theirs = model.plan.dims.known(), saved.plan.dims.known()
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name, 0), theirs.get(name, 0)
        if one != other and other and (name != "max_length" or length):
            yield f"{'model.input.' if name == 'max_length' else ''}{name} is {one} and was {other}"


def _changed_keys(spec: Spec, saved: Spec) -> tuple[str, ...]:
    ours, theirs = (flatten("model", to_plain(value)) for value in (spec, saved))
    aside = ("model.heads", "model.name", "model.regularisation")
    keys = sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
    return tuple(key for key in keys if not key.startswith(aside))


def flatten(prefix: str, value: Any) -> dict[str, Any]:
    """Nested plain values by dotted key."""
    if isinstance(value, Mapping):
        items: list[tuple[str, Any]] = list(value.items())
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        items = [(str(i), item) for i, item in enumerate(value)]
    else:
        return {prefix: value}
    return {key: v for name, item in items for key, v in flatten(f"{prefix}.{name}", item).items()}


def equal_files(first: bytes, second: bytes) -> bool:
    """Whether two files name the same tokens; JSON may be formatted differently, and its tokenizers may cut, pad and
    frame texts differently."""
    if first == second:
        return True
    try:
        one, other = (parse_json(each) for each in (first, second))
    except ValueError:
        return False
    for table in (one, other):
        for key in ("truncation", "padding", "post_processor") if isinstance(table, dict) else ():
            table.pop(key, None)
    return bool(one == other)

"""A training that starts from a saved model: its body is taken whole, and each of its heads that still fits.

Nothing is taken or left in silence: what a training begins with stands in `Start`, which is printed, returned and
written to `training.json`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import torch
from attrs import frozen

from peirce.compose import load
from peirce.errors import TaskError
from peirce.files import digest_of, parse_json, read_bytes
from peirce.model import ASSETS, SPEC, WEIGHTS, AnyTask, Model, saved_files
from peirce.registry import Registry, load_spec
from peirce.spec import Spec, to_plain

TOKENIZER = "tokenizer"
"""The option of a task that names its tokenizer; left empty, it is the one that a saved model keeps."""
TOKENIZER_FILE = "tokenizer.json"
_VOCABULARIES = ("tokenizer", "vocabulary", "vocab", "tokens")
"""The stems of assets that say which token an id is; these may not differ between a model and what it starts from."""
_HEADS = "heads."
_SHOWN = 30
"""The most tensors of one kind that an error lists."""
_MAY_DIFFER = ("max_length",)
"""Sizes that a model may have otherwise than the one it starts from, as long as no tensor has another shape."""


@frozen(kw_only=True)
class Start:
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

    def __str__(self) -> str:
        with_heads = f" and {_named(self.heads_taken)}" if self.heads_taken else ""
        parts = [
            f"taken from {self.directory}: the body{with_heads} ({self.tensors:,} tensors, "
            f"{self.parameters:,} parameters)"
        ]
        if self.heads_new:
            parts.append(f"new: {_named(self.heads_new)} ({self.parameters_new:,} parameters)")
        if self.heads_left:
            parts.append(f"left behind: {_named(self.heads_left)}")
        if self.changed:
            parts.append(f"the spec differs in {', '.join(self.changed)}")
        if self.converted:
            parts.append(f"converted from {' and '.join(self.converted)}")
        return "; ".join(parts)

    def plain(self) -> dict[str, Any]:
        """As what JSON holds."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in attrs.asdict(self, recurse=False).items()
        }


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
    kept = Path(directory) / ASSETS / TOKENIZER_FILE
    names = attrs.fields_dict(type(task.options))
    if TOKENIZER not in names or getattr(task.options, TOKENIZER) or not kept.is_file():
        return task
    with_it = copy.copy(task)
    with_it.options = attrs.evolve(task.options, **{TOKENIZER: str(kept)})
    return with_it


VOCABULARY = "model.input.vocabulary"


def fitting(overrides: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """What a task's data determine, for a model that exists: it may have more vectors than its task has tokens."""
    vocabulary, asked = spec.input.vocabulary, overrides.get(VOCABULARY)
    more = vocabulary is not None and isinstance(asked, int) and vocabulary > asked
    return {**overrides, VOCABULARY: vocabulary} if more else dict(overrides)


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
        directory = Path(directory)
        model = load(directory, registry=registry)
        with saved_files(directory, digests=False) as files:
            return cls(directory, model, digest_of(files.path(WEIGHTS)))

    def check_vocabulary(self, assets: Mapping[str, bytes]) -> None:
        """Refuse data whose token ids mean something else than those that the model knows.

        Args:
            assets: those of the task.

        Raises:
            TaskError: names the files that differ.
        """
        ours = {name: content for name, content in assets.items() if Path(name).stem in _VOCABULARIES}
        folder = self.directory / ASSETS
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        try:
            theirs = {
                path.name: read_bytes(path, "vocabulary") for path in paths if path.stem in _VOCABULARIES
            }
        except OSError as error:
            raise TaskError(f"the vocabulary in {folder} cannot be read: {error}; restore it") from error
        if not ours or not theirs:
            return
        shared = ours.keys() & theirs.keys()
        differing = sorted(name for name in shared if not _same(ours[name], theirs[name]))
        if not shared:
            raise TaskError(
                f"the model in {self.directory} has the vocabulary {', '.join(theirs)} and the task has "
                f"{', '.join(sorted(ours))}: its tokens mean something else. Start from a model that was trained on "
                "the task's kind of data"
            )
        if differing:
            raise TaskError(
                f"the task's {', '.join(differing)} is not the one in {folder}: its token ids mean something else to "
                f"the model. Give the task the saved one: leave its option `tokenizer` empty, or name {folder}"
            )

    def give(self, model: Model) -> Start:
        """Copy the body, and the heads that fit, into a freshly built model.

        Args:
            model: the model to fill; its other heads keep what they were built with.

        Raises:
            TaskError: a size or a tensor of the body is missing, unknown or of another shape; all of them are named.
        """
        ours, theirs = model.state_dict(), self.model.state_dict()
        problems = [*_sizes(model, self.model), *_differ(_body(ours), _body(theirs))]
        if problems:
            raise TaskError(
                f"spec {model.spec.name!r} cannot start from {self.directory}: {_hint(model, self.model)}"
                f"{'; '.join(problems)}. Only heads may differ: give no spec to take the saved one's, "
                "or change yours to agree"
            )
        heads = {head.as_: head.use for head in model.spec.heads}
        saved = {head.as_: head.use for head in self.model.spec.heads}
        fits = {
            prefix
            for prefix, use in heads.items()
            if saved.get(prefix) == use and not _differ(_of(prefix, ours), _of(prefix, theirs))
        }
        taken = _body(theirs) | {n: t for prefix in fits for n, t in _of(prefix, theirs).items()}
        model.load_state_dict(taken, strict=False)
        new = tuple(prefix for prefix in heads if prefix not in fits)
        return Start(
            directory=str(self.directory),
            digest=self.digest,
            tensors=len(taken),
            parameters=sum(t.numel() for t in taken.values()),
            heads_taken=tuple(prefix for prefix in heads if prefix in fits),
            heads_new=new,
            heads_left=tuple(prefix for prefix in saved if prefix not in fits),
            parameters_new=sum(t.numel() for prefix in new for t in _of(prefix, ours).values()),
            changed=_changed(model.spec, self.model.spec),
            converted=tuple(sorted({_dtype(t) for n, t in taken.items() if t.dtype != ours[n].dtype})),
        )


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


Tensors = dict[str, torch.Tensor]


def _body(state: Mapping[str, torch.Tensor]) -> Tensors:
    return {name: tensor for name, tensor in state.items() if not name.startswith(_HEADS)}


def _of(prefix: str, state: Mapping[str, torch.Tensor]) -> Tensors:
    return {name: tensor for name, tensor in state.items() if name.startswith(f"{_HEADS}{prefix}.")}


def _differ(ours: Tensors, theirs: Tensors) -> list[str]:
    """What is wrong with the tensors of a saved model, seen from the one that takes them: a clause for each kind."""
    shapes = [
        f"{name} {list(theirs[name].shape)}, not {list(tensor.shape)}"
        for name, tensor in ours.items()
        if name in theirs and tensor.shape != theirs[name].shape
    ]
    kinds = {
        "the saved model lacks": [name for name in ours if name not in theirs],
        "the spec has no place for": [name for name in theirs if name not in ours],
        "of another shape are": shapes,
    }
    return [f"{kind} {_listed(names)}" for kind, names in kinds.items() if names]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _sizes(model: Model, saved: Model) -> Iterable[str]:
    """Sizes that differ; tensors alone do not tell 12 heads of 64 from 24 heads of 32."""
    if model.spec.architecture != saved.spec.architecture:
        yield f"the architecture is {model.spec.architecture!r} and was {saved.spec.architecture!r}"
    ours, theirs = model.plan.dims.known(), saved.plan.dims.known()
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name, 0), theirs.get(name, 0)
        if one != other and name not in _MAY_DIFFER:
            yield f"{name} is {one} and was {other}"


def _hint(model: Model, saved: Model) -> str:
    """The sentence for a table of positions that is too short."""
    ours, theirs = model.plan.dims.max_length, saved.plan.dims.max_length
    state = saved.state_dict()
    tables = [
        name
        for name, tensor in _body(model.state_dict()).items()
        if name in state
        and ours != theirs
        and tensor.shape[:1] == (ours,)
        and state[name].shape[:1] == (theirs,)
    ]
    if not tables:
        return ""
    return (
        f"model.input.max_length is {ours} and was {theirs}, and the saved model learned a vector for each of its "
        f"{theirs} positions; set model.input.max_length={theirs}. "
    )


def _changed(spec: Spec, saved: Spec) -> tuple[str, ...]:
    ours, theirs = (flat("model", to_plain(value)) for value in (spec, saved))
    aside = ("model.heads", "model.name", "model.regularisation")
    return tuple(
        key
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key) and not key.startswith(aside)
    )


def flat(prefix: str, value: Any) -> dict[str, Any]:
    """Nested plain values by dotted key."""
    if isinstance(value, Mapping):
        items: list[tuple[str, Any]] = list(value.items())
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        items = [(str(i), item) for i, item in enumerate(value)]
    else:
        return {prefix: value}
    return {key: v for name, item in items for key, v in flat(f"{prefix}.{name}", item).items()}


def _same(first: bytes, second: bytes) -> bool:
    """Whether two files say the same; JSON may be laid out otherwise."""
    if first == second:
        return True
    try:
        return bool(parse_json(first) == parse_json(second))
    except ValueError:
        return False


def _named(prefixes: tuple[str, ...]) -> str:
    return f"head{'s' if len(prefixes) > 1 else ''} {', '.join(prefixes)}"

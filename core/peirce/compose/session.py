"""Runs an exported file: numpy in, numpy out, without torch. Each format's runtime is found by the file's suffix.

Nothing here, nor anything that it imports, may import torch: a serving machine need not have it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peirce.compose.staleness import StaleWarning, stale
from peirce.errors import InputError, ModelFileError, RegistryError, unknown
from peirce.files import digests_checked
from peirce.model import Callback, Generated, LoadedModel, OnDevice, Runtime, decoding, fitting, generate
from peirce.parts import Signature, TensorSpec, check_sizes, room, within_memory
from peirce.registry import runtime_of

MOST_THREADS = 1024
"""The most threads: more are no faster, and a runtime would really start them."""


def opened_by(path: Path) -> Runtime:
    """The runtime of a file.

    Raises:
        ModelFileError: the file is not there, or no runtime is known for its suffix.
    """
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file; `peirce export` writes one")
    try:
        return runtime_of(path)()
    except RegistryError as error:
        raise ModelFileError(f"{path}: {error}") from error


class Session:
    """An exported file, ready to run.

    Args:
        path: the file; its external data, if any, lies beside it.
        providers: what computes, in the runtime's own names, in order of preference. None leaves the choice to it:
            ONNX Runtime takes CUDA where it works, then the CPU.
        threads: threads within an operator; None leaves the choice to the runtime.
        digests: whether the file is held against the digest that it carries, and against the saved model beside it; if
            None it is, unless `PEIRCE_NO_DIGESTS` is set.
        provider_options: options of providers, in the runtime's own words, by the provider's name, such as
            `{"CUDAExecutionProvider": {"device_id": 1}}`.

    Attributes:
        signature: the file's inputs and outputs.
        providers: what computes, in the runtime's own names.
        role: which graph of its model the file is, such as `prefill`; `model` for all of it.
        digest: the digest that the file carries and was held against; None where it carries none, or was not held
            against it.

    Raises:
        ModelFileError: the file is missing, damaged, or was not exported by Peirce, or no runtime knows its suffix.
        InputError: a provider that this installation does not have, that does not start, or that refuses its options.

    Warns:
        StaleWarning: a saved model lies beside the file, and is not the one that the file was exported from.
    """

    def __init__(
        self,
        path: str | Path,
        providers: Sequence[str] | None = None,
        threads: int | None = None,
        digests: bool | None = None,
        provider_options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        if threads is not None and not (isinstance(threads, int) and 1 <= threads <= MOST_THREADS):
            raise InputError(f"threads is {threads!r}; it must be an integer from 1 to {MOST_THREADS}")
        self.path = Path(path)
        runtime = opened_by(self.path)
        self.digest: str | None = runtime.check(self.path) if digests_checked(digests) else None
        if digests_checked(digests) and (told := stale(self.path, runtime)):
            warnings.warn(told, StaleWarning, stacklevel=2)
        self._hold(
            runtime.open(self.path, providers, threads)
            if provider_options is None
            else runtime.open_with_options(self.path, providers, threads, provider_options)
        )

    @classmethod
    def over(cls, file: LoadedModel, path: str | Path) -> Session:
        """A session of a file that is open already, such as one that a server holds.

        Args:
            file: the open file.
            path: where it came from, for errors.
        """
        made = cls.__new__(cls)
        made.path, made.digest = Path(path), None
        made._hold(file)
        return made

    def _hold(self, file: LoadedModel) -> None:
        self._file: LoadedModel | None = file
        self.signature: Signature = file.signature
        self.providers: tuple[str, ...] = file.providers
        self.role: str = file.role
        specs = (*self.signature.inputs, *self.signature.outputs)
        self._dtypes = {spec.name: file.dtype(spec.name) for spec in specs}

    def dtype(self, name: str) -> np.dtype[Any]:
        """The numpy dtype of an input or output; bfloat16 outputs come as float32, which numpy has."""
        return self._dtypes[name]

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Run the model.

        Args:
            inputs: arrays by input name, of the signature's dtypes and dims. One that is not required and
                has a default may be left out.
            outputs: the outputs to compute; None for all of them.

        Returns:
            The outputs by name, in the order asked for.

        Raises:
            InputError: a name, dtype, rank, dim or id that the signature does not allow; it names the input.
        """
        names = self._named(outputs)
        held = {name: v.numpy() if isinstance(v, OnDevice) else v for name, v in _mapping(inputs).items()}
        feeds: dict[str, Any] = self._feeds(held)
        if not names:
            return {}
        with within_memory(lambda: _shapes(feeds)):
            return dict(zip(names, self._opened().run(feeds, names), strict=True))

    def run_on_device(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None
    ) -> dict[str, OnDevice]:
        """Run the model, and leave its outputs where they are computed, such as on a GPU.

        Args:
            inputs: as for `run`; outputs of an earlier run on the device stay there. The ids in them are not checked.
            outputs: the outputs to compute; None for all of them.

        Returns:
            The outputs by name; `.numpy()` copies one to the CPU.

        Raises:
            InputError: as `run`, or the runtime of the file leaves nothing on a device.
        """
        names = self._named(outputs)
        feeds = self._feeds(inputs)
        with within_memory(lambda: _shapes(feeds)):
            return dict(zip(names, self._opened().run_on_device(feeds, names), strict=True))

    def generate(
        self, inputs: Mapping[str, Any], said: Callback | None = None, **settings: Any
    ) -> tuple[Generated, ...]:
        """Generate a text for each prompt, token for token what `Model.generate` gives.

        Args:
            inputs: the prompts, as for `run`; they may have different lengths, padded on either side.
            said: called with the tokens of all rows, int64 [b], as soon as they are chosen; not with beams.
            settings: how tokens are chosen, as in `peirce.model.Decoding`.

        Returns:
            The generated tokens of each row, without its prompt, and their score.

        Raises:
            InputError: an input or a setting is wrong, or the file was not exported to generate.
            ModelFileError: the file of the step is missing, or belongs to another model.
        """
        how = decoding(**settings)
        opened = self._opened()
        begin, feeds = opened.stepper(), self._feeds(inputs)
        if opened.generated is not None:
            free = room(self.signature, opened.generated, feeds[opened.generated].shape[1])
            how = fitting(how, free, asked="max_new" in settings)
        with within_memory(lambda: _shapes(feeds)):
            return generate(begin(feeds), how, said)

    def close(self) -> None:
        """Let go of the model's memory; the session cannot run after it."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _named(self, outputs: Sequence[str] | None) -> list[str]:
        """The names of the outputs to compute."""
        if isinstance(outputs, str):
            raise InputError(f"outputs is the text {outputs!r}; give a list of names, [{outputs!r}]")
        known = [spec.name for spec in self.signature.outputs]
        names = known if outputs is None else list(outputs)
        for name in names:
            if name not in known:
                raise InputError(unknown("output", name, known))
        return names

    def _opened(self) -> LoadedModel:
        if self._file is None:
            raise InputError(f"the session of {self.path} is closed; open another")
        return self._file

    def _feeds(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        inputs = _mapping(inputs)
        known = [spec.name for spec in self.signature.inputs]
        for name in inputs:
            if name not in known:
                raise InputError(unknown("input", name, known))
        bound: dict[str, tuple[int, str]] = {}
        feeds: dict[str, Any] = {}
        for spec in self.signature.inputs:
            if spec.name in inputs:
                feeds[spec.name] = self._checked(spec, inputs[spec.name], bound)
        here = not any(word in name.lower() for name in self.providers for word in ("cuda", "tensorrt"))
        sizes = {dim: size for dim, (size, _) in bound.items()}
        check_sizes(self.signature, sizes, self._item() if here else None)
        for spec in self.signature.inputs:
            if spec.name not in feeds:
                feeds[spec.name] = self._filled(spec, bound)
        return feeds

    def _item(self) -> int:
        """Bytes of a floating number, as far as an output has any."""
        real = [self._dtypes[spec.name].itemsize for spec in self.signature.outputs if spec.dtype == "float"]
        return max(real, default=1)

    def _checked(self, spec: TensorSpec, value: Any, bound: dict[str, tuple[int, str]]) -> Any:
        wanted = self.dtype(spec.name)
        try:
            array: Any = value if isinstance(value, OnDevice) else np.asarray(value)
        except ValueError as error:
            raise InputError(f"input {spec.name!r} is no array: {error}") from error
        if array.dtype != wanted:
            raise InputError(
                f"input {spec.name!r} is {array.dtype}, but the model takes {wanted}; "
                f"convert it with .astype({wanted.name!r})"
            )
        if len(array.shape) != len(spec.dims):
            raise InputError(
                f"input {spec.name!r} has shape {list(array.shape)}, but the model takes {_dims(spec)}: "
                f"{len(spec.dims)} dims"
            )
        for axis, (dim, size) in enumerate(zip(spec.dims, array.shape, strict=True)):
            if size == 0:
                raise InputError(
                    f"input {spec.name!r} has shape {list(array.shape)}: dim {axis} ({dim}) is empty"
                )
            expected, owner = bound.setdefault(dim, (size, spec.name)) if isinstance(dim, str) else (dim, "")
            if size != expected:
                because = f"that is the {dim!r} of {owner!r}" if owner else "it is fixed"
                raise InputError(
                    f"input {spec.name!r} has shape {list(array.shape)}, but dim {axis} of {_dims(spec)} "
                    f"must be {expected}: {because}"
                )
        if isinstance(array, OnDevice):
            return array
        if spec.high is not None and ((low := array.min()) < 0 or array.max() >= spec.high):
            wrong = low if low < 0 else array.max()
            raise InputError(f"input {spec.name!r} holds {wrong}, but valid values are 0 to {spec.high - 1}")
        return array

    def _filled(self, spec: TensorSpec, bound: Mapping[str, tuple[int, str]]) -> NDArray[Any]:
        if spec.required or spec.default is None:
            raise InputError(
                f"input {spec.name!r} is missing: {self.dtype(spec.name)} {_dims(spec)}"
                + (f", {spec.meaning}" if spec.meaning else "")
            )
        free = [dim for dim in spec.dims if isinstance(dim, str) and dim not in bound]
        if free:
            raise InputError(
                f"input {spec.name!r} is missing, and no given input says how large {', '.join(free)} is; "
                "give it"
            )
        shape = [dim if isinstance(dim, int) else bound[dim][0] for dim in spec.dims]
        return np.full(shape, spec.default, self.dtype(spec.name))


def _mapping(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(inputs, Mapping):
        raise InputError(f"inputs are a {type(inputs).__name__}; give a dict of arrays by input name")
    return inputs


def _shapes(feeds: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in feeds.items()}


def _dims(spec: TensorSpec) -> str:
    return f"[{', '.join(map(str, spec.dims))}]"

"""Runs an exported file: numpy in, numpy out, without torch. Each format's runtime is found by the file's suffix.

Nothing here, nor anything that it imports, may import torch: a serving machine need not have it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from peirce.errors import InputError, check_known, renamed
from peirce.files import checks_digests
from peirce.model import (
    Callback,
    Generated,
    Inputs,
    free_tokens,
    generate,
    make_decoding,
    refuse_if_out_of_memory,
)
from peirce.parts import Signature
from peirce_export.folder import StaleWarning, staleness
from peirce_export.runtimes import LoadedModel, OnDevice, find_runtime

T = TypeVar("T")

MOST_THREADS = 1024
"""The most threads: more are not faster, and a runtime would start every one."""


@final
class Session:
    """An exported file, ready to run.

    Args:
        path: the file; its external data, if any, lies beside it.
        providers: what computes, in the runtime's own names, in order of preference. None leaves the choice to it:
            ONNX Runtime takes CUDA where it works, then the CPU.
        threads: threads within an operator; None leaves the choice to the runtime.
        digests: whether the file is checked against its digest, and against the saved model beside it; if None, unless
            `PEIRCE_NO_DIGESTS` is set.
        provider_options: options of providers, in the runtime's own words, by the provider's name, such as
            `{"CUDAExecutionProvider": {"device_id": 1}}`.

    Attributes:
        signature: the file's inputs and outputs.
        providers: what computes, in the runtime's own names.
        role: which graph of its model the file is, such as `prefill`; `model` for all of it.
        digest: the digest of the file, which it was checked against; None where it has none or was not checked.

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
        runtime = find_runtime(self.path)
        self.digest: str | None = runtime.check(self.path) if checks_digests(digests) else None
        if checks_digests(digests) and (message := staleness(self.path, runtime)):
            warnings.warn(message, StaleWarning, stacklevel=2)
        self._set_file(runtime.open_with_options(self.path, providers, threads, provider_options or {}))

    @classmethod
    def over(cls, file: LoadedModel, path: str | Path) -> Session:
        """A session of a file that is open already, such as one that a server holds; errors name the path."""
        session = cls.__new__(cls)
        session.path, session.digest = Path(path), None
        session._set_file(file)
        return session

    def _set_file(self, file: LoadedModel) -> None:
        self._file: LoadedModel | None = file
        self.signature: Signature = file.signature
        self.providers: tuple[str, ...] = file.providers
        self.role: str = file.role
        specs = (*self.signature.inputs, *self.signature.outputs)
        self._dtypes = {spec.name: file.dtype(spec.name) for spec in specs}
        self._inputs = Inputs(
            self.signature, (np.ndarray, OnDevice), self._dtypes, _bounds, self._float_bytes
        )

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
        names, feeds = self._output_names(outputs), self._feeds(inputs, on_device=False)
        if not names:
            return {}
        return dict(zip(names, _run(feeds, lambda: self._loaded().run(feeds, names)), strict=True))

    def run_on_device(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None
    ) -> dict[str, OnDevice]:
        """Run the model, and leave its outputs where they are computed, such as on a GPU.

        Args:
            inputs: as for `run`; outputs of an earlier run on the device stay there. The ids in them are not checked.
            outputs: as for `run`.

        Returns:
            The outputs by name; `.numpy()` copies one to the CPU.

        Raises:
            InputError: as `run`, or the runtime of the file leaves nothing on a device.
        """
        names, feeds = self._output_names(outputs), self._feeds(inputs)
        return dict(zip(names, _run(feeds, lambda: self._loaded().run_on_device(feeds, names)), strict=True))

    def generate(
        self, inputs: Mapping[str, Any], on_tokens: Callback | None = None, **settings: Any
    ) -> tuple[Generated, ...]:
        """Generate a text for each prompt, token for token what `Model.generate` gives.

        Args:
            inputs: the prompts, as for `run`; they may have different lengths, padded on either side.
            on_tokens: called with the tokens of all rows, int64 [b], as soon as they are chosen; not with beams.
            settings: how tokens are chosen, as in `peirce.model.Decoding`.

        Returns:
            The generated tokens of each row, without its prompt, and their score.

        Raises:
            InputError: an input or a setting is wrong, or the file was not exported to generate.
            ModelFileError: the file of the step is missing, or belongs to another model.
        """
        if "said" in settings:
            renamed("said", "on_tokens", "2.0")
            on_tokens = settings.pop("said")
        make_decoding(settings)
        opened = self._loaded()
        begin, feeds = opened.stepper(), self._feeds(inputs)
        name = opened.generated
        free = None if name is None else free_tokens(self.signature, name, feeds[name].shape[1])
        decoding = make_decoding(settings, free)
        return _run(feeds, lambda: generate(begin(feeds), decoding, on_tokens))

    def close(self) -> None:
        """Release the model's memory; the session cannot run after it."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _output_names(self, outputs: Sequence[str] | None) -> list[str]:
        """The names of the outputs to compute."""
        if isinstance(outputs, str):
            raise InputError(f"outputs is the text {outputs!r}; give a list of names, [{outputs!r}]")
        known = [spec.name for spec in self.signature.outputs]
        names = known if outputs is None else list(outputs)
        for name in names:
            check_known("output", name, known)
        return names

    def _loaded(self) -> LoadedModel:
        if self._file is None:
            raise InputError(f"the session of {self.path} is closed; open another")
        return self._file

    def _feeds(self, inputs: Mapping[str, Any], *, on_device: bool = True) -> dict[str, Any]:
        """The checked inputs, and the default of each that is absent, in the order of the signature."""
        if not isinstance(inputs, Mapping):
            raise InputError(f"inputs are a {type(inputs).__name__}; give a dict of arrays by input name")
        given: dict[str, Any] = {}
        for name, value in inputs.items():
            try:
                if isinstance(value, OnDevice):
                    given[name] = value if on_device else value.numpy()
                else:
                    given[name] = np.asarray(value)
            except ValueError as error:
                raise InputError(f"input {name!r} is not an array: {error}") from error
        sizes = self._inputs.check(given)
        for spec, shape in self._inputs.defaults(given, sizes):
            given[spec.name] = np.full(shape, spec.default, self._dtypes[spec.name])
        return {spec.name: given[spec.name] for spec in self.signature.inputs}

    def _float_bytes(self) -> int | None:
        """Bytes of a floating number, as far as an output has any; None where a GPU computes."""
        if any(word in name.lower() for name in self.providers for word in ("cuda", "tensorrt")):
            return None
        real = [self._dtypes[spec.name].itemsize for spec in self.signature.outputs if spec.dtype == "float"]
        return max(real, default=1)


def _run(feeds: Mapping[str, Any], compute: Callable[[], T]) -> T:
    """Compute; where memory runs out, the error names the shapes of the inputs."""
    try:
        return compute()
    except Exception as error:
        refuse_if_out_of_memory(error, feeds)
        raise


def _bounds(values: Any) -> tuple[Any, Any] | None:
    return None if isinstance(values, OnDevice) else (values.min(), values.max())

"""Runs an exported file with ONNX Runtime: numpy in, numpy out, without torch.

Nothing here, nor anything that it imports, may import torch: a serving machine need not have it.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]
from numpy.typing import NDArray
from peirce.errors import InputError, ModelFileError, unknown
from peirce.model import Generated
from peirce.parts import Signature, TensorSpec

from peirce_export.onnx.metadata import PREFILL, Metadata, step_of

MOST_THREADS = 1024
"""More than this starts no faster, and ONNX Runtime would really start them."""
CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
BFLOAT16 = "tensor(bfloat16)"
DTYPES: dict[str, np.dtype[Any]] = {
    "tensor(int64)": np.dtype(np.int64),
    "tensor(int32)": np.dtype(np.int32),
    "tensor(bool)": np.dtype(np.bool_),
    "tensor(float)": np.dtype(np.float32),
    "tensor(float16)": np.dtype(np.float16),
    "tensor(double)": np.dtype(np.float64),
    BFLOAT16: np.dtype(np.float32),
}
FIX_BOTH = "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu"


class BothRuntimesWarning(RuntimeWarning):
    """Both distributions of ONNX Runtime are installed; the one written last decides on CUDA."""


def both_runtimes() -> str | None:
    """What is wrong, with the fix, when both distributions of ONNX Runtime are installed; else None."""
    found = []
    for name in ("onnxruntime", "onnxruntime-gpu"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    if len(found) < 2:
        return None
    return (
        f"{' and '.join(found)} are both installed into one package folder, so CUDA may be lost in silence; "
        f"keep one: {FIX_BOTH}"
    )


class Session:
    """An exported file, ready to run.

    Args:
        path: the ONNX file; its external data, if any, lies beside it.
        providers: names of ONNX Runtime's execution providers in order of preference; None takes CUDA where
            it works, then the CPU.
        threads: threads within an operator; None leaves the choice to ONNX Runtime.

    Raises:
        ModelFileError: the file is missing, damaged, or was not exported by Peirce.
        InputError: a provider that this installation does not have, or that does not start.
    """

    def __init__(
        self, path: str | Path, providers: Sequence[str] | None = None, threads: int | None = None
    ) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ModelFileError(f"{self.path} is not a file; `peirce export` writes one")
        if threads is not None and not (isinstance(threads, int) and 1 <= threads <= MOST_THREADS):
            raise InputError(f"threads is {threads!r}; it must be an integer from 1 to {MOST_THREADS}")
        self._threads = threads
        self._of_step: Session | None = None
        options = ort.SessionOptions()
        if threads is not None:
            options.intra_op_num_threads = threads
        self._session: Any = _start(self.path, options, _chosen(providers))
        self.providers: tuple[str, ...] = tuple(self._session.get_providers())
        missing = [name for name in providers or () if name not in self.providers]
        if missing:
            raise InputError(
                f"{', '.join(missing)} did not start; in effect: {', '.join(self.providers)}. "
                f"{both_runtimes() or 'Check its driver and libraries, or name other providers'}"
            )
        properties = self._session.get_modelmeta().custom_metadata_map
        self.metadata = Metadata.from_properties(properties, str(self.path))
        self._types = {
            node.name: node.type for node in (*self._session.get_inputs(), *self._session.get_outputs())
        }
        self._check_names()

    @property
    def signature(self) -> Signature:
        """The inputs and outputs: names, dtypes, symbolic dims and meanings."""
        return self.metadata.signature

    def dtype(self, name: str) -> np.dtype[Any]:
        """The numpy dtype of an input or output; bfloat16 outputs come as float32, which numpy has."""
        return DTYPES[self._types[name]]

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
        if isinstance(outputs, str):
            raise InputError(f"outputs is the text {outputs!r}; give a list of names, [{outputs!r}]")
        names = [spec.name for spec in self.signature.outputs] if outputs is None else list(outputs)
        known = [spec.name for spec in self.signature.outputs]
        for name in names:
            if name not in known:
                raise InputError(unknown("output", name, known))
        feeds = self._feeds(inputs)
        if not names:
            return {}
        if any(self._types[name] == BFLOAT16 for name in names):
            values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
            results = self._running(lambda: self._session.run_with_ort_values(names, values))
            return {name: _to_numpy(value) for name, value in zip(names, results, strict=True)}
        results = self._running(lambda: self._session.run(names, feeds))
        return dict(zip(names, results, strict=True))

    def values(self, feeds: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
        """Run on ONNX Runtime's own values, which stay on its device; for `generate`, which has checked them."""

        def call() -> list[Any]:
            binding = self._session.io_binding()
            for name, value in feeds.items():
                binding.bind_ortvalue_input(name, value)
            for name in outputs:
                binding.bind_output(name, "cuda" if CUDA in self.providers else "cpu")
            self._session.run_with_iobinding(binding)
            return binding.get_outputs()

        return self._running(call)

    def generate(self, inputs: Mapping[str, Any], **settings: Any) -> tuple[Generated, ...]:
        """Generate a text for each prompt, token for token what `Model.generate` gives.

        Args:
            inputs: the prompts, as for `run`; they may have different lengths, padded on either side.
            settings: how tokens are chosen, as in `peirce.model.Decoding`.

        Returns:
            The generated tokens of each row, without its prompt, and their score.

        Raises:
            InputError: an input or a setting is wrong, or the file was not exported to generate.
            ModelFileError: the file of the step is missing, or belongs to another model.
        """
        from peirce.model import decoding, generate

        from peirce_export.stepper import SessionStepper

        how = decoding(**settings)
        return generate(SessionStepper(self, self._step(), self._feeds(inputs)), how)

    def _step(self) -> Session:
        """The session of the graph that adds a token, beside this file."""
        if self._of_step is None:
            if self.metadata.role != PREFILL:
                raise InputError(
                    f"{self.path} was not exported to generate; export the model with `--set generate=true`"
                )
            path = step_of(self.path)
            self._of_step = Session(path, self.providers, self._threads)
            if self._of_step.metadata.spec != self.metadata.spec:
                raise ModelFileError(
                    f"{path} is a step of another model than {self.path}; export the model again with "
                    "`--set generate=true`"
                )
        return self._of_step

    def close(self) -> None:
        """Let go of the model's memory; the session cannot run after it."""
        self._session = None
        if self._of_step is not None:
            self._of_step.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _running(self, call: Any) -> Any:
        if self._session is None:
            raise InputError(f"the session of {self.path} is closed; open another")
        try:
            return call()
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            if type(error).__module__.partition(".")[0] != "onnxruntime":
                raise
            raise InputError(f"{self.path}: ONNX Runtime could not run these inputs: {error}") from error

    def _check_names(self) -> None:
        for kind, nodes, specs in (
            ("input", self._session.get_inputs(), self.signature.inputs),
            ("output", self._session.get_outputs(), self.signature.outputs),
        ):
            graph, stated = [node.name for node in nodes], [spec.name for spec in specs]
            if graph != stated:
                raise ModelFileError(
                    f"{self.path} has {kind}s {', '.join(graph)}, but its signature says "
                    f"{', '.join(stated)}; it was changed after export: export the model again"
                )

    def _feeds(self, inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        if not isinstance(inputs, Mapping):
            raise InputError(f"inputs are a {type(inputs).__name__}; give a dict of arrays by input name")
        known = [spec.name for spec in self.signature.inputs]
        for name in inputs:
            if name not in known:
                raise InputError(unknown("input", name, known))
        bound: dict[str, tuple[int, str]] = {}
        feeds: dict[str, NDArray[Any]] = {}
        for spec in self.signature.inputs:
            if spec.name in inputs:
                feeds[spec.name] = self._checked(spec, inputs[spec.name], bound)
        for spec in self.signature.inputs:
            if spec.name not in feeds:
                feeds[spec.name] = self._filled(spec, bound)
        return feeds

    def _checked(self, spec: TensorSpec, value: Any, bound: dict[str, tuple[int, str]]) -> NDArray[Any]:
        wanted = self.dtype(spec.name)
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise InputError(f"input {spec.name!r} is no array: {error}") from error
        if array.dtype != wanted:
            raise InputError(
                f"input {spec.name!r} is {array.dtype}, but the model takes {wanted}; "
                f"convert it with .astype({wanted.name!r})"
            )
        if array.ndim != len(spec.dims):
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


def _dims(spec: TensorSpec) -> str:
    return f"[{', '.join(map(str, spec.dims))}]"


def _chosen(providers: Sequence[str] | None) -> list[str]:
    available = ort.get_available_providers()
    if providers is None:
        if problem := both_runtimes():
            warnings.warn(problem, BothRuntimesWarning, stacklevel=3)
        return [name for name in (CUDA, CPU) if name in available]
    if not providers:
        raise InputError(f"no provider is named; available: {', '.join(available)}")
    for name in providers:
        if name not in available:
            problem = both_runtimes()
            raise InputError(unknown("provider", name, available) + (f". {problem}" if problem else ""))
    return list(providers)


def _start(path: Path, options: Any, providers: list[str]) -> Any:
    try:
        return ort.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        if type(error).__module__.partition(".")[0] != "onnxruntime":
            raise
        text = str(error)
        if "NOT_IMPLEMENTED" in text and "bfloat16" in text.lower():
            hint = (
                "ONNX Runtime's CPU provider does not run bfloat16; "
                "run it with CUDA or TensorRT, or export with --precision float32"
            )
        else:
            hint = "the file or its external data is damaged or incomplete; `peirce export` writes it again"
        raise ModelFileError(
            f"{path} cannot be loaded with {', '.join(providers)}: {text}\n{hint}"
        ) from error


def _to_numpy(value: Any) -> NDArray[Any]:
    """An OrtValue as an array; bfloat16, which numpy lacks, is the upper half of a float32."""
    if value.data_type() != BFLOAT16:
        return value.numpy()
    shape = value.shape()
    size = int(np.prod(shape))
    halves = np.ctypeslib.as_array((ctypes.c_uint16 * size).from_address(value.data_ptr()))
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(shape)

"""What Triton's Python backend loads: a model as a session, or a pipeline in front of models of the same server.

It runs inside the server, in a process for each instance, without torch. `model.py` of a version names one of the two
classes `TritonPythonModel`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as triton
from numpy.typing import NDArray

from peirce.errors import InputError, PeirceError, printable
from peirce.registry import class_named
from peirce_export.pipelines import Field, Pipeline
from peirce_export.questions import build_question
from peirce_export.session import Session
from peirce_export.triton.calls import ARRAYS, FRONT, GRAPH, Front, ServedFile, values_of

LOAD_TIMEOUT = 60.0
"""Seconds that a pipeline waits for the models behind it, which may load at the same time."""
THREADS = 16
"""Questions whose answers are streamed at a time by an instance."""


class TensorModel:
    """A model as a session; requests that arrive together run as one batch."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Open the file beside `model.py`."""
        check_numpy()
        self._batched = json.loads(args["model_config"])["max_batch_size"] > 0
        providers = ["CPUExecutionProvider"] if args["model_instance_kind"] == "CPU" else None
        (graph,) = _folder(args).glob("*.onnx")
        self._session = Session(graph, providers=providers)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """A response for each request; one that is refused says why, and the others are answered."""
        feeds = [
            {
                spec.name: tensor.as_numpy()
                for spec in self._session.signature.inputs
                if (tensor := triton.get_input_tensor_by_name(request, spec.name)) is not None
            }
            for request in requests
        ]
        requested = [request.requested_output_names() for request in requests]
        groups: dict[Any, list[int]] = {}
        for number, arrays in enumerate(feeds):
            alike = tuple((name, array.dtype, array.shape[1:]) for name, array in arrays.items())
            groups.setdefault(alike if self._batched else number, []).append(number)
        found: dict[int, Any] = {}
        for members in groups.values():
            found |= self._answer(members, feeds, requested)
        return [found[number] for number in range(len(requests))]

    def _answer(
        self,
        members: list[int],
        feeds: Sequence[Mapping[str, NDArray[Any]]],
        requested: Sequence[Sequence[str]],
    ) -> dict[int, Any]:
        """The responses to requests of one shape, by their number."""
        names = [spec.name for spec in self._session.signature.outputs]
        wanted = [name for name in names if any(name in requested[number] for number in members)]
        whole = {name: np.concatenate([feeds[n][name] for n in members]) for name in feeds[members[0]]}
        try:
            outputs = self._session.run(whole, wanted)
        except Exception as error:  # one that left `execute` would fail the requests of others
            if len(members) == 1:
                return {members[0]: _error_response(error)}
            return {k: v for number in members for k, v in self._answer([number], feeds, requested).items()}
        found: dict[int, Any] = {}
        start = 0
        for number in members:
            rows = next((len(array) for array in feeds[number].values()), 0)
            part = slice(start, start + rows) if self._batched else slice(None)
            found[number] = triton.InferenceResponse(
                [
                    triton.Tensor(name, np.ascontiguousarray(outputs[name][part]))
                    for name in wanted
                    if name in requested[number]
                ]
            )
            start += rows
        return found

    def finalize(self) -> None:
        """Release the model."""
        self._session.close()


class PipelineModel:
    """A pipeline in front of models of the same server, at the versions that it was exported with."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the files beside `model.py`."""
        check_numpy()
        folder = _folder(args)
        front = Front.read(folder / FRONT)
        self._version = int(args["model_version"])
        self._behind, self._ready = (front.model, *([front.step[0]] if front.step else [])), False
        kind = class_named("pipelines", front.pipeline, Pipeline)
        self._fields = kind.question
        self._kinds: Mapping[str, Field] = {each.name: each for each in kind.answer}
        served = ServedFile(front.model, front.metadata, self._call, front.step, front.batched)
        self._pipeline: Pipeline = kind(folder, Session.over(served, folder / GRAPH))
        self._pool = ThreadPoolExecutor(THREADS) if kind.streams else None

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        """A response for each request, or where answers come in pieces, responses to come."""
        if self._pool is None:
            return [self._answer(request) for request in requests]
        for request in requests:
            self._pool.submit(self._stream, request, request.get_response_sender())
        return None

    def _answer(self, request: Any) -> Any:
        answers: list[Any] = []
        try:
            self._pipeline.ask(self._question(request), lambda answer: answers.append(self._response(answer)))
        except Exception as error:  # as above
            return _error_response(error)
        return answers[-1] if answers else _error_response(RuntimeError("the pipeline gave no answer"))

    def _stream(self, request: Any, sender: Any) -> None:
        def say(answer: Mapping[str, Any]) -> None:
            if request.is_cancelled():
                raise _CancelledError
            sender.send(self._response(answer))

        try:
            self._pipeline.ask(self._question(request), say)
        except _CancelledError:
            pass
        except Exception as error:  # an error in a thread would be lost
            sender.send(_error_response(error))
        finally:
            sender.send(flags=triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _question(self, request: Any) -> dict[str, Any]:
        tensors = {each.name: triton.get_input_tensor_by_name(request, each.name) for each in self._fields}
        given = {name: tensor.as_numpy() for name, tensor in tensors.items() if tensor is not None}
        return build_question(self._fields, values_of(self._fields, given))

    def _response(self, answer: Mapping[str, Any]) -> Any:
        return triton.InferenceResponse(
            [triton.Tensor(name, _array(value, self._kinds[name])) for name, value in answer.items()]
        )

    def _wait(self) -> None:
        """Wait for the models behind this one, which a server that runs may still be loading.

        Not earlier: while a server starts, it does not say which models are ready.

        Raises:
            InputError: one is not there.
        """
        if self._ready:
            return
        end = time.monotonic() + LOAD_TIMEOUT
        for name in self._behind:
            while not triton.is_model_ready(model_name=name, model_version=str(self._version)):
                if time.monotonic() > end:
                    raise InputError(
                        f"version {self._version} of the model {name!r} behind this pipeline is not loaded; load it"
                    )
                time.sleep(0.05)
        self._ready = True

    def _call(
        self, model: str, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]
    ) -> list[NDArray[Any]]:
        """Run a model of the server at this version."""
        self._wait()
        memory = triton.PreferredMemory(triton.TRITONSERVER_MEMORY_CPU, 0)
        requested = triton.InferenceRequest(
            model_name=model,
            model_version=self._version,
            inputs=[triton.Tensor(name, np.ascontiguousarray(array)) for name, array in feeds.items()],
            requested_output_names=list(outputs),
            preferred_memory=memory,
        )
        response = requested.exec()
        if response.has_error():
            raise InputError(response.error().message())
        return [triton.get_output_tensor_by_name(response, name).as_numpy() for name in outputs]

    def finalize(self) -> None:
        """Wait for the answers that are being streamed."""
        if self._pool is not None:
            self._pool.shutdown()


AnswererModel = PipelineModel
"""The name in repositories that Peirce 0.2 wrote."""


def check_numpy() -> None:
    """Refuse a numpy that the server's backend was not built against: with it, outputs would be empty, in silence.

    Raises:
        RuntimeError: a tensor comes back from the backend with other values.
    """
    sent = np.array([1.0, 2.0], np.float32)
    returned = triton.Tensor.from_dlpack("sent", triton.Tensor("sent", sent).to_dlpack()).as_numpy()
    if not np.array_equal(sent, returned):
        raise RuntimeError(
            f"this server's Python backend was built against another numpy than {np.__version__}, and its tensors "
            "would be empty: give it numpy 1, as `peirce serve` does, or take a release of Triton from 24.11 on"
        )


class _CancelledError(Exception):
    """Nobody waits for the rest of an answer."""


def _folder(args: Mapping[str, str]) -> Path:
    return Path(args["model_repository"], args["model_version"])


def _array(value: Any, each: Field) -> NDArray[Any]:
    values = value if each.many else [value]
    if each.kind == "text":
        values = [text.encode() for text in values]
    return np.array(values, ARRAYS[each.kind])


def _error_response(error: Exception) -> Any:
    """A response with an error: what is wrong with the question, or what failed."""
    if isinstance(error, PeirceError):
        text, code = str(error), triton.TritonError.INVALID_ARG
    else:
        text, code = printable(f"{type(error).__name__}: {error}"), triton.TritonError.INTERNAL
    return triton.InferenceResponse(error=triton.TritonError(" ".join(text.split()), code))

"""The real server on the loopback address: what it says of its models, what it answers, and that it stays up.

`tox -e serve` runs these; elsewhere they are skipped, since the server's package needs a numpy of its own.
"""

from __future__ import annotations

import gzip
import json
import queue
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_models import CLASSES
from triton_server import INSTALLED, Server, serving, tensors, texts

import peirce
from peirce_export import cases
from peirce_kg.exported import ExportedModel
from peirce_queries import model_reply, read_query
from peirce_text.text.writer import open_writer

if INSTALLED:
    from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.skipif(
    not INSTALLED, reason="Triton Inference Server is not installed; `tox -e serve`"
)
MODELS = ("tega", "weather", "novelist", "novelist_step")
TYPES = {"int64": "INT64", "bool": "BOOL", "float": "FP32"}


@pytest.fixture(scope="module")
def repository(graph: Path, weather: Path, novelist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("serving") / "repository"
    for model, options in ((graph, {}), (weather, {"delay": 20_000}), (novelist, {"generate": True})):
        peirce.export(model, path=place, to="triton", kind="python", max_batch=16, **options)
    return place


@pytest.fixture(scope="module")
def server(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with serving(repository, folder, "--model-control-mode=explicit", "--load-model=*") as found:
        yield found


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with closing(server.client()) as found:
        yield found


def open_file(repository: Path, name: str) -> peirce.Session:
    (file,) = (repository / name / "1").glob("*.onnx")
    return peirce.Session(file, providers=["CPUExecutionProvider"])


def drawn(session: peirce.Session, length: int, batch: int = 1, seed: int = 0) -> dict[str, Any]:
    signature = session.signature
    sizes = dict.fromkeys(signature.symbols, length) | {"batch": batch}
    return cases.inputs(signature, cases.Case(name="asked", sizes=sizes), seed, np.dtype(np.float32))


def test_it_is_healthy_and_describes_its_models_as_their_signatures(repository: Path, client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    for name in (*MODELS, "tega_ask", "weather_classify", "novelist_write"):
        assert client.is_model_ready(name, "1")
    for name in MODELS:
        with open_file(repository, name) as session:
            found = client.get_model_metadata(name)
            for specs, described in (
                (session.signature.inputs, found.inputs),
                (session.signature.outputs, found.outputs),
            ):
                assert [(each.name, each.datatype, [*each.shape]) for each in described] == [
                    (s.name, TYPES[s.dtype], [d if isinstance(d, int) else -1 for d in s.dims]) for s in specs
                ]


@pytest.mark.parametrize("name", MODELS)
def test_it_answers_as_the_session_to_the_bit(name: str, repository: Path, client: Any) -> None:
    with open_file(repository, name) as session:
        for length, batch in ((1, 1), (7, 1), (12, 3)):
            feeds = drawn(session, length, batch, seed=length)
            answered, wanted = client.infer(name, tensors(feeds)), session.run(feeds)
            for output, array in wanted.items():
                found = answered.as_numpy(output)
                assert (found.dtype, found.shape) == (array.dtype, array.shape)
                assert found.tobytes() == array.tobytes(), f"{output} at length {length}"


def test_a_client_may_ask_for_the_best_class_by_name(client: Any) -> None:
    from tritonclient.grpc import InferRequestedOutput

    feeds = {"input_ids": np.array([[2, 7, 9]])}
    wanted = InferRequestedOutput("classification_logits", class_count=3)
    found = client.infer("weather", tensors(feeds), outputs=[wanted]).as_numpy("classification_logits")
    assert {each.decode().split(":")[2] for each in found.ravel()} == set(CLASSES)


def test_many_requests_of_several_lengths_share_batches(repository: Path, client: Any) -> None:
    with open_file(repository, "weather") as session:
        asked = [drawn(session, 3 + number % 4, seed=number) for number in range(64)]
        before = client.get_inference_statistics("weather").model_stats[0]
        with ThreadPoolExecutor(64) as pool:
            found = list(pool.map(lambda feeds: client.infer("weather", tensors(feeds)), asked))
        after = client.get_inference_statistics("weather").model_stats[0]
        for feeds, answer in zip(asked, found, strict=True):
            wanted = session.run(feeds)
            for output, array in wanted.items():
                np.testing.assert_allclose(answer.as_numpy(output), array, rtol=0, atol=1e-5)
    assert after.inference_count - before.inference_count == 64
    assert after.execution_count - before.execution_count < 64


def test_what_a_model_does_not_take_is_refused_by_name_and_the_server_goes_on(client: Any) -> None:
    ids, half = np.array([[2, 7, 9]]), np.array([[2.0, 7.0, 9.0]], np.float32)
    for feeds, said in (
        ({"input_id": ids}, "unexpected inference input 'input_id'"),
        ({"input_ids": half}, "input 'input_ids' data-type is 'FP32', but model 'weather' expects 'INT64'"),
        ({"input_ids": ids[0]}, "unexpected shape for input 'input_ids'"),
        ({"input_ids": ids, "attention_mask": np.ones((1, 2), np.bool_)}, "input 'attention_mask' has shape"),
        ({"input_ids": ids + 900}, "input 'input_ids' contains 909, but valid values are 0 to"),
        ({"input_ids": np.ones((1, 41), np.int64)}, "the length of the inputs is 41"),
        ({}, "missing required input(s) ['input_ids']"),
    ):
        with pytest.raises(InferenceServerException) as caught:
            client.infer("weather", tensors(feeds))
        assert said in str(caught.value)
    with pytest.raises(InferenceServerException, match="'wether'"):
        client.infer("wether", tensors({"input_ids": ids}))
    assert client.infer("weather", tensors({"input_ids": ids})).as_numpy("classification_logits").shape == (
        1,
        3,
    )


def test_one_wrong_request_does_not_spoil_its_batch(client: Any) -> None:
    asked = [np.array([[2, 900 if number == 5 else 7, 9]]) for number in range(16)]

    def ask(ids: Any) -> str:
        try:
            return str(client.infer("weather", tensors({"input_ids": ids})).as_numpy("pooled").shape)
        except Exception as error:
            return str(error)

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, asked))
    assert "input 'input_ids' contains 900" in found.pop(5)
    assert set(found) == {"(1, 8)"}


def hostile_requests() -> list[tuple[str, bytes, dict[str, str]]]:
    """Requests of HTTP that are wrong, or lie about sizes: where to, the body and headers.

    Three kinds end Triton 2.51 itself, before any code of Peirce runs, and are left out; the page on serving names
    them: in JSON, a shape of more than memory holds, such as [1, 2**40], and brackets 200,000 deep; as bytes or by
    gRPC, a shape whose size comes to 0 in 64 bits, such as [1, 2**61].
    """
    ids = {"name": "input_ids", "datatype": "INT64", "shape": [1, 3], "data": [2, 7, 9]}
    query = {"name": "query", "datatype": "BYTES", "shape": [1], "data": ["embassy(usa,f)"]}
    text = query | {"name": "text"}
    top = {"name": "top", "datatype": "INT64", "shape": [1], "data": [3]}
    wrong: Mapping[str, Any] = {
        "weather": [
            [], [ids, ids],
            *([ids | each] for each in (
                {"shape": [-1, 3]}, {"shape": [1, 1.5]}, {"shape": []}, {"shape": "x"}, {"shape": [1, 2**64]},
                {"shape": [1, 3000]}, {"shape": [1] * 1000}, {"data": []}, {"data": "x"}, {"data": [2**63, 7, 9]},
                {"data": [-1, 7, 9]}, {"data": [900, 7, 9]}, {"datatype": "BYTES", "data": ["x", "y", "z"]},
                {"datatype": "FP128"}, {"name": "a\0b"}, {"name": "x" * 100_000}, {"shape": [1, 0], "data": []},
                {"shape": [1, 41], "data": [1] * 41}, {"shape": [17, 3], "data": [1] * 51},
                {"parameters": {"binary_data_size": 2**40}}, {"parameters": {"shared_memory_region": "x"}},
            )),
        ],
        "weather_classify": [[text | {"data": [each]}] for each in (7, None, [], {})],
        "tega_ask": [
            *([query | {"data": [each]}] for each in ("", "(" * 9000, "!" * 90_000, "\0\x1b", "\ud800", "f" * 10**6)),
            *([query, top | {"data": [each]}] for each in (0, -(2**63), 2**63, 1.5)),
        ],
        "novelist_write": [[query | {"name": "prompt"}]],
    }  # fmt: skip
    found: list[tuple[str, bytes, dict[str, str]]] = [
        (name, json.dumps({"inputs": inputs}).encode(), {}) for name, each in wrong.items() for inputs in each
    ]
    good = json.dumps({"inputs": [ids]}).encode()
    for place in (
        "weather/versions/99",
        "weather/versions/-1",
        f"weather/versions/{10**30}",
        "..%2f..%2fetc",
        "%00",
    ):
        found.append((place, good, {}))
    length = "Inference-Header-Content-Length"
    found += [("weather", good, {length: each}) for each in ("-1", "x", str(2**63))]
    found += [("weather", each, {}) for each in (b"", b"\0\xff" * 500, b"[" * 50_000, b'{"inputs":' * 5000)]
    sized = {"name": "text", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 7}}
    header = json.dumps({"inputs": [sized]}).encode()
    for content in (b"\xff" * 7, b"\3\0\0\0\xff\xfe\x80"):  # a length of 4 GB; no UTF-8
        found.append(("weather_classify", header + content, {length: str(len(header))}))
    packed = {"Content-Encoding": "gzip"}
    return [*found, ("weather", gzip.compress(b" " * 10**7), packed), ("weather", b"no gzip", packed)]


def test_hostile_requests_of_16_threads_disturb_nobody(server: Server, repository: Path, client: Any) -> None:
    ids = np.array([[2, 7, 9]])
    with open_file(repository, "weather") as session:
        wanted = session.run({"input_ids": ids})["classification_logits"]
    asks = {"weather_classify": texts(text="the sea is calm"), "tega_ask": texts(query="embassy(usa,f)")}

    def answers() -> tuple[bytes, ...]:
        with closing(server.client()) as own:
            logits = own.infer("weather", tensors({"input_ids": ids})).as_numpy("classification_logits")
            np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-5)
            names = ("classes", "entities")
            found = [own.infer(*each).as_numpy(name) for name, each in zip(names, asks.items(), strict=True)]
            found += [each.as_numpy("token") for each in streamed(own, texts(prompt="the sea"))]
        return tuple(each.tobytes() if each.dtype != object else b",".join(each) for each in found)

    def attack(place: str, body: bytes, headers: dict[str, str]) -> tuple[object, int]:
        request = urllib.request.Request(f"http://{server.http}/v2/models/{place}/infer", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                status = reply.status
        except urllib.error.HTTPError as refusal:
            status = refusal.code
        return (place, body[:300], headers), status

    def stream(setting: str, value: Any) -> tuple[object, int]:
        array = np.array([value], np.int64 if isinstance(value, int) else np.float32)
        given = tensors({"sample": np.array([True]), setting: array})
        with closing(server.client()) as own:
            last = streamed(own, [*texts(prompt="the sea"), *given])[-1]
        return (setting, value), 400 if isinstance(last, InferenceServerException) else 200

    settings: Mapping[str, tuple[float, ...]] = {
        "max_new": (0, -1, -(2**63), 2**63 - 1, 1.5), "temperature": (0.0, -1.0, np.nan, np.inf), "top_k": (-1,),
        "top_p": (0.0, 2.0, np.nan), "seed": (-1,),
    }  # fmt: skip
    jobs: list[Callable[[], Any]] = [partial(attack, *each) for each in hostile_requests() * 4]
    jobs += [partial(stream, name, value) for name, values in settings.items() for value in values]
    before = answers()
    half = b"POST /v2/models/weather/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{"
    host, port = server.http.split(":")
    with ExitStack() as held, ThreadPoolExecutor(16) as pool:
        for _ in range(32):  # requests that do not end
            held.enter_context(socket.create_connection((host, int(port)))).sendall(half)
        begun = [
            (pool.submit(job), pool.submit(answers) if number % 8 == 0 else None)
            for number, job in enumerate(jobs)
        ]
        for refused, served in begun:
            request, status = refused.result()
            assert 400 <= status < 600, request
            assert served is None or served.result() == before
    assert answers() == before
    assert all(client.is_model_ready(name, "1") for name in ("weather", *asks, "novelist_write"))


def test_a_query_is_answered_as_by_peirce_ask(graph: Path, repository: Path, client: Any) -> None:
    exported = ExportedModel(graph, session=open_file(repository, "tega"))
    query = "embassy(usa,f) & !embassy(e1,f)"
    found = client.infer("tega_ask", [*texts(query=query), *tensors({"top": np.array([3])})])
    wanted = model_reply(exported, read_query(query), 3).answers
    assert [name.decode() for name in found.as_numpy("entities")] == [each.entity for each in wanted]
    assert found.as_numpy("scores").tolist() == pytest.approx([each.score for each in wanted], abs=1e-6)
    for question, said in (
        (texts(query="embassy(usb,f)"), "unknown entity 'usb'. Did you mean 'usa'?"),
        (texts(query="embassy(usa"), "expected ','"),
        ([*texts(query=query), *tensors({"top": np.array([0])})], "input 'top' is 0"),
    ):
        with pytest.raises(InferenceServerException) as caught:
            client.infer("tega_ask", question)
        assert said in str(caught.value)


def test_texts_are_classified_over_http(server: Server, weather: Path, repository: Path) -> None:
    body = {
        "inputs": [
            {"name": name, "shape": [1], "datatype": "BYTES", "data": [text]}
            for name, text in (("text", "the sea is calm today"), ("pair", "the bay"))
        ]
    }
    address = f"http://{server.http}/v2/models/weather_classify/infer"
    with urllib.request.urlopen(address, json.dumps(body).encode(), timeout=600) as answer:
        found = {each["name"]: each["data"] for each in json.load(answer)["outputs"]}
    from peirce_text.serving import ClassificationPipeline

    said: list[Mapping[str, Any]] = []
    with open_file(repository, "weather") as session:
        ClassificationPipeline(weather, session).ask(
            {"text": "the sea is calm today", "pair": "the bay"}, said.append
        )
    assert found["classes"] == said[0]["classes"]
    assert sorted(found["classes"]) == sorted(CLASSES)
    assert found["scores"] == pytest.approx(said[0]["scores"], abs=1e-6)


def streamed(client: Any, inputs: list[Any]) -> list[Any]:
    """The responses to one question, until the last."""
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put(error or result))
    try:
        client.async_stream_infer("novelist_write", inputs, enable_empty_final_response=True)
        found = []
        while True:
            each = answers.get(timeout=600)
            if isinstance(each, Exception):
                return [*found, each]
            if not len(each.get_response().outputs):
                return found
            found.append(each)
    finally:
        client.stop_stream()


@pytest.mark.parametrize("settings", [{}, {"sample": np.array([True]), "seed": np.array([3])}])
def test_a_prompt_is_followed_token_by_token(
    settings: dict[str, Any], repository: Path, novelist: Path, tmp_path: Path, client: Any
) -> None:
    for name, folder in (("model.onnx", "novelist"), ("model.step.onnx", "novelist_step")):
        (tmp_path / name).write_bytes((repository / folder / "1" / name).read_bytes())
    writer = open_writer(tmp_path / "model.onnx", novelist)
    plain = {name: array.item() for name, array in settings.items()}
    (wanted,) = writer.write(["the sea is"], max_new=6, **plain)
    question = [*texts(prompt="the sea is"), *tensors({"max_new": np.array([6]), **settings})]
    found = streamed(client, question)
    assert tuple(int(each.as_numpy("token")[0]) for each in found) == wanted.tokens
    assert found[-1].as_numpy("text")[0].decode() == wanted.text
    assert bool(found[-1].as_numpy("ended")[0]) == wanted.ended
    (error,) = streamed(client, [*texts(prompt="the sea"), *tensors({"max_new": np.array([400])})])
    assert "max_new is 400, and the longest prompt leaves room for" in str(error)


def test_prompts_of_many_clients_are_followed_at_once(server: Server, client: Any) -> None:
    def follow(prompt: str) -> str:
        with closing(server.client()) as own:
            found = streamed(own, [*texts(prompt=prompt), *tensors({"max_new": np.array([4])})])
        return found[-1].as_numpy("text")[0].decode()

    prompts = [f"the {word}" for word in ("sea", "bay", "lake", "sea is calm")]
    alone = [follow(prompt) for prompt in prompts]
    with ThreadPoolExecutor(len(prompts)) as pool:
        assert list(pool.map(follow, prompts)) == alone


def test_a_new_version_takes_over_while_requests_run(weather: Path, repository: Path, client: Any) -> None:
    wrong: list[BaseException] = []
    done, count = threading.Event(), [0, 0, 0]

    def ready() -> None:
        assert client.is_model_ready("weather_classify")

    def ask(place: int, call: Any) -> None:
        while not done.is_set():
            try:
                call()
                count[place] += 1
            except Exception as error:
                wrong.append(error)
                return

    calls = (
        partial(client.infer, "weather", tensors({"input_ids": np.array([[2, 7, 9]])})),
        partial(client.infer, "weather_classify", texts(text="the sea is calm")),
        ready,
    )
    threads = [threading.Thread(target=ask, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    try:
        peirce.export(weather, path=repository, to="triton", kind="python", max_batch=16)
        client.load_model("weather")
        client.load_model("weather_classify")
        seen = list(count)
        while min(now - before for now, before in zip(count, seen, strict=True)) < 3 and not wrong:
            done.wait(0.05)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert min(seen) > 0
    assert client.is_model_ready("weather", "2")
    assert client.infer("weather_classify", texts(text="the sea")).get_response().model_version == "2"


def test_a_numpy_that_would_give_empty_outputs_is_refused(repository: Path, tmp_path: Path) -> None:
    arguments = ("--model-control-mode=explicit", "--load-model=weather")
    with (
        pytest.raises(RuntimeError, match=rf"built against another numpy than {np.__version__}"),
        serving(repository, tmp_path, *arguments, numpy=str(Path(np.__file__).parents[1])),
    ):
        pass

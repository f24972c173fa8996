"""Predictions for a whole file: in torch, in ONNX Runtime and at a server they are the same, and so are the columns."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_models import CLASSES, CLASSIFIER, TEXTS, text_model
from small_specs import FOLNET

from peirce.commands.main import main
from peirce.compose import build
from peirce.errors import InputError, ModelFileError, TaskError
from peirce.registry import Registry
from peirce_export import Session, export
from peirce_text.reading import read_rows
from peirce_text.serving import ClassificationPipeline
from peirce_text.tabular.predictor import predictor
from peirce_text.tabular.tag import Tag, TagOptions
from peirce_text.tabular.writer import table_writer


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Path:
    folder = text_model(CLASSIFIER, tmp_path_factory.mktemp("weather") / "model", registry)
    export(folder, path=folder / "model.onnx")
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    rows = [f'{i},"{text},\n""so"" they say",{CLASSES[i % 3]}' for i, text in enumerate(TEXTS)]
    path.write_text("\n".join(["id,text,kind", *rows, '9,"  ",calm']) + "\n", encoding="utf-8-sig")
    return path


@pytest.fixture
def server(weather: Path) -> Iterator[str]:
    """What a Triton server says over HTTP of the model in front, which the same pipeline answers."""
    session = Session(weather / "model.onnx")
    pipeline = ClassificationPipeline(weather, session)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(200 if self.path.endswith("/weather_classify") else 404, {})

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
            said: list[Mapping[str, Any]] = []
            pipeline.ask({each["name"]: each["data"][0] for each in given}, said.append)
            self._say(200, {"outputs": [{"name": name, "data": value} for name, value in said[0].items()]})

        def _say(self, code: int, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with session, ThreadingHTTPServer(("127.0.0.1", 0), Answers) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def predictions_of(model: object, file: Path, output: Path, *more: str) -> list[Mapping[str, Any]]:
    with pytest.raises(SystemExit) as end:
        main(["predict", str(model), str(file), "-o", str(output), *more])
    assert end.value.code in (0, None)
    return [row.values for row in read_rows(output)]


def test_torch_onnx_and_a_server_agree(
    weather: Path, texts: Path, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        predictions_of(weather, texts, tmp_path / "a.jsonl", "--label", "kind", "--batch-size", "2"),
        predictions_of(weather / "model.onnx", texts, tmp_path / "b.jsonl"),
        predictions_of(f"{server}/weather", texts, tmp_path / "c.jsonl"),
    ]
    given = [dict(row.values) for row in read_rows(texts)]
    for rows in found:
        assert [{k: row[k] for k in ("id", "text", "kind")} for row in rows] == given
        assert [row["prediction"] for row in rows] == [row["prediction"] for row in found[0]]
        assert rows[-1]["prediction"] is None
        for row, first in zip(rows[:-1], found[0], strict=False):
            assert row["probability"] == pytest.approx(first["probability"], abs=1e-5)
    right = np.mean([row["prediction"] == row["kind"] for row in found[0][:-1]])
    said = capsys.readouterr().out
    assert f"{right:.4f}" in said
    assert "10 rows written" in said
    assert "1 of them without a text" in said


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.parquet"])
def test_every_format_is_written(weather: Path, texts: Path, tmp_path: Path, name: str) -> None:
    rows = predictions_of(weather, texts, tmp_path / name)
    assert list(rows[0]) == ["id", "text", "kind", "prediction", "probability"]
    assert {row["prediction"] for row in rows[:-1]} <= set(CLASSES)


def test_words_are_tagged(tmp_path: Path, registry: Registry) -> None:
    rows = [{"tokens": ["Ann", "sat"], "tags": ["B-who", "O"]}, {"tokens": [], "tags": []}]
    (tmp_path / "my.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:1] * 12 + rows[1:]))
    task = Tag(TagOptions(data=str(tmp_path / "my.jsonl"), vocabulary=60))
    data = task.prepare()
    model = build(FOLNET.replace(task.overrides(data)), registry=registry, seed=0)
    model.save(tmp_path / "tagger", task.assets(data))
    found = predictions_of(tmp_path / "tagger", tmp_path / "my.jsonl", tmp_path / "o.jsonl")
    assert set(found[0]["prediction"]) <= {"B-who", "O"}
    assert len(found[0]["probability"]) == 2
    assert found[-1]["prediction"] is None
    metrics = task.metrics(model.eval(), data, "train")
    right = np.mean([one == two for one, two in zip(found[0]["prediction"], ["B-who", "O"], strict=True)])
    assert metrics["accuracy"] == pytest.approx(right)


def test_a_table_that_the_model_learned_from_is_told(
    weather: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(weather, tmp_path / "model")
    (folder / "training.json").write_text(json.dumps({"task": {"options": {"data": str(texts)}}}))
    for given, told in ((texts, True), (shutil.copy(texts, tmp_path / texts.name), False)):
        predictions_of(folder / "model.onnx", given, tmp_path / "o.csv", "--label", "kind")
        assert ("most of these rows are those that" in capsys.readouterr().out) is told


def test_what_cannot_be_predicted_is_refused_and_leaves_nothing(
    weather: Path, texts: Path, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, words in (
        ("http://x", "http://localhost:8000/NAME"),
        (f"{server}/rain", "serves no rain_classify"),
    ):
        with pytest.raises(InputError, match=words), predictor(model):
            pass
    with pytest.raises(ModelFileError, match="there is no model"), predictor(str(tmp_path / "absent")):
        pass
    with pytest.raises(InputError, match="leave them out"), predictor(str(weather), threads=2):
        pass
    alone = shutil.copy(weather / "model.onnx", tmp_path / "alone.onnx")
    with pytest.raises(ModelFileError, match=r"alone\.onnx: no saved model"), predictor(str(alone)):
        pass
    alone.unlink()
    for given, words in (
        (
            (texts, weather, tmp_path / "o.csv"),
            f"{weather} is a saved model, where the table goes; the model comes first",
        ),
        ((weather, texts, texts), f"{texts} is the table itself, which stays as it is"),
        ((weather, tmp_path / "gone.csv", texts), f"there is no file {tmp_path / 'gone.csv'}"),
        ((weather, texts, tmp_path), f"{tmp_path} is a folder; name a file in it, such as"),
    ):
        with pytest.raises(SystemExit):
            main(["predict", *map(str, given[:2]), "-o", str(given[2])])
        assert words in capsys.readouterr().err
    broken = tmp_path / "broken.csv"
    broken.write_text(texts.read_text(encoding="utf-8-sig") * 300 + '"open\n')
    for file, output, words in ((broken, "o.csv", "broken.csv, row"), (texts, "o.tsv", "a .tsv cannot hold")):
        with pytest.raises(SystemExit):
            main(["predict", str(weather), str(file), "-o", str(tmp_path / output)])
        assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["broken.csv"]


def test_rows_of_other_columns_are_refused_where_a_table_has_one_header(tmp_path: Path) -> None:
    with table_writer(tmp_path / "a", tmp_path / "a.csv") as write:
        write([{"a": [1, 2]}])
        with pytest.raises(TaskError, match="no column 'b'"):
            write([{"a": None, "b": 1}])
    assert (tmp_path / "a").read_text() == "a\n1 2\n"

"""Predictions for the rows of a table, by a saved model, an exported file, or a server; a chunk of rows at a time."""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from peirce.errors import InputError, ModelFileError, TaskError, one_line
from peirce.extras import require
from peirce.files import near_names, parse_json
from peirce.model import ASSETS, PROVENANCE, WEIGHTS, saved_files
from peirce.parts import Signature
from peirce_export import Runner
from peirce_text.reading import Row
from peirce_text.serving import (
    INPUTS,
    ClassificationPipeline,
    Keep,
    LabellingPipeline,
    Scorer,
    ScoringPipeline,
    TaggingPipeline,
    best_class,
)
from peirce_text.tabular.columns import Roles
from peirce_text.tabular.inputs import InputColumns, Numbers
from peirce_text.tabular.kinds import KINDS, Kind, Measurement, character_spans
from peirce_text.tabular.lists import words_in
from peirce_text.text.encoding import softmax

if TYPE_CHECKING:
    from peirce.model import Model

PIPELINES: Mapping[str, type[Any]] = {
    "classify": ClassificationPipeline,
    "multilabel": LabellingPipeline,
    "score": ScoringPipeline,
    "tag": TaggingPipeline,
}
"""What answers questions of texts, by the kind of its predictions."""
FRONTS = {"classify": "classify", "multilabel": "label", "score": "score", "tag": "tag"}
"""What follows the name of a model in front, by the kind of its predictions."""
CONCURRENT_REQUESTS, TIMEOUT, LARGEST_REPLY = 8, 60.0, 1 << 26
"""How many questions a server is asked at once, and the seconds and bytes that it may take for one."""


Prediction = tuple[Any, ...]
"""What the added columns of a row hold."""


@frozen(kw_only=True)
class Predictions:
    """What was predicted of a file, or of a folder.

    Args:
        output: where it is.
        rows: how many rows there are.
        empty: how many of them have no text.
        measured: what was counted where right classes are known.
        classes: those of the model; empty where they are not known.
        label: the column of the right classes.
        folder: of a folder, how many `files` have predictions, how many were `kept` from an earlier run, and why others
            have `failed`, by their paths.
    """

    output: Path
    rows: int
    empty: int
    measured: Measurement
    classes: Sequence[str]
    label: str
    folder: Mapping[str, Any] | None = None


class Predictor(ABC):
    """Predicts what a column says of texts, or tags of words.

    Attributes:
        kind_name: which of `KINDS` its predictions are.
        columns: the columns that the model was trained on, by role; empty where nothing says them.
        input_columns: those of further inputs of the model.
        classes: the names of the classes; empty where they are not known beforehand.
    """

    kind_name: str
    columns: Mapping[str, str] = {}
    input_columns = InputColumns({})
    classes: Sequence[str] = ()

    @property
    def kind(self) -> Kind:
        """What is predicted of a row."""
        return KINDS[self.kind_name]

    @property
    def tags(self) -> bool:
        """Whether words are tagged."""
        return self.kind_name == "tag"

    @abstractmethod
    def predict(
        self, texts: Sequence[Sequence[Any]], batch_size: int, inputs: Sequence[tuple[Numbers, ...]] = ()
    ) -> list[Prediction]:
        """Predict some rows.

        Args:
            texts: all texts, and all second texts where there are any; or, of a tagger, the words of each.
            batch_size: how many rows are computed at once.
            inputs: of each row, what its `input_columns` hold.

        Raises:
            InputError: the model does not take them.
            TaskError: an input does not take what its column holds.
        """


class LocalPredictor(Predictor):
    """By a model that runs in this process."""

    def __init__(self, folder: Path, model: Runner) -> None:
        with saved_files(folder, without=(WEIGHTS,)) as files:
            assets = files.assets
        # An input that the question of a pipeline has not may come from a column.
        free = [evolve(spec, required=False) for spec in model.signature.inputs]
        fits = [
            name
            for name, kind in PIPELINES.items()
            if kind.answers(Signature(free, model.signature.outputs), assets, False)
        ]
        if not fits:
            raise ModelFileError(
                f"{folder} holds no model of texts or words that was trained on a table, with its tokenizer in "
                f"{ASSETS}; train one with `peirce train SPEC --data FILE -o DIR`"
            )
        self.runner = model
        self._pipeline: Any = PIPELINES[fits[0]](folder, model)
        scorer = self._pipeline.scorer
        self._signature, self.kind_name = model.signature, "rank" if scorer.task == "rank" else fits[0]
        self.columns, self.classes = scorer.columns, scorer.classes
        self.input_columns = InputColumns.of(self.columns)
        given = INPUTS | self.input_columns.columns.keys()
        if missing := [
            spec.name for spec in model.signature.inputs if spec.required and spec.name not in given
        ]:
            raise ModelFileError(
                f"the model in {folder} needs the input {missing[0]!r}, and was trained on no column for it; train it "
                f"with `--set task.inputs.{missing[0]}=COLUMN`"
            )

    @property
    def scorer(self) -> Scorer:
        """What scores the classes, with its tokenizer."""
        return cast(Scorer, self._pipeline.scorer)

    def predict(
        self, texts: Sequence[Sequence[Any]], batch_size: int, inputs: Sequence[tuple[Numbers, ...]] = ()
    ) -> list[Prediction]:
        """The most probable class of each row, or of each word; its labels, or its number."""
        if self.kind_name in ("score", "rank"):
            return [(float(number),) for (number,) in self.score(texts, batch_size, np.asarray, inputs)]
        if self.kind_name == "multilabel":
            found = self.score(texts, batch_size, LabellingPipeline.shares, inputs)
            return [_probable(self.classes, each) for each in found]
        best = self.score(texts, batch_size, best_class, inputs)
        if self.tags:
            return [([self.classes[int(i)] for i in each[:, 0]], each[:, 1].tolist()) for each in best]
        return [(self.classes[int(i)], float(share)) for i, share in best]

    def score(
        self,
        texts: Sequence[Sequence[Any]],
        batch_size: int,
        keep: Keep,
        inputs: Sequence[tuple[Numbers, ...]] = (),
    ) -> Any:
        """What is kept of the scores of each row, [classes], or of each word of a row, [words, classes]."""
        of_texts = {spec.name for spec in self._signature.inputs if "length" not in spec.dims}

        def feed(encoded: Any) -> Any:
            encoded = self.input_columns.feed(encoded, inputs, of_texts)
            self.input_columns.check(self._signature, encoded, "the table")
            return encoded

        return self._pipeline.score(texts[0] if self.tags else texts, batch_size, keep, feed)


class TorchRunner:
    """A saved model, in torch."""

    providers = ("torch",)

    def __init__(self, model: Model) -> None:
        self.model = model.eval()
        self._device = next(model.parameters()).device
        self.signature = model.signature

    @classmethod
    def load(cls, folder: Path, device: str | None) -> TorchRunner:
        """The model of a folder."""
        require(
            f"the saved model {folder}", "torch", extra="peirce-text[train]", instead="give an exported file"
        )
        from peirce.compose import load

        return cls(load(folder, device=device))

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """The outputs by name."""
        import torch

        with torch.inference_mode():
            tensors = {name: torch.as_tensor(array).to(self._device) for name, array in inputs.items()}
            found = self.model(
                **{k: t.to(self.model.dtype) if t.is_floating_point() else t for k, t in tensors.items()}
            )
        return {name: found[name].float().cpu().numpy() for name in outputs or found}

    def generate(self, inputs: Mapping[str, Any], **settings: Any) -> Any:
        """A text for each prompt."""
        return self.model.generate(**inputs, **settings)


class _TritonPredictor(Predictor):
    """By a model in front at a Triton server, which takes whole questions by HTTP, in KServe's protocol."""

    def __init__(self, url: str) -> None:
        self._url, _, name = url.rstrip("/").rpartition("/")
        if not name or "://" not in self._url or self._url.endswith("/"):
            raise InputError(
                f"{url}: give the server and the name of its model, such as http://localhost:8000/NAME"
            )
        for self.kind_name, front in FRONTS.items():
            self._name = f"{name}_{front}"
            if self._answer(f"/v2/models/{self._name}", None) is not None:
                return
        fronts = " and no ".join(f"{name}_{front}" for front in FRONTS.values())
        raise InputError(
            f"{self._url} serves no {fronts}, which take texts: export the model with `peirce export MODEL --to triton`"
        )

    def predict(
        self, texts: Sequence[Sequence[Any]], batch_size: int, inputs: Sequence[tuple[Numbers, ...]] = ()
    ) -> list[Prediction]:
        """The best class of each row, or of each word; the server batches."""
        with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
            return list(pool.map(self._infer, zip(*texts, strict=True)))

    def _infer(self, row: Sequence[Any]) -> Prediction:
        names = ("words",) if self.tags else ("text", "pair")
        inputs = []
        for name, value in zip(names, row, strict=False):
            data = value if isinstance(value, list) else [value]
            inputs.append({"name": name, "shape": [len(data)], "datatype": "BYTES", "data": data})
        path = f"/v2/models/{self._name}/infer"
        answer = self._answer(path, {"inputs": inputs})
        if answer is None:
            raise InputError(f"{self._url} no longer serves {self._name}")
        column, count = partial(_column, answer, f"{self._url}{path}"), len(row[0])
        if self.tags:
            return column("tags", "texts", count), column("probabilities", "numbers", count)
        if self.kind_name == "score":
            return tuple(column("score", "numbers", 1))
        classes = column("classes", "texts")
        if self.kind_name == "multilabel":
            return _probable(classes, np.array(column("probabilities", "numbers", len(classes))))
        scores = column("scores", "numbers", len(classes))
        return classes[0], float(softmax(np.array(scores, np.float64))[0])

    def _answer(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """The JSON that the server answers; None where it has no such model."""
        data = None if body is None else json.dumps(body).encode()
        url, content, begun = f"{self._url}{path}", bytearray(), time.monotonic()
        try:
            request = Request(url, data, {"Content-Type": "application/json"})
            with _OPENER.open(request, timeout=TIMEOUT) as reply:
                kind = reply.headers.get_content_type()
                # The timeout is one of each chunk, and an answer may come in chunks without end.
                while len(content) <= LARGEST_REPLY and time.monotonic() < begun + TIMEOUT:
                    chunk = reply.read1(1 << 16)
                    content += chunk
                    if not chunk:
                        break
                else:
                    raise OSError(f"its answer of more than {len(content):,} bytes does not end")
        except HTTPError as error:
            message = ""
            with error, suppress(OSError, HTTPException):
                message = error.read(2000).decode(errors="replace")
            if place := error.headers.get("Location"):
                raise InputError(
                    f"{url} sends on to {place}, which is not followed; give that address"
                ) from error
            if body is None and error.code in (400, 404):
                return None
            raise InputError(f"{url} refuses ({error.code} {error.reason}): {message}") from error
        except (HTTPException, OSError, ValueError) as error:
            raise InputError(
                f"{url} does not answer: {one_line(error)}; start the server, or check its address"
            ) from error
        try:
            return parse_json(bytes(content))
        except ValueError as error:
            raise InputError(
                f"{url} answers with {kind} that is not JSON: {bytes(content[:60])!r}; give the address of Triton's "
                "HTTP port"
            ) from error


class _NoRedirects(HTTPRedirectHandler):
    """Leaves a redirect to be an error: it may lead a user's texts anywhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = build_opener(_NoRedirects)


def _column(answer: Any, url: str, name: str, what: str, count: int | None = None) -> list[Any]:
    """What an output holds.

    Args:
        answer: the JSON of a server.
        url: who answered.
        name: the output's.
        what: `texts` or `numbers`.
        count: how many there are; at least one if None.

    Raises:
        InputError: the answer has no such output, or it holds something else.
    """
    given = answer.get("outputs") if isinstance(answer, dict) else None
    outputs = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    found = next((each.get("data") for each in outputs if each.get("name") == name), None)
    fits = _is_text if what == "texts" else _is_number
    if (
        not isinstance(found, list)
        or not found
        or count not in (None, len(found))
        or not all(map(fits, found))
    ):
        raise InputError(
            f"{url} gives no answer of KServe's protocol for this model: {name!r} must hold {count or 'some'} {what}, "
            f"in {str(answer)!r:.200}; ask a server of a repository that `peirce export --to triton` wrote"
        )
    return found


def _is_text(value: Any) -> bool:
    return (
        isinstance(value, str) and value.encode(errors="ignore").decode() == value
    )  # no half of a character


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


@contextmanager
def predictor(
    model: str, device: str | None = None, providers: Sequence[str] | None = None, threads: int | None = None
) -> Iterator[Predictor]:
    """What predicts with a model.

    Args:
        model: a saved model's folder; an exported file in such a folder; or `http://HOST:PORT/NAME` at Triton.
        device: where a saved model computes.
        providers: what computes an exported file.
        threads: the threads of an exported file's operators.

    Raises:
        ModelFileError: there is no such model, or it is damaged, or none that classifies or tags.
        InputError: the server does not answer, or an option does not suit the model.
    """
    path = Path(model)
    served, saved = model.startswith(("http://", "https://")), path.is_dir()
    if (device and (served or not saved)) or ((providers or threads) and (served or saved)):
        raise InputError(
            "--device is for the folder of a saved model, and --provider and --threads are for an exported file; leave "
            f"them out for {model}"
        )
    if served:
        yield _TritonPredictor(model)
        return
    if not path.exists():
        raise ModelFileError(
            f"there is no model {path}{near_names(path, f'*/{PROVENANCE}')}; give a folder that `peirce train` wrote, "
            "or a file in it that `peirce export` wrote"
        )
    if saved:
        yield LocalPredictor(path, TorchRunner.load(path, device))
        return
    from peirce_export import Session

    with Session(path, providers=providers, threads=threads) as session:
        if not (path.parent / PROVENANCE).is_file():
            raise ModelFileError(
                f"{path}: no saved model lies beside it, whose tokenizer and classes are needed; export into its folder"
            )
        yield LocalPredictor(path.parent, session)


def read_cell(value: Any, where: str, *, words: bool) -> Any:
    """What stands in a column as the model takes it: a text, or a list of words; empty where nothing is there.

    Raises:
        TaskError: words are needed, and it holds something else; or it holds a list in place of a text.
    """
    if words:
        return words_in(value, where)
    if isinstance(value, list):
        raise TaskError(f"{where} holds a list, and a text is needed; give each text a row of its own")
    return value if isinstance(value, str) and value.strip() else ""


def predict_rows(
    found: Predictor, rows: Sequence[Row], roles: Roles, batch_size: int, measured: Measurement
) -> list[Prediction]:
    """What is predicted of each of some rows; None for every column where there is no text.

    Args:
        found: what predicts.
        rows: the rows.
        roles: their columns.
        batch_size: how many are computed at once.
        measured: what counts the predictions of rows whose right class is known.
    """
    columns = [
        [read_cell(row.value(name), f"{row.where}: column {name!r}", words=found.tags) for row in rows]
        for name in roles.texts
    ]
    full = [i for i, each in enumerate(zip(*columns, strict=True)) if all(each)]
    texts = [[column[i] for i in full] for column in columns]
    inputs = [found.input_columns.of_row(rows[i], len(columns[0][i]) if found.tags else None) for i in full]
    predicted: list[Prediction] = [(None,) * len(found.kind.added)] * len(rows)
    for i, prediction in zip(full, found.predict(texts, batch_size, inputs) if full else [], strict=True):
        predicted[i] = prediction
        if found.tags:
            value = rows[i].value(roles.texts[0])
            predicted[i] += (character_spans(columns[0][i], prediction[0], value, found.classes),)
        if roles.label:
            measured.add(rows[i], roles, prediction[0])
    return predicted


def _probable(labels: Sequence[str], shares: NDArray[Any]) -> Prediction:
    """The labels that are more probable than not, the most probable first, and how probable each is."""
    best = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0.5]
    return [labels[i] for i in best], [float(shares[i]) for i in best]

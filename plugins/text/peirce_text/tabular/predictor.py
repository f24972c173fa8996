"""Predictions for the rows of a table, by a saved model, an exported file, or a server; a chunk of rows at a time."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from peirce.errors import InputError, ModelFileError, one_line
from peirce.extras import require
from peirce.model import ASSETS, PROVENANCE, WEIGHTS, saved_files
from peirce_export import Runner
from peirce_text.serving import ClassificationPipeline, TaggingPipeline
from peirce_text.tabular.columns import items
from peirce_text.text.encoding import softmax

CONCURRENT_REQUESTS, TIMEOUT = 8, 60.0
"""How many questions a server is asked at once, and the seconds that it may take for one."""


Prediction = tuple[Any, Any]
"""A class and its probability, or a list of each, one for each word."""


class Predictor(ABC):
    """Predicts classes of texts, or tags of words.

    Attributes:
        tags: whether it tags words.
        columns: the columns that the model was trained on, by role; empty where nothing says them.
        classes: the names of the classes; empty where they are not known beforehand.
    """

    tags: bool
    columns: Mapping[str, str] = {}
    classes: Sequence[str] = ()

    @abstractmethod
    def predict(self, texts: Sequence[Sequence[Any]], batch_size: int) -> list[Prediction]:
        """Predict some rows.

        Args:
            texts: all texts, and all second texts where there are any; or, of a tagger, the words of each.
            batch_size: how many rows are computed at once.

        Raises:
            InputError: the model does not take them.
        """


class _LocalPredictor(Predictor):
    """By a model that runs in this process."""

    def __init__(self, folder: Path, model: Runner) -> None:
        with saved_files(folder, without=(WEIGHTS,)) as files:
            assets = files.assets
        kind = next(
            (
                k
                for k in (ClassificationPipeline, TaggingPipeline)
                if k.answers(model.signature, assets, False)
            ),
            None,
        )
        if kind is None:
            raise ModelFileError(
                f"{folder} holds no model that classifies texts or tags words, with its tokenizer in {ASSETS}; train "
                "one with `peirce train SPEC --data FILE -o DIR`"
            )
        self._pipeline: Any = kind(folder, model)
        self.tags = kind is TaggingPipeline
        self.columns, self.classes = self._pipeline.scorer.columns, self._pipeline.scorer.classes

    def predict(self, texts: Sequence[Sequence[Any]], batch_size: int) -> list[Prediction]:
        """The most probable class of each row, or of each word."""
        scores = self._pipeline.score(texts[0] if self.tags else texts, batch_size)
        found: list[Prediction] = []
        for probabilities in map(softmax, scores):
            best, share = probabilities.argmax(-1), probabilities.max(-1, initial=0.0)
            if self.tags:
                found.append(([self.classes[i] for i in best], share.tolist()))
            else:
                found.append((self.classes[best], float(share)))
        return found


class _TorchRunner:
    """A saved model, in torch."""

    providers = ("torch",)

    def __init__(self, folder: Path, device: str | None) -> None:
        require(
            f"the saved model {folder}", "torch", extra="peirce-text[train]", instead="give an exported file"
        )
        from peirce.compose import load

        self._model = load(folder, device=device).eval()
        self._device = next(self._model.parameters()).device
        self.signature = self._model.signature

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """The outputs by name."""
        import torch

        with torch.inference_mode():
            found = self._model(**{name: torch.as_tensor(a).to(self._device) for name, a in inputs.items()})
        return {name: found[name].float().cpu().numpy() for name in outputs or found}

    def generate(self, inputs: Mapping[str, Any], **settings: Any) -> Any:
        """A text for each prompt."""
        return self._model.generate(**inputs, **settings)


class _TritonPredictor(Predictor):
    """By a model in front at a Triton server, which takes whole questions by HTTP, in KServe's protocol."""

    def __init__(self, url: str) -> None:
        self._url, _, name = url.rstrip("/").rpartition("/")
        if not name or "://" not in self._url or self._url.endswith("/"):
            raise InputError(
                f"{url}: give the server and the name of its model, such as http://localhost:8000/NAME"
            )
        for self._name, self.tags in ((f"{name}_classify", False), (f"{name}_tag", True)):
            if self._answer(f"/v2/models/{self._name}", None) is not None:
                return
        raise InputError(
            f"{self._url} serves no {name}_classify and no {name}_tag, which take texts: export the model with "
            "`peirce export MODEL --to triton`"
        )

    def predict(self, texts: Sequence[Sequence[Any]], batch_size: int) -> list[Prediction]:
        """The best class of each row, or of each word; the server batches."""
        with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
            return list(pool.map(self._infer, zip(*texts, strict=True)))

    def _infer(self, row: Sequence[Any]) -> Prediction:
        names = ("words",) if self.tags else ("text", "pair")
        inputs = []
        for name, value in zip(names, row, strict=False):
            data = value if isinstance(value, list) else [value]
            inputs.append({"name": name, "shape": [len(data)], "datatype": "BYTES", "data": data})
        answer = self._answer(f"/v2/models/{self._name}/infer", {"inputs": inputs})
        if answer is None:
            raise InputError(f"{self._url} no longer serves {self._name}")
        found = {each["name"]: each["data"] for each in answer["outputs"]}
        if self.tags:
            return (found["tags"], found["probabilities"])
        return (found["classes"][0], float(softmax(np.array(found["scores"], np.float64))[0]))

    def _answer(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """What the server answers; None where it has no such model."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}{path}", data, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=TIMEOUT) as reply:
                return json.load(reply)
        except HTTPError as error:
            message = error.read(2000).decode(errors="replace")
            if body is None and error.code in (400, 404):
                return None
            raise InputError(f"{self._url} refuses: {message}") from error
        except (URLError, OSError, ValueError) as error:
            raise InputError(
                f"{self._url} does not answer: {one_line(error)}; start the server, or check its address"
            ) from error


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
    if saved:
        yield _LocalPredictor(path, _TorchRunner(path, device))
        return
    from peirce_export import Session

    with Session(path, providers=providers, threads=threads) as session:
        if not (path.parent / PROVENANCE).is_file():
            raise ModelFileError(
                f"{path.parent} holds no saved model, whose tokenizer and classes are needed; export into its folder"
            )
        yield _LocalPredictor(path.parent, session)


def read_cell(value: Any, *, words: bool) -> Any:
    """What stands in a column as the model takes it: a text, or a list of words; empty where nothing is there."""
    if words:
        return [str(each) for each in items(value)] if isinstance(value, str | list) else []
    return value if isinstance(value, str) and value.strip() else ""

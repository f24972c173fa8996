"""The task `squad`: find the span of a text that answers a question, or say that there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from attrs import field, frozen, validators
from numpy.typing import NDArray
from peirce.errors import TaskError
from peirce.model import Model
from peirce.parts import IGNORED
from peirce.training import one_of
from torch import Tensor

from peirce_text.small import DOES, WHO, sentence, vocabulary
from peirce_text.squad.metrics import Judged, best_thresholds, measure
from peirce_text.squad.reading import FILES, Question, Questions, read_dataset, read_folder
from peirce_text.squad.windows import Candidate, Ints, Window, best_windows, candidates, spans_of, windows
from peirce_text.tasks import (
    TextTask,
    evaluating,
    of_split,
    of_vocabulary,
    outputs_of,
    say,
    shown,
    write_predictions,
)
from peirce_text.text.rows import collate
from peirce_text.text.tokenizer import Encoding, Tokenizer

HEAD = "span"
NOT_PUBLIC = "test"
_ALL = 2**30
"""More tokens than a context has."""


@frozen(kw_only=True)
class SquadOptions:
    """Where the data lie, how a context is divided, and what an answer may be.

    Args:
        folder: holds the published `train-v2.0.json` and `dev-v2.0.json`, or those of 1.1.
        version: `2.0`, where a question may have no answer, or `1.1`, where each has one.
        dataset: in place of a folder, a data set for the library `datasets`: a name of its hub, such as
            `rajpurkar/squad_v2`, or a local folder.
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one; when empty, that of the model.
        length: the most tokens of a question with a window of its context.
        stride: how many tokens further each window starts.
        query_length: the most tokens of a question.
        answer_length: the most tokens of an answer.
        n_best: how many starts and ends of a window are combined, and how many answers are kept.
        threshold: by how much having no answer must score better than the best span to be predicted.
        batch_size: how many windows are in a batch.
        predictions: a folder for the predicted answers, the scores of having none and the n best, as JSON, written when
            split `valid` is evaluated; empty for none.
    """

    folder: str = ""
    version: Literal["2.0", "1.1"] = one_of("2.0", "1.1")
    dataset: str = ""
    tokenizer: str = ""
    length: int = field(default=384, validator=validators.ge(8))
    stride: int = field(default=128, validator=validators.ge(1))
    query_length: int = field(default=64, validator=validators.ge(1))
    answer_length: int = field(default=30, validator=validators.ge(1))
    n_best: int = field(default=20, validator=validators.ge(1))
    threshold: float = 0.0
    batch_size: int = field(default=32, validator=validators.ge(1))
    predictions: str = ""

    def __attrs_post_init__(self) -> None:
        if self.length < self.query_length + 4:
            raise TaskError(
                f"a question of {self.query_length} tokens leaves its context no room within {self.length}; lower "
                "task.query_length or raise task.length"
            )


@frozen(eq=False)
class SquadSplit:
    """One split as ids.

    Args:
        read: the contexts and questions.
        contexts: int32, the ids of each context.
        offsets: int64 [tokens, 2] of each context, in characters.
        queries: the ids of each question.
        spans: the answers of each question as first and last token of its context.
        owner: int64 [windows], which question each window belongs to.
        parts: which tokens of the context each window shows.
    """

    read: Questions
    contexts: tuple[NDArray[np.int32], ...]
    offsets: tuple[Ints, ...]
    queries: tuple[tuple[int, ...], ...]
    spans: tuple[tuple[Window, ...], ...]
    owner: Ints
    parts: tuple[Window, ...]

    @property
    def taught(self) -> NDArray[np.bool_]:
        """Which windows have labels: those of questions whose answers stand where they should, or which have none."""
        known = [
            bool(spans) or not q.answers for q, spans in zip(self.read.questions, self.spans, strict=True)
        ]
        return np.array(known)[self.owner]


@frozen(eq=False)
class SquadData:
    """What was read: the tokenizer, and the splits `train` and `valid` as far as they are there."""

    tokenizer: Tokenizer
    splits: Mapping[str, SquadSplit]


@frozen
class Prediction:
    """What is predicted for a question: its best spans, the best first, with their texts; and the score of none."""

    texts: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    none: float

    @property
    def text(self) -> str:
        """The best span's."""
        return self.texts[0] if self.texts else ""

    @property
    def difference(self) -> float:
        """How much better having no answer scores than the best span."""
        return self.none - self.candidates[0].score if self.candidates else float("inf")


class Squad(TextTask[SquadData]):
    """Questions on Wikipedia whose answers are spans of a paragraph, in 2.0 also none."""

    name = "squad"
    source = (
        "SQuAD (Rajpurkar et al., 2016; 2018); BERT (Devlin et al., 2018), Sections 4.2 and 4.3; FOLNet (Chen, 2023), "
        "Appendix B"
    )
    Options = SquadOptions
    head = HEAD
    examples = ("SQuAD", "rajpurkar/squad_v2")

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Who sat, ran or slept, and a question that the context does not answer."""
        for name, first in (("train", 0), ("dev", 32)):
            paragraphs = []
            for i in range(first, first + 6):
                context, deed, word = f"{sentence(i)} {sentence(i + 21)}", DOES[i // 4 % 4], WHO[i % 4]
                answer = {"text": word, "answer_start": context.index(word)}
                right = {
                    "question": f"Who {deed}?",
                    "id": f"{i}",
                    "answers": [answer],
                    "is_impossible": False,
                }
                wrong = {"question": "Who was good?", "id": f"{i}-none", "answers": [], "is_impossible": True}
                paragraphs.append({"context": context, "qas": [right, wrong]})
            content = {"version": "v2.0", "data": [{"title": "Animals", "paragraphs": paragraphs}]}
            (folder / f"{name}-v2.0.json").write_text(json.dumps(content), encoding="utf-8")
        return {
            "folder": str(folder), "tokenizer": vocabulary(folder), "length": 20, "query_length": 8, "stride": 4,
            "batch_size": 4,
        }  # fmt: skip

    def prepare(self) -> SquadData:
        """Read the questions, tokenise them, and divide the contexts into windows."""
        options: SquadOptions = self.options
        self.check_source()
        tokenizer = self.tokenizer()
        folder, dataset = options.folder, options.dataset
        read = read_folder(Path(folder), options.version) if folder else read_dataset(dataset)
        splits = {}
        for split, questions in read.items():
            splits[split], lost = self._split(tokenizer, questions, split)
            none = sum(not question.answers for question in questions.questions)
            say(
                f"{len(questions):,} {split} questions, {none:,} of them without an answer, on "
                f"{len(questions.contexts):,} contexts: {len(splits[split].parts):,} windows"
                + (f"; {lost:,} answers are not where they should be, and are left out" if lost else "")
            )
        return SquadData(tokenizer, splits)

    def _split(self, tokenizer: Tokenizer, read: Questions, split: str) -> tuple[SquadSplit, int]:
        options: SquadOptions = self.options
        contexts, offsets = [], []
        for text in shown(read.contexts, f"tokenising {split}", len(read.contexts), 1001):
            encoding = tokenizer.encode(text, length=_ALL)
            contexts.append(np.array(encoding.ids[1:-1], dtype=np.int32))
            offsets.append(np.array(encoding.offsets[1:-1], dtype=np.int64).reshape(-1, 2))
        pieces = tokenizer.pieces_of([question.text for question in read.questions])
        queries = tuple(tuple(ids[: options.query_length]) for ids in pieces)
        owner: list[int] = []
        parts: list[Window] = []
        spans: list[tuple[Window, ...]] = []
        lost = 0
        for i, question in enumerate(read.questions):
            found = [_tokens(a.text, a.start, read, question, offsets) for a in question.answers]
            spans.append(tuple({span: None for span in found if span is not None}))
            lost += sum(span is None for span in found)
            room = options.length - len(queries[i]) - 3
            own = windows(len(contexts[question.context]), room, options.stride)
            parts += own
            owner += [i] * len(own)
        made = SquadSplit(
            read, tuple(contexts), tuple(offsets), queries, tuple(spans), np.array(owner), tuple(parts)
        )
        return made, lost

    def overrides(self, data: SquadData) -> Mapping[str, Any]:
        """The vocabulary, and a head for spans."""
        return {**of_vocabulary(data.tokenizer), "model.heads": [{"use": HEAD}]}

    def batches(self, data: SquadData, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each as long as its longest window.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; labels: int64 [b, x, 2] as the head
            `span` takes them: `[CLS]` and the context may be answers, and `[CLS]` is where there is none.
        """
        part = _part(data, split)
        taught = np.flatnonzero(part.taught)
        for chosen in self.order(len(taught), split, seed, epoch):
            rows = taught[chosen]
            yield {**_inputs(data, part, rows), "labels": _labels(part, rows)}

    def metrics(self, model: Model, data: SquadData, split: str) -> Mapping[str, float]:
        """Exact match and F1 at `threshold`; for 2.0 also at the thresholds that are best for these questions.

        SQuAD's test set is not public: split `test` gives nothing.
        """
        if split == NOT_PUBLIC:
            say("SQuAD's test set is not public; evaluate split valid")
            return {}
        part = _part(data, split)
        predicted = self.predict(model, data, split)
        if self.options.predictions and split == "valid":
            self._write(part.read.questions, predicted)
        judged = [
            Judged(bool(q.answers), tuple(a.text for a in q.answers), p.text, p.difference)
            for q, p in zip(part.read.questions, predicted, strict=True)
        ]
        if all(question.answerable for question in judged):
            return measure(judged, None)
        return {**measure(judged, self.options.threshold), **best_thresholds(judged)}

    def predict(self, model: Model, data: SquadData, split: str) -> list[Prediction]:
        """The best spans of each question of a split, over all windows of its context."""
        part = _part(data, split)
        options: SquadOptions = self.options
        found: list[list[Candidate]] = [[] for _ in part.queries]
        none = [float("inf")] * len(part.queries)
        numbers = np.arange(len(part.queries))
        first, end = (np.searchsorted(part.owner, numbers, side) for side in ("left", "right"))
        judges = [
            best_windows(part.parts[first[i] : end[i]], len(part.contexts[question.context]))
            for i, question in enumerate(part.read.questions)
        ]
        starts = range(0, len(part.parts), options.batch_size)
        best = {"n_best": options.n_best, "longest": options.answer_length}
        with evaluating(model) as moved:
            for start in shown(starts, f"predicting SQuAD {split}", len(starts), 20):
                rows = np.arange(start, min(start + options.batch_size, len(part.parts)))
                outputs = outputs_of(model, moved(_inputs(data, part, rows)))
                logits = outputs[f"{HEAD}_logits"].float().cpu().numpy()
                for row, scores in zip(rows, logits, strict=True):
                    i, window = int(part.owner[row]), part.parts[row]
                    begin = len(part.queries[i]) + 2
                    own = scores[begin : begin + window[1] - window[0]]
                    none[i] = min(none[i], float(scores[0, 0]) + float(scores[0, 1]))
                    found[i] += candidates(own, window, judges[i], int(row - first[i]), **best)
        return [
            self._prediction(part, question, spans, score)
            for question, spans, score in zip(part.read.questions, found, none, strict=True)
        ]

    def _prediction(
        self, part: SquadSplit, question: Question, spans: Sequence[Candidate], none: float
    ) -> Prediction:
        """The best spans with different texts."""
        context, offsets = part.read.contexts[question.context], part.offsets[question.context]
        texts: dict[str, Candidate] = {}
        for span in sorted(spans, key=lambda span: (-span.score, span.first, span.last)):
            text = context[offsets[span.first, 0] : offsets[span.last, 1]]
            texts.setdefault(text, span)
            if len(texts) == self.options.n_best:
                break
        return Prediction(tuple(texts), tuple(texts.values()), none)

    def _write(self, questions: Sequence[Question], predicted: Sequence[Prediction]) -> None:
        """Answers, scores of having none, and the n best, as the published evaluation script takes the first two."""
        v2 = any(not question.answers for question in questions)
        named = {question.id: p for question, p in zip(questions, predicted, strict=True)}
        answers = {
            name: "" if v2 and p.difference > self.options.threshold else p.text for name, p in named.items()
        }
        contents: dict[str, Any] = {
            "predictions.json": answers,
            "nbest.json": {
                name: [
                    {"text": text, "score": span.score}
                    for text, span in zip(p.texts, p.candidates, strict=True)
                ]
                for name, p in named.items()
            },
        }
        if v2:
            contents["null_odds.json"] = {
                name: p.difference if p.candidates else 1e9 for name, p in named.items()
            }
        texts = {name: json.dumps(own, ensure_ascii=False, indent=1) + "\n" for name, own in contents.items()}
        write_predictions(Path(self.options.predictions), texts)


def _tokens(
    text: str, start: int, read: Questions, question: Question, offsets: Sequence[Ints]
) -> Window | None:
    """An answer as first and last token; None where its text does not stand at its place."""
    if not text or read.contexts[question.context][start : start + len(text)] != text:
        return None
    return spans_of((start, start + len(text)), offsets[question.context])


def _inputs(data: SquadData, part: SquadSplit, rows: Ints) -> dict[str, Tensor]:
    """`[CLS] question [SEP] window [SEP]` of some windows."""
    tokenizer = data.tokenizer
    made = []
    for row in rows:
        i, (start, end) = int(part.owner[row]), part.parts[row]
        context = part.contexts[part.read.questions[i].context][start:end]
        query = part.queries[i]
        ids = (tokenizer.cls_id, *query, tokenizer.sep_id, *context, tokenizer.sep_id)
        first = len(query) + 2
        made.append(Encoding(ids, (0,) * first + (1,) * (len(ids) - first), (), ()))
    return collate(made, tokenizer.pad_id)


def _labels(part: SquadSplit, rows: Ints) -> Tensor:
    """int64 [b, x, 2]: the answers that a window holds whole, or else its first token."""
    sizes = [len(part.queries[part.owner[row]]) + 3 + part.parts[row][1] - part.parts[row][0] for row in rows]
    labels = torch.full((len(rows), max(sizes), 2), IGNORED, dtype=torch.int64)
    for k, row in enumerate(rows):
        i, (start, end) = int(part.owner[row]), part.parts[row]
        begin = len(part.queries[i]) + 2
        labels[k, 0] = 0
        labels[k, begin : begin + end - start] = 0
        inside = [(first, last) for first, last in part.spans[i] if start <= first and last < end]
        for first, last in inside:
            labels[k, begin + first - start, 0] = 1
            labels[k, begin + last - start, 1] = 1
        if not inside:
            labels[k, 0] = 1
    return labels


def _part(data: SquadData, split: str) -> SquadSplit:
    hint = f"there is no file of split {split!r}; the data have {', '.join(data.splits)}"
    return of_split(data.splits, split, FILES, hint)

"""The task `squad`: find the span of a text that answers a question, or say that there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model, PlainRows
from peirce.parts import IGNORED, one_of, plain_cross_entropy
from peirce_text.plain import plain_mean
from peirce_text.progress import print_line, with_progress
from peirce_text.samples import DOES, WHO, sentence, vocabulary
from peirce_text.squad.metrics import Judgement, best_thresholds, measure
from peirce_text.squad.questions import Question, read_folder, read_hub
from peirce_text.squad.windows import Candidate, Ints, Window, best_windows, candidates, token_span, windows
from peirce_text.tasks import (
    TEST,
    FolderOptions,
    TextData,
    TextTask,
    at_least,
    evaluation_mode,
    outputs_of,
    vocabulary_settings,
    write_predictions,
)
from peirce_text.text.encoding import EncodedTexts, tensors
from peirce_text.text.tokenizer import Tokenizer

_ALL = 2**30
"""More tokens than a context has."""


@frozen(kw_only=True)
class SquadOptions(FolderOptions):
    """Where the data lie, how a context is divided, and what an answer may be.

    Args:
        folder: holds the published `train-v2.0.json` and `dev-v2.0.json`, or those of 1.1.
        version: `2.0`, where a question may have no answer, or `1.1`, where each has one.
        dataset: in place of a folder, a data set for the library `datasets`: a name of its hub, such as
            `rajpurkar/squad_v2`, or a local folder.
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

    version: Literal["2.0", "1.1"] = one_of("2.0", "1.1")
    length: int = at_least(8, 384)
    stride: int = at_least(1, 128)
    query_length: int = at_least(1, 64)
    answer_length: int = at_least(1, 30)
    n_best: int = at_least(1, 20)
    threshold: float = 0.0
    predictions: str = ""

    def __attrs_post_init__(self) -> None:
        if self.length < self.query_length + 4:
            raise TaskError(
                f"a question of {self.query_length} tokens leaves its context no room within {self.length}; lower "
                "task.query_length or raise task.length"
            )


@frozen(eq=False)
class EncodedQuestion:
    """A question and its context as ids.

    Args:
        question: the question.
        ids: int32, the ids of the context.
        offsets: int64 [tokens, 2] of the context, in characters.
        query: the ids of the question.
        spans: the answers as first and last token of the context.
    """

    question: Question
    ids: NDArray[np.int32]
    offsets: Ints
    query: list[int]
    spans: tuple[Window, ...]


@frozen(eq=False)
class SquadSplit:
    """One split as ids.

    Args:
        tokenizer: what divides texts.
        questions: the questions.
        owner: int64 [windows], which question each window belongs to.
        parts: which tokens of the context each window shows.
        labelled: the windows that have labels: those of questions whose answers stand where they should, or which have
            none.
    """

    tokenizer: Tokenizer
    questions: tuple[EncodedQuestion, ...]
    owner: Ints
    parts: tuple[Window, ...]
    labelled: Ints
    cut: int = 0

    @property
    def lengths(self) -> Ints:
        """The tokens of each window that has labels."""
        return np.array([self.size(row) for row in self.labelled], np.int64)

    def size(self, row: int) -> int:
        """How many tokens a window has with its question."""
        start, end = self.parts[row]
        return len(self.questions[self.owner[row]].query) + 3 + end - start

    def inputs(self, rows: Ints) -> dict[str, Tensor]:
        """`[CLS] question [SEP] window [SEP]` of some windows."""
        cls, sep, ids, firsts = self.tokenizer.cls_id, self.tokenizer.sep_id, [], []
        for row in rows:
            (start, end), question = self.parts[row], self.questions[self.owner[row]]
            ids.append([cls, *question.query, sep, *question.ids[start:end], sep])
            firsts.append(len(question.query) + 2)
        texts = EncodedTexts.of(ids, firsts, self.tokenizer.pad_id)
        return texts.batch(np.arange(len(texts)))

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Some windows that have labels, and these, int64 [b, x, 2]: the answers that a window holds whole, or else its
        first token."""
        rows = self.labelled[rows]
        labels = np.full((len(rows), max(map(self.size, rows)), 2), IGNORED, np.int64)
        for k, row in enumerate(rows):
            question, (start, end) = self.questions[self.owner[row]], self.parts[row]
            begin = len(question.query) + 2
            labels[k, 0] = labels[k, begin : begin + end - start] = 0
            inside = [span for span in question.spans if start <= span[0] and span[1] < end]
            for first, last in inside:
                labels[k, begin + first - start, 0] = labels[k, begin + last - start, 1] = 1
            if not inside:
                labels[k, 0] = 1
        return {**self.inputs(rows), **tensors({"labels": labels})}


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


class Squad(TextTask[SquadOptions, Question, SquadSplit]):
    """Questions on Wikipedia whose answers are spans of a paragraph, in 2.0 also none."""

    name = "squad"
    source = (
        "SQuAD (Rajpurkar et al., 2016; 2018); BERT (Devlin et al., 2018), Sections 4.2 and 4.3; FOLNet (Chen, 2023), "
        "Appendix B"
    )
    Options = SquadOptions
    head = "span"
    nouns, shorten = "questions", "second"
    examples = ("SQuAD", "rajpurkar/squad_v2")

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Who sat, ran or slept, and a question that the context does not answer."""
        for name, first in (("train", 0), ("dev", 32)):
            paragraphs = []
            for i in range(first, first + 6):
                context, deed, word = f"{sentence(i)} {sentence(i + 21)}", DOES[i // 4 % 4], WHO[i % 4]
                answer = {"text": word, "answer_start": context.index(word)}
                right = {"question": f"Who {deed}?", "id": f"{i}", "answers": [answer]}
                wrong = {"question": "Who was good?", "id": f"{i}-none", "answers": [], "is_impossible": True}
                paragraphs.append({"context": context, "qas": [right, wrong]})
            content = {"version": "v2.0", "data": [{"title": "Animals", "paragraphs": paragraphs}]}
            (folder / f"{name}-v2.0.json").write_text(json.dumps(content), encoding="utf-8")
        return {
            "folder": str(folder), "tokenizer": vocabulary(folder), "length": 20, "query_length": 8, "stride": 4,
            "batch_size": 4,
        }  # fmt: skip

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Short windows, short questions, short answers, and a threshold."""
        return [
            {"length": 13, "query_length": 2, "stride": 2, "answer_length": 2, "n_best": 2},
            {"threshold": 5.0, "stride": 30, "length": 15},
        ]

    def plain_windows(self, data: TextData[SquadSplit], split: str) -> list[dict[str, Any]]:
        """The windows of each question of the small data, one after the other."""
        options, tokenizer, found = self.options, data.tokenizer, []
        path = Path(options.folder) / f"{'train' if split == 'train' else 'dev'}-v2.0.json"
        paragraphs = json.loads(path.read_text(encoding="utf-8"))["data"][0]["paragraphs"]
        for number, (text, one) in enumerate((p["context"], qa) for p in paragraphs for qa in p["qas"]):
            whole, query = tokenizer.encode(text, length=_ALL), tokenizer.pieces(one["question"])
            query = query[: options.query_length]
            ids, offsets = whole.ids[1:-1], whole.offsets[1:-1]
            room, start = options.length - len(query) - 3, 0
            spans = [(a["answer_start"], a["answer_start"] + len(a["text"])) for a in one["answers"]]
            while True:
                part = list(range(start, min(start + room, len(ids))))
                begin, none = len(query) + 2, [IGNORED, IGNORED]
                labels = [[0, 0], *[none] * (begin - 1), *[[0, 0] for _ in part], none]
                for first, last in spans:
                    inside = [i for i in part if offsets[i][0] >= first and offsets[i][1] <= last]
                    if inside and offsets[inside[0]][0] == first and offsets[inside[-1]][1] == last:
                        labels[begin + inside[0] - start][0] = labels[begin + inside[-1] - start][1] = 1
                if not any(1 in each for each in labels):
                    labels[0] = [1, 1]
                row = [tokenizer.cls_id, *query, tokenizer.sep_id, *(ids[i] for i in part), tokenizer.sep_id]
                found.append({
                    "input_ids": row, "attention_mask": [True] * len(row), "labels": labels,
                    "token_type_ids": [int(i >= begin) for i in range(len(row))], "question": number, "start": start,
                    "context": text, "offsets": offsets, "tokens": part, "answers": [a["text"] for a in one["answers"]],
                })  # fmt: skip
                if part[-1] + 1 == len(ids):
                    break
                start += min(room, options.stride)
        return found

    def reference(self, data: TextData[SquadSplit], split: str) -> list[dict[str, Any]] | None:
        """Question and window, and where answers begin and end in it."""
        names = ("input_ids", "attention_mask", "labels", "token_type_ids")
        if split == TEST or self.options.version != "2.0":
            return None
        return [{name: row[name] for name in names} for row in self.plain_windows(data, split)]

    def reference_settings(self, data: TextData[SquadSplit]) -> Mapping[str, Any]:
        """A head for spans."""
        return {**super().reference_settings(data), "model.heads": [{"use": "span"}]}

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The cross-entropy of the first and of the last token, among those where they may be."""
        losses = []
        for row, each in zip(rows, outputs, strict=True):
            for end in (0, 1):
                marks = [mark[end] for mark in row["labels"]]
                scores = [
                    s[end] for s, mark in zip(each["span_logits"], marks, strict=True) if mark != IGNORED
                ]
                losses.append(plain_cross_entropy([scores], [[m for m in marks if m != IGNORED].index(1)]))
        return plain_mean(losses)

    def reference_metrics(
        self, data: TextData[SquadSplit], split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """Exact match and F1 of the best spans, each judged in the window that shows most around its first token."""
        every = list(zip(self.plain_windows(data, split), outputs, strict=True))
        judged = []
        for number in range(every[-1][0]["question"] + 1):
            own = [(row, each["span_logits"]) for row, each in every if row["question"] == number]
            around: dict[int, tuple[float, int]] = {}
            for place, (row, _) in enumerate(own):
                for i in row["tokens"]:
                    edge = min(i - row["tokens"][0], row["tokens"][-1] - i) + 0.01 * len(row["tokens"])
                    around[i] = max(around.get(i, (-1.0, 0)), (edge, -place))
            spans = []
            for place, (row, scores) in enumerate(own):
                begin = row["token_type_ids"].index(1) - row["start"]
                firsts, lasts = (
                    [i for _, i in sorted((-scores[begin + i][end], i) for i in row["tokens"])][
                        : self.options.n_best
                    ]
                    for end in (0, 1)
                )
                spans += [
                    (-scores[begin + i][0] - scores[begin + j][1], i, j) for i in firsts for j in lasts
                    if i <= j < i + self.options.answer_length and around[i][1] == -place
                ]  # fmt: skip
            row, none = own[0][0], min(sum(scores[0]) for _, scores in own)
            score, i, j = min(spans) if spans else (float("inf"), 0, -1)
            text = row["context"][row["offsets"][i][0] : row["offsets"][j][1]] if spans else ""
            judged.append(Judgement(tuple(row["answers"]), text, none + score if spans else float("inf")))
        return {**measure(judged, self.options.threshold), **best_thresholds(judged)}

    def read(self) -> dict[str, list[Question]]:
        """The questions of the files, or of the data set's splits."""
        options = self.options
        if options.dataset:
            return read_hub(options.dataset)
        return read_folder(Path(options.folder), options.version)

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Question]) -> SquadSplit:
        """The questions and contexts as ids, and the contexts in windows."""
        options, texts = self.options, list(dict.fromkeys(question.context for question in examples))
        known: dict[str, tuple[NDArray[np.int32], Ints]] = {}
        for text in with_progress(texts, f"tokenising {split}", len(texts), 1001):
            encoding = tokenizer.encode(text, length=_ALL)
            offsets = np.array(encoding.offsets[1:-1], np.int64).reshape(-1, 2)
            known[text] = np.array(encoding.ids[1:-1], np.int32), offsets
        queries = tokenizer.pieces_of([each.text for each in examples])
        questions: list[EncodedQuestion] = []
        owner: list[int] = []
        parts: list[Window] = []
        for i, (question, ids) in enumerate(zip(examples, queries, strict=True)):
            query, (context, offsets) = ids[: options.query_length], known[question.context]
            questions.append(EncodedQuestion(question, context, offsets, query, _spans(question, offsets)))
            divided = windows(len(context), options.length - len(query) - 3, options.stride)
            parts += divided
            owner += [i] * len(divided)
        labelled = [bool(each.spans) or not each.question.answers for each in questions]
        encoded = SquadSplit(
            tokenizer,
            tuple(questions),
            np.array(owner),
            tuple(parts),
            np.flatnonzero(np.array(labelled)[owner]),
        )
        none, lost = sum(not each.answers for each in examples), len(labelled) - sum(labelled)
        note = f"; the answers of {lost:,} are not where they should be, and are left out" if lost else ""
        print_line(f"{split}: {none:,} of the questions have no answer, {len(parts):,} windows{note}")
        return encoded

    def overrides(self, data: TextData[SquadSplit]) -> Mapping[str, Any]:
        """The vocabulary, and a head for spans."""
        return {**vocabulary_settings(data.tokenizer), "model.heads": [{"use": self.head}]}

    def metrics(self, model: Model, data: TextData[SquadSplit], split: str) -> Mapping[str, float]:
        """Exact match and F1 at `threshold`; for 2.0 also at the thresholds that are best for these questions.

        SQuAD's test set is not public: split `test` gives nothing.
        """
        if split == TEST:
            print_line("SQuAD's test set is not public; evaluate split valid")
            return {}
        questions = [each.question for each in self.part(data, split).questions]
        predicted = self.predict(model, data, split)
        if self.options.predictions and split == "valid":
            self._write(questions, predicted)
        judged = [
            Judgement(tuple(a.text for a in q.answers), p.text, p.difference)
            for q, p in zip(questions, predicted, strict=True)
        ]
        if all(question.answerable for question in judged):
            return measure(judged, None)
        return {**measure(judged, self.options.threshold), **best_thresholds(judged)}

    def predict(self, model: Model, data: TextData[SquadSplit], split: str) -> list[Prediction]:
        """The best spans of each question of a split, over all windows of its context."""
        part, options = self.part(data, split), self.options
        found: list[list[Candidate]] = [[] for _ in part.questions]
        none = [float("inf")] * len(part.questions)
        numbers = np.arange(len(part.questions))
        first, end = (np.searchsorted(part.owner, numbers, side) for side in ("left", "right"))
        judges = [
            best_windows(part.parts[first[i] : end[i]], len(a.ids)) for i, a in enumerate(part.questions)
        ]
        starts = range(0, len(part.parts), options.batch_size)
        best = {"n_best": options.n_best, "longest": options.answer_length}
        with evaluation_mode(model) as moved:
            for start in with_progress(starts, f"predicting SQuAD {split}", len(starts), 20):
                rows = np.arange(start, min(start + options.batch_size, len(part.parts)))
                outputs = outputs_of(model, moved(part.inputs(rows)))
                logits = outputs[f"{self.head}_logits"].float().cpu().numpy()
                for row, scores in zip(rows, logits, strict=True):
                    i, window = int(part.owner[row]), part.parts[row]
                    begin = len(part.questions[i].query) + 2
                    window_scores = scores[begin : begin + window[1] - window[0]]
                    none[i] = min(none[i], float(scores[0, 0]) + float(scores[0, 1]))
                    found[i] += candidates(window_scores, window, judges[i], int(row - first[i]), **best)
        return [self._prediction(*one) for one in zip(part.questions, found, none, strict=True)]

    def _prediction(self, question: EncodedQuestion, spans: Sequence[Candidate], none: float) -> Prediction:
        """The best spans with different texts."""
        texts: dict[str, Candidate] = {}
        for span in sorted(spans, key=lambda span: (-span.score, span.first, span.last)):
            text = question.question.context[question.offsets[span.first, 0] : question.offsets[span.last, 1]]
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
                name: [{"text": t, "score": c.score} for t, c in zip(p.texts, p.candidates, strict=True)]
                for name, p in named.items()
            },
        }
        if v2:
            contents["null_odds.json"] = {
                name: p.difference if p.candidates else 1e9 for name, p in named.items()
            }
        texts = {
            name: json.dumps(content, ensure_ascii=False, indent=1) + "\n"
            for name, content in contents.items()
        }
        write_predictions(Path(self.options.predictions), texts)


def _spans(question: Question, offsets: Ints) -> tuple[Window, ...]:
    """The answers as first and last token, each once, without those whose text does not stand at its place."""
    found: dict[Window, None] = {}
    for answer in question.answers:
        end = answer.start + len(answer.text)
        there = answer.text and question.context[answer.start : end] == answer.text
        if there and (span := token_span((answer.start, end), offsets)):
            found[span] = None
    return tuple(found)

"""The task `tag`: the words of texts of a table, each with a tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from attrs import frozen
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model, PlainRows
from peirce.parts import IGNORED
from peirce_text.plain import plain_best, plain_f1, plain_ids, plain_mean, plain_spans
from peirce_text.progress import print_line
from peirce_text.reading import Row
from peirce_text.samples import WHERE, WHO, sentence, write_tables
from peirce_text.tabular.checks import Labelled
from peirce_text.tabular.columns import (
    check_classes,
    class_name,
    class_number,
    column,
    list_classes,
    sort_classes,
    usual_column,
)
from peirce_text.tabular.inputs import Numbers
from peirce_text.tabular.lists import is_list, items, words_in
from peirce_text.tabular.measures import Confusion, check_tags, marks_spans, span_counts
from peirce_text.tabular.streams import StreamedBatch
from peirce_text.tabular.tables import TableOptions, TableTask
from peirce_text.tabular.words import join_words
from peirce_text.tasks import TEST, TRAIN, VALID, TextData, keep_usable, vocabulary_settings
from peirce_text.text.encoding import Ints
from peirce_text.text.tokenizer import Tokenizer
from peirce_text.text.words import EncodedWords, encode_words

MOST_TAGS = 100
"""As many tags are taken of any number of words; where there are more, half as many as words."""


@frozen(kw_only=True)
class TagOptions(TableOptions):
    """What is read.

    Args:
        tokens: the column of the words: a list, or a text with spaces between them; if empty, the one called so, or
            `words`.
        tags: the column of their tags, likewise; if empty, the one called so, or `ner_tags`, `pos_tags` or `labels`.
        sentence: where each row has one word, the column that says which sentence it is in; if empty, the one called
            `sentence_id` or the like, or empty lines end sentences.
        length: the most tokens that are read at once; a longer text is read in parts.
        confusion: a file for the confusion matrix, .png, .svg or .pdf, drawn with each evaluation; empty for none.
    """

    tokens: str = ""
    tags: str = ""
    sentence: str = ""
    confusion: str = ""


class Tagged(NamedTuple):
    """Words, the tag of each, the numbers of each further input of the model, and which row of its file it is."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    inputs: tuple[Numbers, ...] = ()
    number: int = 0


class Tag(TableTask[TagOptions, Tagged, EncodedWords]):
    """Which tag has a word? Learned from a table: parts of speech, names, spans of any kind."""

    name = "tag"
    source = (
        "BERT (Devlin et al., 2018), Section 5.3; CoNLL-2003 (Tjong Kim Sang and De Meulder, 2003) for spans"
    )
    Options = TagOptions
    example_options: ClassVar[Mapping[str, Any]] = {"length": 6}
    head = "token_classification"
    counted = "words"
    nouns = "texts"
    examples = ("my.jsonl", "OWNER/NAME")
    _of_texts: frozenset[str] = frozenset()

    @classmethod
    def example_rows(cls) -> list[dict[str, Any]]:
        """Sentences whose animals and places are tagged."""
        kinds = {**dict.fromkeys(WHO, "I-animal"), **dict.fromkeys(WHERE, "B-place"), "The": "B-animal"}
        texts = [sentence(i)[:-1].split() for i in range(26)]
        return [{"tokens": words, "tags": [kinds.get(word, "O") for word in words]} for words in texts]

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Parts of speech, which mark no spans, of words that are no letters and of a text without words."""
        kinds = {**dict.fromkeys(WHO, "noun"), **dict.fromkeys(WHERE, "adverb"), "The": "article"}
        rows = [
            {"tokens": row["tokens"], "tags": [kinds.get(word, "verb") for word in row["tokens"]]}
            for row in cls.example_rows()
        ]
        files = write_tables(
            folder, speech=[*rows, {"tokens": ["\u2603", "The"], "tags": ["noun", "article"]}]
        )
        return [{"data": files["speech"], "test_data": "", "length": 24}]

    def reference(self, data: TextData[EncodedWords], split: str) -> list[dict[str, Any]]:
        """The words of each text, in rows that have room for them, with the tag of each at its first token."""
        names = sorted({tag for row in self.plain_rows(TRAIN) for tag in row["tags"]})
        found = []
        for row in self.plain_rows(split):
            rows: list[dict[str, list[Any]]] = []
            for word, tag in zip(row["tokens"], row["tags"], strict=True):
                ids = plain_ids(data.tokenizer, word, length=self.options.length)["input_ids"][1:-1]
                if not rows or len(rows[-1]["input_ids"]) + len(ids) > self.options.length - 2:
                    rows.append({"input_ids": [], "labels": []})
                rows[-1]["input_ids"] += ids
                rows[-1]["labels"] += [names.index(tag), *[IGNORED] * (len(ids) - 1)]
            for each in rows:
                ids = [data.tokenizer.cls_id, *each["input_ids"], data.tokenizer.sep_id]
                found.append(
                    {"input_ids": ids, "attention_mask": [True] * len(ids), "token_type_ids": [0] * len(ids),
                     "labels": [IGNORED, *each["labels"], IGNORED]}
                )  # fmt: skip
        return found

    def reference_settings(self, data: TextData[EncodedWords]) -> Mapping[str, Any]:
        """A head with the tags."""
        count = len(
            {tag for split in (TRAIN, VALID, TEST) for row in self.plain_rows(split) for tag in row["tags"]}
        )
        head = {"use": "token_classification", "classes": count}
        return {**super().reference_settings(data), "model.heads": [head]}

    def reference_metrics(
        self, data: TextData[EncodedWords], split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """The share of words that are tagged right, and F1 of their tags, or of the spans that tags mark."""
        words = [(label, plain_best(scores)) for label, scores in self.plain_guesses(rows, outputs)]
        accuracy = plain_mean([a == b for a, b in words])
        if not any(name.startswith("B-") for name in data.classes):
            f1 = [
                plain_f1([a == k for a, _ in words], [b == k for _, b in words])
                for k in range(len(data.classes))
            ]
            return {"accuracy": accuracy, "macro_f1": plain_mean(f1)}
        hits, place = [0, 0, 0], 0
        for row in self.plain_rows(split):
            some, place = words[place : place + len(row["tags"])], place + len(row["tags"])
            one, other = (plain_spans([data.classes[pair[k]] for pair in some]) for k in (0, 1))
            hits = [a + b for a, b in zip(hits, map(len, (one & other, one, other)), strict=True)]
        return {
            "accuracy": accuracy,
            "span_f1": 2 * hits[0] / max(1, hits[1] + hits[2]),
            "span_precision": hits[0] / max(1, hits[2]),
            "span_recall": hits[0] / max(1, hits[1]),
        }

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """Words and their tags."""
        return bool(usual_column(row, "tokens")) and bool(usual_column(row, "tags"))

    def rows(self) -> Mapping[str, Iterator[Row]]:
        """The rows of each split, after a look at the first for the columns."""
        first, rows = self.open_rows()
        given = {"tokens": self.options.tokens, "tags": self.options.tags}
        self.columns = {role: column(first, role, name) for role, name in given.items()}
        if self.options.sentence:
            self.columns["sentence"] = self.options.sentence
        self.columns |= self.input_columns.roles(first, self.columns["tags"])
        return rows

    def read(self) -> dict[str, Sequence[Tagged]]:
        """The words and tags of each split.

        Raises:
            TaskError: words and tags are not as many, or there is but one tag.
        """
        read = {
            split: keep_usable(split, self.examples_of(some, split)) for split, some in self.rows().items()
        }
        classes = sort_classes(tag for each in read[TRAIN] for tag in each.tags)
        words = [word for each in read[TRAIN] for word in each.words]
        where = f"{self.source_of(TRAIN)}: column {self.columns['tags']!r}"
        if len(classes) < 2 or len(classes) > max(MOST_TAGS, len(words) // 2):
            raise TaskError(
                f"{where} has {len(classes):,} different tags for {len(words):,} words, "
                f"{'and nothing' if len(classes) < 2 else 'too many'} to tell apart; name the column of the tags with "
                "task.tags"
            )
        check_classes(classes, where)
        check_tags(classes, where)
        if not marks_spans(classes) and marks_spans(set(words)):
            raise TaskError(
                f"{self.source_of(TRAIN)}: column {self.columns['tokens']!r} holds tags such as {words[0]!r}; name the "
                "column of the words with task.tokens, and that of the tags with task.tags"
            )
        self._numbers = {name: number for number, name in enumerate(classes)}
        for split, examples in read.items():
            for each in examples if split != TRAIN else ():
                for tag in each.tags:
                    class_number(tag, self._numbers, self.source_of(split))
        roles = {"words": self.columns["tokens"], **self.columns}
        del roles["tokens"]
        print_line(
            f"{self.name}: {', '.join(f'{role} from column {name!r}' for role, name in roles.items())}; "
            f"{list_classes(classes, 'tags', len(words))}"
        )
        found = self.split_off(read)
        self.print_checks(found)
        return found

    def names_in(self, row: Row) -> Iterable[str]:
        """The tags of its words."""
        name = self.columns["tags"]
        return map(str, items(row.value(name), f"{row.where}: column {name!r}"))

    def count_targets(self, examples: Sequence[Tagged]) -> Mapping[str, int]:
        """The words."""
        return {"loss": sum(len(each.words) for each in examples)}

    def examples_of(self, rows: Iterator[Row], split: str) -> Iterator[tuple[str, Tagged | str]]:
        """The place of each row, and what it becomes, or why it is left out."""
        tokens, tags = self.columns["tokens"], self.columns["tags"]
        for row in rows if self.stream is not None else join_words(rows, tokens, self.options.sentence):
            if self.stream is not None and not is_list(row.value(tokens)):
                raise TaskError(
                    f"{row.where}: column {tokens!r} holds {row.value(tokens)!r:.60}, and a streamed table has the "
                    "words of a text as a list, in one row; save it so, or read all of it with task.stream=no"
                )
            words = words_in(row.value(tokens), f"{row.where}: column {tokens!r}")
            where = f"{row.where}: column {tags!r}"
            found = [class_name(each, where) for each in items(row.value(tags), where)]
            known = tuple(each for each in found if each is not None)
            if len(known) < len(found):
                raise TaskError(f"{where} holds an empty tag; give every word one, such as O")
            if len(words) != len(known):
                raise TaskError(
                    f"{row.where}: {len(words)} words have {len(known)} tags; give every word one tag"
                )
            if not words:
                yield row.where, "it has no words"
                continue
            inputs = self.input_columns.of_row(row, len(words))
            yield row.where, Tagged(tuple(words), known, inputs, row.number)

    def labelled(self, example: Tagged) -> Labelled:
        """The words and their tags."""
        words, tags, inputs, number = example
        return Labelled(texts=words, labels=tags, number=number, inputs=inputs)

    def texts_of(self, example: Tagged) -> Iterable[str]:
        """The words."""
        return (" ".join(example.words),)

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Tagged]) -> EncodedWords:
        """The words as ids, with the class of each."""
        words = encode_words(
            tokenizer, [each.words for each in examples], self.options.length, f"{split} texts"
        )
        rows = [each.inputs for each in examples]
        if split == TRAIN:  # which is encoded first
            self._of_texts = self.input_columns.of_texts(rows, words.counts)
        fed = self.input_columns.feed(words, rows, self._of_texts)
        return fed.with_tags(
            np.array([self._numbers[tag] for each in examples for tag in each.tags], np.int64)
        )

    def data_of(self, tokenizer: Tokenizer, read: Mapping[str, Sequence[Tagged]]) -> TextData[EncodedWords]:
        """All splits as ids, and the tags."""
        return TextData(tokenizer, super().data_of(tokenizer, read).splits, tuple(self._numbers))

    def overrides(self, data: TextData[EncodedWords]) -> Mapping[str, Any]:
        """The vocabulary, and a head for words."""
        head = {"use": self.head, "classes": len(data.classes)}
        return {**vocabulary_settings(data.tokenizer), "model.heads": [head]}

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The words of a batch."""
        if isinstance(batch, StreamedBatch):
            return batch.targets
        return {"loss": int((batch["labels"] != IGNORED).sum())}

    def predict(self, model: Model, data: TextData[EncodedWords], split: str) -> Ints:
        """The class that is predicted of each word of a split, in the order of its texts."""
        part = self.part(data, split)
        found = np.zeros(len(part.ids), np.int64)
        for rows, _, outputs in self.evaluate_batches(model, data, split):
            best = outputs[f"{self.head}_logits"].argmax(-1).cpu().numpy()
            for row, classes in zip(rows, best, strict=True):
                found[part.place(row)] = classes[: part.lengths[row]]
        return found[part.first]

    def measure(self, model: Model, data: TextData[EncodedWords], split: str) -> Confusion:
        """How often a model predicts each tag as which, by words, on a split; and spans, where tags mark them."""
        part, names = self.part(data, split), np.array(data.classes, np.object_)
        right, predicted = part.tags[part.first], self.predict(model, data, split)
        counts = None
        if marks_spans(data.classes):
            both = (part.by_text(names[classes]) for classes in (right, predicted))
            counts = sum((span_counts(*pair) for pair in zip(*both, strict=True)), np.zeros(3, np.int64))
        return Confusion.of(data.classes, right, predicted, counts)

"""Logical relations as `peirce look` shows them, in a text alone or as a model reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from attrs import evolve, frozen

from peirce.model import Model
from peirce_logic.detection.algorithm import Relation
from peirce_logic.detection.display import words_of
from peirce_logic.detector import Detector
from peirce_logic.input_texts import SETTINGS, TOKENIZER, Reader
from peirce_logic.relations import RELATIONS
from peirce_show import Mark, Observe, View
from peirce_text import Texts

LABELS = tuple(name.replace("_", " ") for name, _ in RELATIONS)


@frozen(kw_only=True)
class RelationsOptions:
    """How relations are found where there is no model; a model has its own parser, keywords and senses.

    Args:
        parser: what finds constituents, as `peirce logic detect` takes it.
        lexicon: a file of keywords; the English ones if empty.
        senses: a file of `peirce logic senses train`, which chooses the sense of a keyword; if empty, the most
            frequent one is taken.
    """

    parser: str = "spacy"
    lexicon: str = ""
    senses: str = ""


class Relations(Texts):
    """The keywords of a text with the spans that they join, and what a model makes of them."""

    Options = RelationsOptions
    works_alone = True

    @classmethod
    def shows(cls, model: Model, assets: Collection[str]) -> bool:
        """Whether a task of this package trained the model."""
        return {TOKENIZER, SETTINGS} <= set(assets)

    def view(self, texts: Sequence[str], observe: Observe) -> View:
        """The relations of each text, and what the model computes between its tokens."""
        if self.alone:
            how = self.options
            found = Detector(how.parser, how.lexicon or None, senses=how.senses or None).find(texts)
            return _with_marks(View(name="logic", text=""), [(each.text, each.relations) for each in found])
        read, reader, read_texts = self.read(texts), Reader.of(self.folder), texts
        if read.written:
            read_texts = texts[:1]
        encoding = reader.tokenizer.encode(*read_texts, length=len(read.tokens))
        names = [spec.name for spec in self.model.signature.inputs]
        inputs = {**reader.rows([read_texts], [encoding], names), **read.inputs}
        matrices = observe(self.model, inputs, read.tokens, read.written)
        relations = reader.detector.relations(read_texts) if reader.detector else {}
        view = View(name=self.model.spec.name, text="", matrices=matrices, notes=read.notes)
        return _with_marks(view, [(text, relations.get(text, ())) for text in texts])


def _with_marks(view: View, found: Sequence[tuple[str, Sequence[Relation]]]) -> View:
    """A view with texts, a line between them, and the marks of their relations."""
    marks, text = list[Mark](), ""
    for part, relations in found:
        marks += _marks_of(relations, part, len(text))
        text += f"{part}\n"
    return evolve(view, text=text.removesuffix("\n"), marks=tuple(marks), labels=LABELS)


def _marks_of(relations: Sequence[Relation], text: str, start: int = 0) -> Iterator[Mark]:
    """The keyword of each relation and its spans, in a text that begins at `start` of what is shown."""
    for group, relation in enumerate(relations):
        label, key = relation.relation.replace("_", " "), relation.key
        spans = f"{words_of(relation.alpha, text) or '-'} | {words_of(relation.beta, text) or '-'}"
        yield Mark(start=start + key.start, end=start + key.end, label=label, meaning=f"{label}: {spans}")
        for role, sign, role_spans in (("alpha", "α", relation.alpha), ("beta", "β", relation.beta)):
            meaning = f"{label}: {role} of {relation.keyword}"
            for span in role_spans:
                place = {"start": start + span.start, "end": start + span.end}
                yield Mark(label=label, meaning=meaning, sign=sign, group=group, **place)

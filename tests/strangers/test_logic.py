"""What others reported of keywords, negations and coordinations in real sentences, tried here."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import pytest

from peirce.errors import TaskError
from peirce_logic.detection.display import words_of
from peirce_logic.detector import Detector

pytestmark = pytest.mark.skipif(find_spec("spacy") is None, reason="spacy is not installed")


@cache
def detector(lexicon: str) -> Detector:
    try:
        return Detector("spacy", lexicon)
    except TaskError as error:
        pytest.skip(str(error))


def found(text: str, lexicon: str = "english") -> list[tuple[str, str | None, str | None]]:
    """The keyword and the spans of each relation, without the last full stop."""
    (relations,) = detector(lexicon).find([text])
    spans = ((words_of(each.alpha, text), words_of(each.beta, text)) for each in relations.relations)
    plain = [tuple(span and span.rstrip(".") for span in pair) for pair in spans]
    return [(each.keyword, *pair) for each, pair in zip(relations.relations, plain, strict=True)]


@pytest.mark.report(
    "https://github.com/explosion/spaCy/issues/3516",
    "the verb 'like' is taken for the preposition",
    "'like' shows examples of several things or of a substance, and nothing as a verb, of a verb or in a comparison",
)
def test_like_gives_examples_of_things_alone() -> None:
    for text in (
        "We like coffee.",
        "It sounds like thunder.",
        "Like her sister, she sings.",
        "She has a voice like hers.",
    ):
        assert not found(text)
    assert found("Files like these are read.") == [("like", "these", None)]


@pytest.mark.report(
    "https://github.com/UniversalDependencies/docs/issues/453",
    "adverbs that join clauses, as 'however' and 'thus' do, hang on them in several ways",
    "such an adverb speaks of its whole clause, and of what that is joined to or the sentence before; "
    "'then' that answers 'if' shows no relation",
)
def test_adverbs_speak_of_clauses() -> None:
    assert found("If the file is gone, then the test fails.") == [
        ("If", "the test fails", "the file is gone")
    ]
    assert found("The file may then be removed.") == [("then", None, "The file may ... be removed")]
    assert found("It snowed; therefore, they stayed.") == [("therefore", "It snowed", "they stayed")]
    assert found("She reads the page and also writes a note.")[1] == (
        "also",
        "reads the page",
        "writes a note",
    )


@pytest.mark.report(
    "https://github.com/amrisi/amr-guidelines/issues/112",
    "connectives such as 'otherwise' and 'besides' have several senses",
    "the tree tells where 'as', 'yet', 'but', 'otherwise', 'however', 'no' and others show no relation",
)
@pytest.mark.parametrize(
    "text",
    [
        "As you know, the road is closed.", "The day before, she left.", "This is yet another file.",
        "All but two left.",        "However hard she tries, she fails.", "Unless otherwise stated, files are read.",
        "See volume no. 4 for more.",
        "He works just as hard as she does.", "Come as soon as possible.", "Many thanks to all readers.",
        "It was as shown above.", "They talked about no-one.", "No, thank you.",
    ],
)  # fmt: skip
def test_a_keyword_that_joins_nothing_there_shows_no_relation(text: str) -> None:
    names = {each[0].lower() for each in found(text)}
    assert names <= {"unless", "for"}


@pytest.mark.report(
    "https://github.com/explosion/spaCy/issues/891",
    "words with a stroke between them are one token",
    "both keywords of 'and/or' are found, with the same members",
)
def test_keywords_within_one_token() -> None:
    assert found("Bring paper and/or pencils.") == [
        ("and", "paper", "pencils"),
        ("or", "paper", "pencils"),
    ]


@pytest.mark.report(
    "https://github.com/UniversalDependencies/UD_English-GUM/issues/41",
    "the second of two like phrases is joined to another kind of word",
    "a member is joined to one of its kind, and each of several clauses or phrases speaks of what is around them all",
)
def test_members_are_of_one_kind() -> None:
    text = "They went without having eaten their bread, and without the water which they had bought."
    assert ("and", "without having eaten their bread", "without the water which they had bought") in found(
        text
    )
    both = found("If it snows and if it is dark, they stay.")
    assert [each for each in both if each[0].lower() == "if"] == [
        ("If", "they stay", "it snows"), ("if", "they stay", "it is dark"),
    ]  # fmt: skip
    assert found("She went home because it rained, or she slept, but he stayed.")[2:] == [
        ("but", "She went home because it rained, or she slept", "he stayed")
    ]


@pytest.mark.report(
    "https://github.com/jenojp/negspacy/issues/55",
    "the words of a negation, as 'neither' and 'nor', are wanted with what they negate",
    "the lexicon broad has them, with either, without, whether, no longer and others; the paper's stays as it is",
)
def test_the_broad_lexicon_has_what_the_paper_lacks() -> None:
    text = "She drank neither tea nor coffee."
    assert not found(text)
    assert found(text, "broad") == [("neither", "tea nor coffee", None), ("nor", "tea", "coffee")]
    assert found("They eat either bread or rice.", "broad") == [
        ("either", "bread", "rice"), ("or", "bread", "rice"),
    ]  # fmt: skip
    assert not found("Either road is long.", "broad")
    assert found("They left without a map.", "broad") == [("without", "a map", None)]
    assert found("The shop is no longer open.", "broad") == [("no longer", "is ... open", None)]
    assert found("The shop is no longer open.") == [("no", "is ... open", None)]

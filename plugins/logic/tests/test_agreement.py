"""The annotated sentences, and how far what is found agrees with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import exit_code

from peirce.errors import InputError, TaskError
from peirce_logic.detection.agreement import Agreement, agreements, read_annotated
from peirce_logic.detection.lexicon import read_lexicon
from peirce_logic.detector import Detector


def test_the_sentences_of_the_package() -> None:
    sentences = read_annotated()
    assert len({each.text for each in sentences}) == len(sentences) == 200
    kept = {each.relation for sentence in sentences for each in sentence.relations}
    assert len(kept) == 12
    for each in sentences:
        assert each.source
        assert len(each.passes) in (0, 2)
        for relation in (*each.relations, *(one for reading in each.passes for one in reading)):
            for start, end in (relation.key, *relation.alpha, *relation.beta):
                assert each.text[start].strip()
                assert each.text[end - 1].strip()
    broad = read_lexicon("broad")
    assert all(broad.senses(str(keyword)) for keyword in read_lexicon("english").keywords)


def test_what_is_found_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Ann stays if it rains or even if it snows"
    own = tmp_path / "own.jsonl"
    relations = [
        ["conditional", [10, 12], [[4, 9]], [[13, 21]]],
        ["conditional", [25, 32], [[4, 9]], [[33, 41]]],
        ["negation", [0, 3], [[4, 9]], []],
    ]
    own.write_text(json.dumps({"text": text, "relations": relations}))
    tree = (
        "(S (NP Ann) (VP stays (SBAR (SBAR (IN if) (S (NP it) (VP rains))) (CC or) "
        "(SBAR (RB even) (IN if) (S (NP it) (VP snows))))))"
    )
    detector = Detector("brackets")
    found = detector.find([tree])
    counts = agreements(read_annotated(own), [found[0].relations], detector.lexicon)
    assert counts["conditional"] == Agreement(annotated=2, found=2, named=2, spanned=2)
    assert counts["disjunction"] == Agreement(found=1)
    assert counts["negation"] == Agreement()  # the lexicon has no such keyword
    assert sum(counts.values(), Agreement()).shares["precision"] == pytest.approx(2 / 3)
    own.write_text(json.dumps({"text": tree, "relations": []}))
    assert exit_code("logic", "agreement", "--parser", "brackets", "--sentences", own, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["relations"]["all"]["found"], shown["relations"]["all"]["precision"]) == (3, 0.0)


@pytest.mark.parametrize("line", ["{}", '{"text": "a", "relations": [["casual", [0, 1], [], []]]}', "[]"])
def test_what_is_no_annotated_sentence_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(line)
    with pytest.raises(InputError, match=r"own.jsonl, line 1, is not of the form \(.*\); write"):
        read_annotated(tmp_path / "own.jsonl")


@pytest.mark.parametrize("lexicon", ["english", "broad"])
def test_spacy_finds_what_was_annotated(lexicon: str) -> None:
    """The figures of the page, with room for other versions of the model."""
    try:
        detector = Detector("spacy", lexicon)
    except TaskError as error:
        pytest.skip(str(error))
    sentences = read_annotated()
    found = detector.find([each.text for each in sentences])
    counts = agreements(sentences, [each.relations for each in found], detector.lexicon)
    shares = sum(counts.values(), Agreement()).shares
    assert min(shares["precision"], shares["recall"]) > 0.97
    assert min(shares["precision with spans"], shares["recall with spans"]) > 0.78

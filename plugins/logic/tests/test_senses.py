"""Senses of keywords: the labelled sentences, the classifiers and their file, and what detection makes of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from tiny_encoders import write_encoder

from peirce.errors import InputError, ModelFileError, TaskError
from peirce_logic.detection.lexicon import read_lexicon
from peirce_logic.detector import Detector
from peirce_logic.senses.classifiers import Classifier, Senses, read_senses
from peirce_logic.senses.sentences import NONE, LabelledSentence, agreement, read_sentences
from peirce_logic.senses.training import cross_validate, encode_keywords, train
from peirce_logic.senses.vectors import Vectors

WORDS = ("since", "as", "while")
TREES = "(S (NP We) (VP stay (SBAR since (S (NP it) (VP rains))))) (S (VP stay (PP as big) (PP as (NP Bob))))"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with random weights, and a tokenizer of the package's words."""
    words = sorted({word for each in read_sentences() for word in re.findall(r"\w+", each.text.lower())})
    return Path(write_encoder(tmp_path_factory.mktemp("encoder"), words, width=16, longest=128))


def test_the_sentences_of_the_package() -> None:
    sentences = read_sentences()
    assert Counter(each.keyword for each in sentences) == dict.fromkeys(WORDS, 100)
    assert len({(each.keyword, each.text) for each in sentences}) == 300
    lexicon = read_lexicon()
    for word in WORDS:
        own = [each for each in sentences if each.keyword == word]
        known = [sense.relation for sense in lexicon.senses(word)]
        counts = Counter(each.relation for each in own)
        assert set(counts) <= {*known, NONE}
        # The lexicon's order is that of how frequent the relations are.
        assert sorted(known, key=lambda relation: -counts[relation]) == known
        for each in own:
            assert each.relation in each.passes
            assert each.source.startswith(("gutenberg-train.txt:", "gutenberg-valid.txt:"))
    assert agreement(sentences) == pytest.approx({"share": 298 / 300, "kappa": 0.9886}, abs=1e-4)


def labelled(folder: Path, **given: object) -> LabelledSentence:
    (folder / "own.jsonl").write_text(json.dumps({"relation": "causal", **given}))
    (only,) = read_sentences(folder / "own.jsonl")
    return only


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "line 1, is not of the form"),
        ({"text": "a since b", "keyword": "since", "relation": "casual"}, "Did you mean 'causal'"),
        ({"text": "It has b", "keyword": "as"}, "does not contain the keyword 'as' as separate words"),
        ({"text": "as a, As b", "keyword": "as"}, "at the characters 0, 6.*`start`"),
        ({"text": "a as b", "keyword": "as", "start": 1}, "is not at character 1"),
    ],
)
def test_what_is_no_sentence_is_refused(given: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        labelled(tmp_path, **given)
    (tmp_path / "own.jsonl").write_text("\n")
    with pytest.raises(InputError, match=r"own\.jsonl holds no sentences; write"):
        read_sentences(tmp_path / "own.jsonl")


def test_a_keyword_is_found_as_whole_words(tmp_path: Path) -> None:
    for text, keyword, start in (("It has rained as ever.", "as", 14), ("They didn't.", "n't", 8)):
        assert labelled(tmp_path, text=text, keyword=keyword).start == start


def test_a_vector_is_the_mean_over_the_keywords_tokens_alone(encoder: Path) -> None:
    vectors = Vectors(str(encoder))
    text = "We had not moved since."
    both = vectors.of([text, f"{'x ' * 150}{text}"], [(17, 22), (317, 322)])
    assert both.shape == (2, 16)
    np.testing.assert_allclose(both[:1], vectors.of([text], [(17, 22)]), atol=1e-5)  # whatever the padding
    assert np.abs(both[0] - vectors.of([text], [(0, 2)])[0]).max() > 0.01
    assert not vectors.of([text], [(2, 3)]).any()  # no token stands there


def test_what_is_no_encoder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"the encoder '.*gone' cannot be loaded: .*; give the folder"):
        Vectors(str(tmp_path / "gone")).of(["since"], [(0, 5)])
    (tmp_path / "spec.toml").touch()
    with pytest.raises(TaskError, match=f"{tmp_path} holds a model of Peirce, which is not an encoder"):
        Vectors(str(tmp_path)).of(["since"], [(0, 5)])


class Blank(Vectors):
    """Vectors whose encoder is not asked."""

    digest = ""


def test_what_is_separable_is_found() -> None:
    senses = ["causal", "temporal", NONE] * 8
    vectors = np.eye(3, dtype=np.float32)[[0, 1, 2] * 8]
    machine = train(Blank("none"), {"as": (vectors, senses), "since": (vectors[:, :2], senses)}).classifiers
    assert machine["as"].of(vectors) == senses
    assert machine["since"].of(vectors[:2, :2]) == senses[:2]
    (scores,) = cross_validate({"as": (vectors, senses)}, folds=4, repeats=2).values()
    assert (scores.accuracy, scores.spread, scores.most_frequent) == (1.0, 0.0, 8 / 24)
    blind = cross_validate({"as": (np.zeros_like(vectors), senses)}, folds=4, repeats=2)
    assert blind["as"].accuracy <= 0.5
    with pytest.raises(InputError, match="'as' has one sentence of the sense 'none'"):
        cross_validate({"as": (vectors[:5], ["causal", "temporal", "causal", "temporal", NONE])})


def test_the_commands_and_detection(
    encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, drawn = tmp_path / "senses.safetensors", tmp_path / "senses.svg"
    assert exit_code("logic", "senses", "train", "--encoder", encoder, "-o", file, "--json") == 0
    assert json.loads(capsys.readouterr().out)["senses"]["as"] == ["causal", "none", "temporal"]
    senses, _ = read_senses(file)
    given = encode_keywords(vectors := Vectors(str(encoder)), read_sentences())
    for word, each in train(vectors, given).classifiers.items():
        np.testing.assert_array_equal(senses.classifiers[word].weight, each.weight)
        np.testing.assert_array_equal(senses.classifiers[word].bias, each.bias)
    evaluate = ("logic", "senses", "evaluate", "--json", "--plot", drawn)
    assert exit_code(*evaluate, "--encoder", encoder) == 0
    shown = json.loads(capsys.readouterr().out)
    shares = {word: each["agreement"]["share"] for word, each in shown["keywords"].items()}
    assert shares == {"since": 0.99, "as": 1.0, "while": 0.99}
    assert b"comparative" in drawn.read_bytes()
    few = tmp_path / "few.jsonl"
    few.write_text('{"text": "I stay since it rains.", "keyword": "since", "relation": "causal"}\n')
    assert exit_code(*evaluate[:4], "--senses", file, "--sentences", few) == 0
    assert json.loads(capsys.readouterr().out)["keywords"]["since"]["accuracy"] in (0.0, 1.0)
    for wrong in (("--senses", file), (), ("--encoder", encoder, "--senses", file)):
        assert exit_code(*evaluate[:4], *wrong) == 2
    capsys.readouterr()

    # Classifiers that always say the same, whatever the vector.
    def always(*relations: str) -> Classifier:
        return Classifier(relations, np.zeros((len(relations), 16), np.float32), np.ones(1, np.float32))

    sure = Senses(senses.encoder, senses.digest, {"since": always("temporal"), "as": always(NONE)})
    sure.save(file)
    arguments = ("logic", "detect", TREES, "--parser", "brackets", "--jsonl")
    for more, wanted in (((), ["causal"]), (("--senses", file), ["temporal"])):
        assert exit_code(*arguments, *more) == 0
        output = capsys.readouterr()
        assert [json.loads(line)["relation"] for line in output.out.splitlines()] == wanted
    # A cache holds what each way of choosing found.
    cache = tmp_path / "relations.sqlite"
    for chosen, name in ((None, "causal"), (file, "temporal")) * 2:
        (found,) = Detector("brackets", cache=cache, senses=chosen).find([TREES])
        assert [relation.relation for relation in found.relations] == [name]

    Senses(senses.encoder, "0" * 64, sure.classifiers).save(file)
    with pytest.raises(TaskError, match="has other weights than those that the senses were trained with"):
        Detector("brackets", senses=file).find([TREES])
    content = file.read_bytes()
    for damaged in (content[:-1] + bytes([content[-1] ^ 1]), b"\x00" * 64):
        file.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"digest does not match|is not a file of senses"):
            read_senses(file)

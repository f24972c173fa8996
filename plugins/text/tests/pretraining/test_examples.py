"""Examples: nothing lost, nothing from two documents, and pairs that are what their label says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peirce_text.pretraining.examples import (
    IN_PLACE,
    NOT_IN_PLACE,
    Corpus,
    Objective,
    crop_length,
    example_table,
    text_room,
)
from peirce_text.pretraining.store import ShardTokens

Documents = list[list[int]]
OBJECTIVES = get_args(Objective)
documents = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=8)
"""The lengths of the sentences of each document."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens")


_MADE = iter(range(10**9))


def shard(folder: Path, lengths: Documents, first: int = 0) -> ShardTokens:
    """ShardTokens that are all different, so that each says where it comes from."""
    own = folder / str(next(_MADE))
    own.mkdir()
    flat = [length for document in lengths for length in document]
    ends = np.cumsum([sum(document) for document in lengths])
    return ShardTokens(own, np.arange(first, first + sum(flat)), np.cumsum(flat), ends, "")


quiet = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(lengths=documents, most=st.integers(2, 20))
@quiet
def test_examples_cover_each_document_and_cross_none(folder: Path, lengths: Documents, most: int) -> None:
    tokens = shard(folder, lengths)
    table = example_table(tokens, most)
    assert (example_table(tokens, most) == table).all()
    starts = [0, *tokens.documents.tolist()]
    covered: set[int] = set()
    for start, end, document in table.tolist():
        assert 2 <= end - start <= most
        assert starts[document] <= start < end <= starts[document + 1]
        assert not covered.intersection(range(start, end))
        covered.update(range(start, end))
        if end not in tokens.sentences:  # cut only where a sentence is longer than a row
            assert end - start == most
    rest = sorted(set(range(len(tokens.ids))) - covered)
    assert all(b - a > 1 for a, b in pairwise(rest) if b not in starts)  # one token in a row, no more


@given(lengths=st.tuples(documents, documents), objective=st.sampled_from(OBJECTIVES), data=st.data())
@quiet
def test_pairs_and_labels(
    folder: Path, lengths: tuple[Documents, Documents], objective: Objective, data: Any
) -> None:
    one = shard(folder, lengths[0])
    corpus = Corpus((one, shard(folder, lengths[1], first=len(one.ids))), objective, 20)
    if not len(corpus):
        return
    starts = [0, *one.documents.tolist(), *(len(one.ids) + corpus.shards[1].documents).tolist()]

    def document(token: int) -> int:
        return int(np.searchsorted(starts, token, side="right"))

    example = data.draw(st.integers(0, len(corpus) - 1))
    crop = data.draw(st.booleans())
    seed = data.draw(st.integers(0, 1000))
    row = corpus.row(example, np.random.default_rng(seed), crop=crop)
    assert row == corpus.row(example, np.random.default_rng(seed), crop=crop)
    (size,) = corpus.sizes(np.array([example])).tolist()
    count = len(row.first) + len(row.second or ())
    assert count == (crop_length(size) if crop else size) <= text_room(20, objective)
    for text in (row.first, row.second or row.first):
        assert list(text) == list(range(text[0], text[-1] + 1)), "a text is not contiguous"
        assert len({document(token) for token in text}) == 1, "a text crosses documents"
    if objective in ("mlm", "causal"):
        assert row.second is None
        return
    assert row.second
    if row.label == IN_PLACE:
        assert row.second[0] == row.first[-1] + 1
        assert document(row.first[0]) == document(row.second[0])
    elif objective == "sop":
        assert row.first[0] == row.second[-1] + 1
        assert document(row.first[0]) == document(row.second[0])
    else:
        assert document(row.first[0]) != document(row.second[0])


@pytest.mark.parametrize("objective", ["nsp", "sop"])
def test_half_of_the_pairs_are_in_place(folder: Path, objective: Objective) -> None:
    corpus = Corpus((shard(folder, [[4, 5, 6]] * 20),), objective, 20)
    labels = [corpus.row(i % len(corpus), np.random.default_rng(i)).label for i in range(2000)]
    assert abs(np.mean(labels) - 0.5) < 4 * 0.5 / np.sqrt(2000)


def test_pairs_are_divided_between_sentences(folder: Path) -> None:
    corpus = Corpus((shard(folder, [[3, 4, 5]]),), "sop", 20)
    rows = [corpus.row(0, np.random.default_rng(i)) for i in range(50)]
    assert {len(min(row.first, row.second or ())) for row in rows} == {3, 7}


def test_a_single_document_has_no_other_to_draw_from(folder: Path) -> None:
    corpus = Corpus((shard(folder, [[9, 9, 9, 9]]),), "nsp", 20)
    assert {corpus.row(0, np.random.default_rng(i)).label for i in range(30)} == {IN_PLACE}
    two = Corpus((shard(folder, [[9, 9], [9, 9]]),), "nsp", 21)
    assert {two.row(0, np.random.default_rng(i)).label for i in range(30)} == {IN_PLACE, NOT_IN_PLACE}

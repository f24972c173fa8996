"""Pickles of plain values are read, and nothing else of a pickle is."""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from pathlib import Path

import pytest

from peirce.errors import TaskError
from peirce_queries.exchange.pickles import read_pickle

PLAIN = {
    ("e", ("r", "n")): {(5, (3, -2))},
    "ä": [1, 2**70, -1, True, None, (), frozenset({1})],
    7: defaultdict(set, {1: {2}}),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_are_read(protocol: int, tmp_path: Path) -> None:
    (tmp_path / "own.pkl").write_bytes(pickle.dumps(PLAIN, protocol))
    assert read_pickle(tmp_path / "own.pkl") == PLAIN


class _Call:
    def __reduce__(self) -> object:
        return os.mkdir, ("made",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(_Call()),
        pickle.dumps(_Call(), 0),
        pickle.dumps({1: 2.5}),
        pickle.dumps([PLAIN]),
        pickle.dumps(PLAIN)[:-7],
        b"",
        b"]r\xff\xff\xff\x7f" + b"(" * 9 + b".",
        b"cbuiltins\ngetattr\n.",
        b"\x82\x01.",
    ],
)
def test_anything_else_is_refused(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.pkl").write_bytes(content)
    with pytest.raises(TaskError, match=r"own\.pkl is damaged, or holds more than tuples.*Get the file"):
        read_pickle(Path("own.pkl"))
    assert os.listdir() == ["own.pkl"]

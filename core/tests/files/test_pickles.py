"""Pickles are followed without a call, in time and memory that grow with their length alone."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict, defaultdict

import pytest

from peirce.files import UnreadableError, follow_pickle

PLAIN = {
    "a": [1, 2**70, -1.5, True, None, (), b"bytes"],
    ("e", ("r",)): {1, frozenset({2})},
    3: defaultdict(list),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_come_back(protocol: int) -> None:
    plain = PLAIN if protocol > 2 else {**PLAIN, "a": [1]}  # bytes are a call before
    assert follow_pickle(io.BytesIO(pickle.dumps(plain, protocol))) == plain
    assert follow_pickle(io.BytesIO(pickle.dumps(OrderedDict(b=1), protocol))) == {"b": 1}


def test_the_next_pickle_of_a_stream_is_read() -> None:
    stream = io.BytesIO(pickle.dumps(1) + pickle.dumps("two"))
    assert (follow_pickle(stream), follow_pickle(stream)) == (1, "two")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x80\x02})" + b"\x85" * 100_000 + b"Ns.", "nested too deeply"),
        (b"\x80\x02})" + b"q\0h\0\x86" * 60 + b"Ns.", "nested too deeply"),
        (pickle.dumps(print), "names builtins.print, which is neither imported nor run"),
        (b"cbuiltins\nint\n]\x85R.", "calls a plain type"),
        (b"(i__main__\nA\n.", "opcode INST"),
        (b"\x80\x02]", "has no end|exhausted"),
    ],
)
def test_what_data_does_not_need_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        follow_pickle(io.BytesIO(content))


def test_no_list_is_copied_twice_and_no_pickle_is_longer_than_allowed() -> None:
    sets = b"](K\1K\2eq\0](" + b"c__builtin__\nset\nh\0\x85R" * 3 + b"e."
    assert follow_pickle(io.BytesIO(sets)) == [{1, 2}, set(), set()]
    with pytest.raises(UnreadableError, match="a pickle in it has more than"):
        follow_pickle(io.BytesIO(b"]" * 100), most=10)

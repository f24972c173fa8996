"""Every key of a document has the line on which it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from spec_strategies import texts

from peirce.errors import SpecError
from peirce.spec import KeyPath, join_key, parse_document
from peirce.spec.documents import split_key

DOCUMENT = '''\
# a comment with [brackets] and "quotes
format = 1

[model]
name = "x"  # [model.fake]
text = """
[model.no]
key = 1 \\""" more"""""
literal = \'\'\'
[[model.neither]]\'\'\'
numbers = [
    1, # one ]
    [2, "]"],
    { a = 1, b.c = [3] },
]
"quoted \\u00e9.key" = 1
'single "key' = 2
dims.layers = 12
  [ model . dims2 ]
  unary = 1
[[model.heads]]
use = "mlm"
[model.heads.deep]
x = 1
[[model.heads]]

use = "pair"
[[model.heads.many]]
y = 1
[[model.heads.many]]
y = 2
'''

LINES: dict[KeyPath, int] = {
    ("format",): 2,
    ("model",): 4,
    ("model", "name"): 5,
    ("model", "text"): 6,
    ("model", "literal"): 9,
    ("model", "numbers"): 11,
    ("model", "numbers", "0"): 12,
    ("model", "numbers", "1"): 13,
    ("model", "numbers", "1", "0"): 13,
    ("model", "numbers", "1", "1"): 13,
    ("model", "numbers", "2"): 14,
    ("model", "numbers", "2", "a"): 14,
    ("model", "numbers", "2", "b"): 14,
    ("model", "numbers", "2", "b", "c"): 14,
    ("model", "numbers", "2", "b", "c", "0"): 14,
    ("model", "quoted é.key"): 16,
    ("model", 'single "key'): 17,
    ("model", "dims"): 18,
    ("model", "dims", "layers"): 18,
    ("model", "dims2"): 19,
    ("model", "dims2", "unary"): 20,
    ("model", "heads"): 21,
    ("model", "heads", "0"): 21,
    ("model", "heads", "0", "use"): 22,
    ("model", "heads", "0", "deep"): 23,
    ("model", "heads", "0", "deep", "x"): 24,
    ("model", "heads", "1"): 25,
    ("model", "heads", "1", "use"): 27,
    ("model", "heads", "1", "many"): 28,
    ("model", "heads", "1", "many", "0"): 28,
    ("model", "heads", "1", "many", "0", "y"): 29,
    ("model", "heads", "1", "many", "1"): 30,
    ("model", "heads", "1", "many", "1", "y"): 31,
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_form_of_key_has_its_line(end: str) -> None:
    document = parse_document(DOCUMENT.replace("\n", end), "a.toml")
    assert {path: document.at(path) for path in document.places} == {
        path: f"a.toml:{line}" for path, line in LINES.items()
    }


@given(texts().flatmap(lambda first: texts().map(lambda second: (first, second))))
def test_a_path_can_be_written_as_one_key(path: tuple[str, str]) -> None:
    assert split_key(join_key(path)) == path


def test_a_dotted_key_is_split_as_in_toml() -> None:
    assert split_key("model.heads.0.use") == ("model", "heads", "0", "use")
    assert split_key('model."a.b".c') == ("model", "a.b", "c")


@pytest.mark.parametrize("text", ["", ".", "a.", "a b", "a..b", '"a', "a=1"])
def test_what_is_no_dotted_key_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="dotted key"):
        split_key(text)


def test_a_table_in_which_an_override_sets_a_key_names_it() -> None:
    document = parse_document(DOCUMENT, "a.toml").with_changes({"model.dims2.unary": 3, "model.name": "y"})
    assert document.at("model.dims2") == "a.toml:19 with override model.dims2.unary"
    assert document.at("model.dims2.unary") == "override model.dims2.unary"
    assert document.at("model.dims") == "a.toml:18"
    assert document.at("model.dims2.none") == "a.toml:19"

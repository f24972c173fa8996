from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import pytest
import rdflib
from hypothesis import given, settings
from hypothesis import strategies as st

from peirce.errors import TaskError
from peirce_queries.graphs.graph import load_graph
from peirce_queries.graphs.ntriples import MalformedError, parse_line

_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


@st.composite
def _written(draw: st.DrawFn, text: str, must: str) -> str:
    """A text with some characters escaped, those of `must` and backslashes always."""
    parts = []
    for character in text:
        plain = character not in must and character != "\\"
        ways = [f"\\U{ord(character):08X}", *([character] if plain else [])]
        ways += [f"\\u{ord(character):04x}"] if ord(character) < 0x10000 else []
        ways += [_SHORT[character]] if must == _IN_STRING and character in _SHORT else []
        parts.append(draw(st.sampled_from(ways)))
    return "".join(parts)


_IN_STRING = '"\n\r'
_characters = st.characters(exclude_categories=["Cs"])
# rdflib takes the spaces of other scripts for ends of an IRI, which N-Triples does not
_in_iri = st.characters(
    min_codepoint=0x21, max_codepoint=0x2FFF, exclude_categories=["Z", "Cc"], exclude_characters='<>"{}|^`\\'
)
_iri_text = st.text(_in_iri, max_size=6)
_iris = _iri_text.flatmap(lambda text: _written(text, "")).map(lambda text: f"<http://x.org/{text}>")
_STRING = "http://www.w3.org/2001/XMLSchema#string"
_kinds = st.one_of(
    st.just(""), st.sampled_from(["@en", "@de-AT", f"^^<{_STRING}>"]), _iris.map(lambda iri: f"^^{iri}")
)
_literals = st.builds(
    lambda text, kind: f'"{text}"{kind}',
    st.text(_characters, max_size=8).flatmap(lambda text: _written(text, _IN_STRING)),
    _kinds,
)
_blanks = st.sampled_from(["_:b", "_:b0", "_:0a.b", "_:x-y"])
_space = st.sampled_from([" ", "\t", "  "])
_heads, _tails = st.one_of(_iris, _blanks), st.one_of(_iris, _blanks, _literals)
_ends = st.sampled_from([" .", ".", "\t. ", " . # a comment"])
_statements = st.tuples(_heads, _space, _iris, _space, _tails, _ends).map("".join)


def _name(term: rdflib.term.Node) -> str:
    """What we call a term that rdflib has read."""
    if isinstance(term, rdflib.BNode):
        return "_:"
    if not isinstance(term, rdflib.Literal):
        return str(term)
    text = "".join(_SHORT[c] if c in '\\"\n\r' else c for c in str(term))
    plain = term.datatype is None or str(term.datatype) == _STRING  # one term in RDF 1.1, two in rdflib
    kind = f"@{term.language.lower()}" if term.language else "" if plain else f"^^<{term.datatype}>"
    return f'"{text}"{kind}'


@settings(max_examples=300)
@given(_statements)
def test_statements_equal_those_of_rdflib(statement: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rdflib says which data types it does not know
        (theirs,) = rdflib.Graph().parse(data=statement + "\n", format="nt")
    ours = parse_line(statement)
    assert ours is not None
    assert ["_:" if name.startswith("_:") else name for name in ours] == [_name(term) for term in theirs]


@pytest.fixture(autouse=True, scope="module")
def as_written() -> object:
    """rdflib otherwise writes numbers and dates in a form of its own."""
    rdflib.NORMALIZE_LITERALS = False
    yield
    rdflib.NORMALIZE_LITERALS = True


MALFORMED = """<a> <b> <c>
<a> <b> <c> <d> .
"a" <b> <c> .
<a> _:b <c> .
<a b> <b> <c> .
<a> <b> "c"d" .
<a> <b> "c"@1 .
<a> <b> "c"^^d .
<a> <b> "\\z" .
<\\u00zz> <b> <c> .
<a> <b> "\\uD800" .
<a> <b> "\\U00110000" .
_:a. <b> <c> .
@prefix a: <b> ."""


def test_lines_without_a_statement_and_malformed_ones() -> None:
    assert [parse_line(line) for line in ("", "   ", "# a comment", "\t# <a> <b> <c> .")] == [None] * 4
    assert parse_line("_:été <r> _:π .") == ("_:été", "r", "_:π")
    for line in MALFORMED.splitlines():
        with pytest.raises(MalformedError, match=r"an N-Triples statement|does not encode a character"):
            parse_line(line)


def test_a_graph_of_n_triples(tmp_path: Path) -> None:
    twice = "<http://x/a> <http://x/knows> _:b .\n"
    text = f'# people\n{twice}\n<http://x/a> <http://x/name> "Ann \\"A\\""@EN .\n{twice}'
    path = tmp_path / "people.nt"
    path.write_text(text, encoding="utf-8")
    graph = load_graph(str(path))
    assert graph.name == "people"
    assert graph.entity_names == ('"Ann \\"A\\""@en', "_:b", "http://x/a")
    assert graph.duplicates == {"train": 1, "valid": 0, "test": 0}
    assert [len(graph.index(split)) for split in ("train", "valid", "test")] == [2, 2, 2]
    path.write_text(text + "<http://x/a> knows _:b .\n", encoding="utf-8")
    with pytest.raises(TaskError, match=r"people\.nt, line 6: expected an N-Triples statement"):
        load_graph(str(path))
    for split, line in (("train", "<a> <r> <b> .\n"), ("valid", ""), ("test", "<b> <r> <a> .\n")):
        (tmp_path / f"{split}.nt.gz").write_bytes(gzip.compress(line.encode()))
    assert "1 train, 0 valid, 1 test" in load_graph(str(tmp_path)).summary()
    (tmp_path / "test.tsv").write_text("a\tr\tb\n")
    with pytest.raises(TaskError, match=r"has test\.tsv and test\.nt\.gz; keep one of them"):
        load_graph(str(tmp_path))
    with pytest.raises(TaskError, match=r"does not end in \.tsv, .*, \.nt or \.nt\.gz"):
        load_graph(__file__)

from __future__ import annotations

import gzip
import json
from pathlib import Path

import datasets
import pyarrow.parquet
import pytest

from peirce.errors import TaskError
from peirce_text.reading import read_rows


def test_each_format_gives_the_same_rows(tmp_path: Path) -> None:
    rows = [{"text": 'a "quoted", text', "label": "1"}, {"text": "öther", "label": "0"}]
    files = {
        "rows.tsv": 'text\tlabel\na "quoted", text\t1\nöther\t0\n',
        "rows.csv": 'text,label\n"a ""quoted"", text",1\nöther,0\n',
        "rows.jsonl": "\n".join(json.dumps(row) for row in rows) + "\n\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + content.encode()))
        for path in (tmp_path / name, tmp_path / f"{name}.gz"):
            read = list(read_rows(path, ("text", "label")))
            assert [dict(row.values) for row in read] == rows
            assert [row.where for row in read] == [f"{path}, row 1", f"{path}, row 2"]


def test_a_file_without_a_header_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text('gj04\t1\t\tThe "cat sat.\ngj04\t0\t*\tSat cat.\n')
    rows = list(read_rows(path, header=("source", "label", "star", "sentence")))
    assert [row.text("sentence") for row in rows] == ['The "cat sat.', "Sat cat."]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", b"text,label\n1,2\n1\n", ", row 2.*1 fields.*header has 2"),
        ("x.csv", b"", " is empty"),
        ("x.csv", b"text;label\na;1\n", ": its first line 'text;label' has ';' where commas must stand"),
        ("x.csv", b'a,b\n"1,2\n', ", row 1.*not valid CSV"),
        ("x.tsv", b"text\n\xff\xfe\n", ": not UTF-8"),
        ("x.csv", b"text,labels\nwords,1\n", ", row 1.*unknown column 'label'.*labels"),
        ("x.jsonl", b'{"text": "a", "label": 1}\n{"text": \n', ", row 2.*not JSON"),
        ("x.jsonl", b"[1, 2]\n", ", row 1.*must be a JSON object"),
        ("x.csv.gz", b"no gzip", " cannot be read: not gzipped, as its name says; take .gz off"),
        ("x.csv", b"%PDF-1.7\n\xe2\xe3", ": not UTF-8 text, but a PDF; save its table as CSV"),
        ("x.csv", b"PK\x03\x04\x14\x00\xff", ": not UTF-8 text, but a ZIP archive, such as .xlsx"),
        (
            "x.csv",
            gzip.compress(b"text,label\na,1\n", mtime=0),
            ": not UTF-8 text, but gzipped; let its name end in .gz",
        ),
        ("x.csv", "text,label\na,1\n".encode("utf-16"), ": not UTF-8 text, but UTF-16; save it as UTF-8"),
        ("x.csv", b'"text";"label"\n"a";1\n', """: its first line '"text";"label"' has ';' where commas"""),
        ("x.csv", b'text,label\n"a,1\nb,2\n', ", row 1.*not valid CSV.*a quote that nothing closes"),
        ("x.txt", b"text,label\na,1\n", ": its first line 'text,label' has ',' where tabs must stand"),
        ("x.jsonl", b'{"text": "a", label: 1}', ", row 1: not JSON: .*, at column 15; each line"),
        ("x.jsonl", b'{"text": "a"\n', ", row 1: not JSON: .*, at column 14; each line"),
        ("x.csv.gz", gzip.compress(b"text,label\n" + b"a,1\n" * 999, mtime=0)[:40], " cannot be read"),
        ("x.xlsx", b"", ".*parquet"),
        ("x.parquet", b"PAR1", " cannot be read as Parquet"),
        ("there", b"", "x.tsv; that folder has there"),
    ],
)
def test_an_error_names_the_file_and_the_row(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    asked = "x.tsv" if name == "there" else name
    with pytest.raises(TaskError, match=words if name == "there" else f"{name}{words}"):
        list(read_rows(tmp_path / asked, ("text", "label")))


def test_a_column_must_hold_text(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": 3}\n')
    (row,) = read_rows(path)
    with pytest.raises(TaskError, match=r"row 1: column 'text' holds 3"):
        row.text("text")


def test_classes_of_a_file_that_datasets_wrote_have_their_names(tmp_path: Path) -> None:
    names = datasets.ClassLabel(names=["wet", "dry"])
    features = datasets.Features(
        {"label": names, "all": datasets.List(names), "each": datasets.List(datasets.List(names))}
    )
    columns = {"label": [0, 1, -1], "all": [[0, 1], [], [1]], "each": [[[0]], [[1, 0], []], []]}
    datasets.Dataset.from_dict(columns, features=features).to_parquet(tmp_path / "w.parquet")
    rows = [dict(row.values) for row in read_rows(tmp_path / "w.parquet")]
    assert [(*row.values(),) for row in rows] == [
        ("wet", ["wet", "dry"], [["wet"]]),
        ("dry", [], [["dry", "wet"], []]),
        (-1, ["dry"], []),
    ]
    assert next(read_rows(tmp_path / "w.parquet", only=("label",))).values == {"label": "wet"}
    table = pyarrow.parquet.read_table(tmp_path / "w.parquet")
    infos = (b'{"label": {"_type": "ClassLabel"}}', b"null", b'{"label": {"feature": []}}')
    for odd in (b"no JSON", b"[]", *(b'{"info": {"features": ' + info + b"}}" for info in infos)):
        pyarrow.parquet.write_table(
            table.replace_schema_metadata({"huggingface": odd}), tmp_path / "odd.parquet"
        )
        assert next(read_rows(tmp_path / "odd.parquet")).values["label"] == 0

"""`peirce logic`: the logical relations of texts."""

from __future__ import annotations

import json as jsonlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from attrs import asdict

from peirce.commands import Json, print_json, print_table
from peirce.errors import InputError
from peirce_logic.senses.cli import app as senses_app

if TYPE_CHECKING:
    from peirce_logic.detector import Detector, TextRelations

SCHEMA, SCHEMA_OF_STATS = "peirce.logic/1", "peirce.logic.stats/1"
SCHEMA_OF_AGREEMENT = "peirce.logic.agreement/1"
PIECE = 50_000
"""About how many characters of a file `stats` gives to a process at once."""
_FILE = re.compile(r"\S*(/\S*|\.[A-Za-z]{1,6})")
_CUTS = tuple(map(re.compile, (r"(?=\n\n)", r"(?=\n)", r"[.!?]['\")\]\u2019\u201d]*(?=\s)", r"(?= )")))
"""Where a text may be cut, the best first: at an empty line, at a line, behind a sentence, behind a word."""
app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True
)
app.add_typer(senses_app, name="senses")
ParserName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What finds constituents: spacy, benepar, or a plug-in's parser; or brackets, which reads trees.",
    ),
]
LexiconFile = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The keywords: english, those of the paper; broad, with more of English; or a TOML file of others.",
    ),
]
SensesFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What `peirce logic senses train` wrote: chooses the sense of a keyword with several. Without it the tree "
        "around the keyword does.",
    ),
]
CacheFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keeps what is found; what it has is not parsed again.")
]
Processes = Annotated[int, typer.Option(min=1, help="How many texts are parsed at once.")]


@app.callback()
def logic() -> None:
    """Find the logical relations of texts: keywords, and the spans that they join."""


@app.command()
def detect(
    texts: Annotated[list[str], typer.Argument(metavar="TEXT", help="A text, or a file of one; or several.")],
    parser: ParserName = "spacy",
    lexicon: LexiconFile = "english",
    senses: SensesFile = None,
    cache: CacheFile = None,
    processes: Processes = 1,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print one JSON object a relation.")] = False,
    picture: Annotated[
        str | None, typer.Option("--html", "--png", hidden=True, help="Older names of `peirce look`.")
    ] = None,
    json: Json = False,
) -> None:
    """Find the logical relations of texts, sentence by sentence."""
    from peirce_logic.detection.display import as_object
    from peirce_logic.detector import Detector

    if json and jsonl:
        raise InputError("--json and --jsonl are both given; choose one form of what is printed")
    if picture is not None:
        raise InputError(f"--html and --png were removed; run `peirce look logic TEXT -o {picture}`")
    detector = Detector(parser, lexicon, cache, processes, senses)
    read = [_read_text(each) for each in texts]
    found = _find(detector, [text for text, _ in read], [file for _, file in read])
    shown = [[as_object(relation, each.text) for relation in each.relations] for each in found]
    listed = [
        ({"text": number} if len(found) > 1 else {}) | relation
        for number, items in enumerate(shown)
        for relation in items
    ]
    if jsonl:
        for relation in listed:
            typer.echo(jsonlib.dumps(relation, ensure_ascii=False))
    elif json:
        print_json(SCHEMA, parser=parser, **_counts(found), relations=listed)
    else:
        for each, items in zip(found, shown, strict=True):
            _print(each, items)
    _print_unparsed(found)


@app.command()
def stats(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Files of text, or of trees.")],
    parser: ParserName = "spacy",
    lexicon: LexiconFile = "english",
    senses: SensesFile = None,
    cache: CacheFile = None,
    processes: Processes = 1,
    json: Json = False,
) -> None:
    """Count the relations of files."""
    from collections import Counter

    from peirce_logic.detector import Detector
    from peirce_logic.relations import RELATIONS

    detector = Detector(parser, lexicon, cache, processes, senses)
    texts = [(_read_file(file), str(file)) for file in files]
    if not detector.reads_trees:
        texts = [(part, file) for text, file in texts for part in _split_text(text)]
    found = _find(detector, [text for text, _ in texts], [file for _, file in texts])
    counts = Counter(relation.relation for each in found for relation in each.relations)
    relations = {name: counts[name] for name, _ in RELATIONS}
    if json:
        print_json(SCHEMA_OF_STATS, files=len(files), **_counts(found), relations=relations)
    else:
        for name, count in (*relations.items(), ("sentences", _counts(found)["sentences"])):
            typer.echo(f"{name.replace('_', ' '):20} {count:>8,}")
    _print_unparsed(found)


@app.command()
def agreement(
    parser: ParserName = "spacy",
    lexicon: LexiconFile = "english",
    senses: SensesFile = None,
    sentences: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Annotated sentences, in place of the 200 English ones of the package."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Hold the relations that are found in sentences against those that were annotated in them."""
    from peirce_logic.detection.agreement import Agreement, agreements, read_annotated
    from peirce_logic.detector import Detector

    detector, annotated = Detector(parser, lexicon, senses=senses), read_annotated(sentences)
    found = _find(detector, [each.text for each in annotated], [])
    counts = agreements(annotated, [each.relations for each in found], detector.lexicon)
    counts["all"] = sum(counts.values(), Agreement())
    if json:
        rows = {name: asdict(each) | each.shares for name, each in counts.items()}
        print_json(
            SCHEMA_OF_AGREEMENT, parser=parser, lexicon=lexicon, sentences=len(annotated), relations=rows
        )
        return
    headings = ("relation", "annotated", "found", *counts["all"].shares)
    rows_shown = [
        (
            name.replace("_", " "),
            each.annotated,
            each.found,
            *(f"{share:.2f}" for share in each.shares.values()),
        )
        for name, each in counts.items()
    ]
    print_table(headings, rows_shown)


def _counts(found: Sequence[TextRelations]) -> dict[str, int]:
    return {
        "sentences": sum(each.sentences for each in found), "unparsed": sum(each.unparsed for each in found),
    }  # fmt: skip


def _find(detector: Detector, texts: Sequence[str], files: Sequence[str]) -> list[TextRelations]:
    from rich.console import Console

    return detector.find(texts, Console(stderr=True), files)


def _print(found: TextRelations, relations: Sequence[dict[str, Any]]) -> None:
    for number, (start, end) in enumerate(found.places):
        typer.echo(found.text[start:end])
        for each in relations:
            if each["sentence"] == number:
                typer.echo(f"  {each['relation']}: {each['keyword']}")
                for role in ("alpha", "beta"):
                    if each[role] is not None:
                        typer.echo(f"    {role:5}  {each[role]}")


def _print_unparsed(found: Sequence[TextRelations]) -> None:
    """Say what could not be parsed."""
    if unparsed := (counts := _counts(found))["unparsed"]:
        typer.echo(f"note: {unparsed:,} of {counts['sentences']:,} sentences could not be parsed", err=True)


def _read_text(given: str) -> tuple[str, str]:
    """The text itself, or that of the file of this name; and the file, empty where there is none."""
    try:
        there = given != "" and Path(given).exists()
    except (OSError, ValueError):  # a text is longer than any name
        there = False
    if there or _FILE.fullmatch(given):
        return _read_file(Path(given)), given
    return given, ""


def _read_file(file: Path) -> str:
    """The text of a file, gzipped or not."""
    from peirce.files import read_text

    try:
        return read_text(file)
    except FileNotFoundError:
        raise InputError(f"there is no file {file}; name a file of text, or of trees") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text; save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}; name a file of text") from error


def _split_text(text: str) -> Iterator[str]:
    """A text in parts of at most `PIECE` characters, each cut at the last of the best places."""
    start = 0
    while len(text) - start > PIECE:
        places = ([m.end() for m in cut.finditer(text, start + 1, start + PIECE)] for cut in _CUTS)
        end = next((found[-1] for found in places if found), start + PIECE)
        yield text[start:end]
        start = end
    yield text[start:]

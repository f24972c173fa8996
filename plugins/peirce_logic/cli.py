"""`peirce logic`: the logical relations of texts."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from peirce.commands import Json, as_json
from peirce.errors import InputError

from peirce_logic.senses.cli import app as senses_app

if TYPE_CHECKING:
    from peirce_logic.detector import Detector, Found

SCHEMA, SCHEMA_OF_STATS = "peirce.logic/1", "peirce.logic.stats/1"
PIECE = 50_000
"""About how many characters of a file `stats` gives to a process at once."""
app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True
)
app.add_typer(senses_app, name="senses")
ParserName = Annotated[
    str,
    typer.Option(
        "--parser",
        metavar="NAME",
        help="What finds constituents: spacy, benepar, stanza, link-grammar; or brackets, which reads trees.",
    ),
]
LexiconFile = Annotated[
    Path | None,
    typer.Option("--lexicon", metavar="FILE", help="A TOML file of keywords in place of the English ones."),
]
SensesFile = Annotated[
    Path | None,
    typer.Option(
        "--senses",
        metavar="FILE",
        help="What `peirce logic senses train` wrote: chooses the sense of a keyword with several. Without it the most "
        "frequent one is taken.",
    ),
]
CacheFile = Annotated[
    Path | None,
    typer.Option("--cache", metavar="FILE", help="Keeps what is found; what it has is not parsed again."),
]
Processes = Annotated[int, typer.Option("--processes", min=1, help="How many texts are parsed at once.")]


@app.callback()
def logic() -> None:
    """Find the logical relations of texts: keywords, and the spans that they join."""


@app.command()
def detect(
    texts: Annotated[list[str], typer.Argument(metavar="TEXT", help="A text, or a file of one; or several.")],
    parser: ParserName = "spacy",
    lexicon: LexiconFile = None,
    senses: SensesFile = None,
    cache: CacheFile = None,
    processes: Processes = 1,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print one JSON object a relation.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the text, keywords and spans marked by colour."),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option("--png", metavar="FILE", help="Draw the same as a picture."),
    ] = None,
    json: Json = False,
) -> None:
    """Find the logical relations of texts, sentence by sentence."""
    from peirce.extras import require
    from peirce.files import write_whole

    from peirce_logic.detection.showing import as_html, as_object, as_png
    from peirce_logic.detector import Detector

    if png is not None:
        require("--png", "matplotlib", extra="train")
    if len(texts) > 1 and (html or png):
        raise InputError(f"--html and --png show one text, and {len(texts)} are given; give one")
    detector = Detector(parser, lexicon, cache, processes, senses)
    found = _found(detector, [_text(each) for each in texts])
    first = found[0]
    drawn = None if png is None else as_png(first.relations, first.text)
    if html is not None:
        write_whole(html, as_html(first.relations, first.text))
    if png is not None and drawn is not None:
        write_whole(png, drawn)
    shown: list[list[dict[str, Any]]] = []
    for number, each in enumerate(found):
        which: dict[str, Any] = {"text": number} if len(found) > 1 else {}
        shown.append([which | as_object(relation, each.text) for relation in each.relations])
    if jsonl:
        for relation in (relation for own in shown for relation in own):
            typer.echo(jsonlib.dumps(relation, ensure_ascii=False))
    elif json:
        as_json(
            SCHEMA,
            parser=parser,
            sentences=sum(each.sentences for each in found),
            unparsed=sum(each.unparsed for each in found),
            relations=[relation for own in shown for relation in own],
        )
    else:
        for each, own in zip(found, shown, strict=True):
            _print(each, own)
    _note(detector, found, senses)


@app.command()
def stats(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Files of text, or of trees.")],
    parser: ParserName = "spacy",
    lexicon: LexiconFile = None,
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
    texts = [_text(str(file)) for file in files]
    found = _found(
        detector, texts if detector.reads_trees else [part for text in texts for part in _parts(text)]
    )
    counts = Counter(relation.relation for each in found for relation in each.relations)
    sentences, unparsed = sum(each.sentences for each in found), sum(each.unparsed for each in found)
    if json:
        as_json(
            SCHEMA_OF_STATS,
            files=len(files),
            sentences=sentences,
            unparsed=unparsed,
            relations={name: counts[name] for name, _ in RELATIONS},
        )
    else:
        for name, _ in RELATIONS:
            typer.echo(f"{name.replace('_', ' '):20} {counts[name]:>8,}")
        typer.echo(f"{'sentences':20} {sentences:>8,}")
    _note(detector, found, senses)


def _found(detector: Detector, texts: Sequence[str]) -> list[Found]:
    from rich.console import Console

    console = Console(stderr=True)
    return detector.find(texts, console if console.is_terminal else None)


def _print(found: Found, relations: Sequence[dict[str, Any]]) -> None:
    for number, (start, end) in enumerate(found.places):
        typer.echo(found.text[start:end])
        for each in relations:
            if each["sentence"] == number:
                typer.echo(f"  {each['relation']}: {each['keyword']}")
                for role in ("alpha", "beta"):
                    if each[role] is not None:
                        typer.echo(f"    {role:5}  {each[role]}")


def _note(detector: Detector, found: Sequence[Found], senses: Path | None) -> None:
    """Say what could not be parsed, and which keywords had their most frequent sense for want of another way."""
    if unparsed := sum(each.unparsed for each in found):
        total = sum(each.sentences for each in found)
        typer.echo(f"note: {unparsed:,} of {total:,} sentences could not be parsed", err=True)
    if senses is None:
        words = [relation.keyword.lower() for each in found for relation in each.relations]
        if several := [word for word in dict.fromkeys(words) if len(detector.lexicon.senses(word)) > 1]:
            typer.echo(
                f"note: of the senses of {', '.join(several)} the most frequent is taken; --senses FILE, of "
                "`peirce logic senses train`, goes by the sentence",
                err=True,
            )


def _text(given: str) -> str:
    """The text itself, or that of the file of this name."""
    from peirce.reading import read_text

    try:
        there = Path(given).is_file()
    except (OSError, ValueError):  # a text is longer than any name
        there = False
    if not there and Path(given[:200]).suffix in (".txt", ".mrg", ".tree", ".trees", ".md"):
        raise InputError(f"there is no file {given}; give a text, or a file of one")
    return read_text(given, "text") if there else given


def _parts(text: str) -> Iterator[str]:
    """A text in parts that end where a line does, an empty one where there is any: no sentence goes on behind it."""
    start = 0
    while len(text) - start > PIECE:
        stop = start + PIECE
        end = next((at for mark in ("\n\n", "\n") if (at := text.rfind(mark, start, stop)) > start), stop)
        yield text[start:end]
        start = end
    yield text[start:]

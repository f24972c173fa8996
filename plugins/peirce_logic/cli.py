"""`peirce logic`: the logical relations of texts."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, as_json
from peirce.errors import InputError

from peirce_logic.detection.algorithm import Relation
from peirce_logic.parsers.parser import Parsed

SCHEMA, SCHEMA_OF_STATS = "peirce.logic/1", "peirce.logic.stats/1"
app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True
)
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


@app.callback()
def logic() -> None:
    """Find the logical relations of texts: keywords, and the spans that they join."""


@app.command()
def detect(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A text, or a file of one.")],
    parser: ParserName = "spacy",
    lexicon: LexiconFile = None,
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
    """Find the logical relations of a text, sentence by sentence."""
    from peirce.extras import require
    from peirce.files import write_whole

    from peirce_logic.detection.showing import as_html, as_object, as_png

    if png is not None:
        require("--png", "matplotlib", extra="train")
    parsed, relations = _detected(_text(text), parser, lexicon)
    drawn = None if png is None else as_png(relations, parsed.text)
    if html is not None:
        write_whole(html, as_html(relations, parsed.text))
    if png is not None and drawn is not None:
        write_whole(png, drawn)
    if jsonl:
        for each in relations:
            typer.echo(jsonlib.dumps(as_object(each, parsed.text), ensure_ascii=False))
        return
    if json:
        as_json(
            SCHEMA,
            parser=parser,
            sentences=len(parsed.trees),
            unparsed=parsed.failed,
            relations=[as_object(each, parsed.text) for each in relations],
        )
        return
    for number, tree in enumerate(parsed.trees):
        typer.echo(parsed.text[tree.tokens[0].start : tree.tokens[-1].end])
        for each in relations:
            if each.sentence == number:
                shown = as_object(each, parsed.text)
                typer.echo(f"  {shown['relation']}: {shown['keyword']}")
                for role in ("alpha", "beta"):
                    if shown[role] is not None:
                        typer.echo(f"    {role:5}  {shown[role]}")
    if parsed.failed:
        typer.echo(f"note: {parsed.failed} of {len(parsed.trees)} sentences could not be parsed", err=True)


@app.command()
def stats(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Files of text, or of trees.")],
    parser: ParserName = "spacy",
    lexicon: LexiconFile = None,
    json: Json = False,
) -> None:
    """Count the relations of files."""
    from collections import Counter

    from peirce_logic.relations import RELATIONS

    counts: Counter[str] = Counter()
    sentences = failed = 0
    for file in files:
        parsed, relations = _detected(_text(str(file)), parser, lexicon)
        counts.update(each.relation for each in relations)
        sentences, failed = sentences + len(parsed.trees), failed + parsed.failed
    if json:
        found = {name: counts[name] for name, _ in RELATIONS}
        as_json(SCHEMA_OF_STATS, files=len(files), sentences=sentences, unparsed=failed, relations=found)
        return
    for name, _ in RELATIONS:
        typer.echo(f"{name.replace('_', ' '):20} {counts[name]:>8,}")
    typer.echo(f"{'sentences':20} {sentences:>8,}")
    if failed:
        typer.echo(f"{'not parsed':20} {failed:>8,}")


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


def _detected(text: str, parser: str, lexicon: Path | None) -> tuple[Parsed, list[Relation]]:
    from peirce_logic.detection.algorithm import detect as find
    from peirce_logic.detection.lexicon import read_lexicon
    from peirce_logic.parsers import parser_of

    keywords = read_lexicon(lexicon)
    parsed = parser_of(parser).parse(text)
    return parsed, find(parsed.trees, keywords)

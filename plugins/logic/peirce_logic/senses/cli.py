"""`peirce logic senses`: classifiers that tell the senses of a keyword apart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from attrs import asdict

from peirce.commands import Json, group, print_json, print_table
from peirce.errors import InputError

SCHEMA, SCHEMA_OF_TRAINING = "peirce.logic.senses/1", "peirce.logic.senses.training/1"
app = group("Tell the senses of a keyword apart, such as those of since, as and while.")
Sentences = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Labelled sentences, a JSON object a line with text, keyword, relation and, if the keyword stands there "
        "twice, start. Without it, the 300 English ones of the package.",
    ),
]


@app.callback()
def senses() -> None:
    """A group of commands."""


@app.command()
def train(
    encoder: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The encoder whose vectors are classified: a folder of a model of transformers, or a name on the hub.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The classifiers, a .safetensors file.")
    ],
    sentences: Sentences = None,
    json: Json = False,
) -> None:
    """Train a linear support vector machine for each keyword, on an encoder's vectors of it."""
    from peirce_logic.senses.sentences import read_sentences
    from peirce_logic.senses.training import encode_keywords
    from peirce_logic.senses.training import train as fit
    from peirce_logic.senses.vectors import Vectors

    labelled = read_sentences(sentences)
    found = fit(vectors := Vectors(encoder), encode_keywords(vectors, labelled))
    found.save(output)
    senses = {word: list(each.relations) for word, each in found.classifiers.items()}
    if json:
        print_json(SCHEMA_OF_TRAINING, file=str(output), sentences=len(labelled), senses=senses)
        return
    typer.echo(f"{output}: trained on {len(labelled)} sentences")
    for word, relations in senses.items():
        typer.echo(f"{word}: {', '.join(relations)}")


@app.command()
def evaluate(
    encoder: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Cross-validate classifiers on the vectors of this encoder."),
    ] = None,
    trained: Annotated[
        Path | None,
        typer.Option(
            "--senses",
            metavar="FILE",
            help="In place of it, trained classifiers: hold them against --sentences that they have not seen.",
        ),
    ] = None,
    sentences: Sentences = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the vectors on their first two principal components."),
    ] = None,
    json: Json = False,
) -> None:
    """Say how often the sense of a keyword is found, beside always saying the most frequent one."""
    from peirce.extras import check_picture
    from peirce_logic.senses.classifiers import read_senses
    from peirce_logic.senses.sentences import agreement, read_sentences
    from peirce_logic.senses.training import cross_validate, draw, encode_keywords, score
    from peirce_logic.senses.vectors import Vectors

    if (encoder is None) == (trained is None):
        raise InputError("give one of --encoder NAME, to cross-validate, and --senses FILE, to test it")
    if trained is not None and sentences is None:
        raise InputError(
            "the sentences of the package are those that senses are trained on; give others with --sentences FILE"
        )
    if plot is not None:
        check_picture(plot, "--plot", extra="train")
    labelled = read_sentences(sentences)
    if trained is None:
        encoder = str(encoder)
        given = encode_keywords(Vectors(encoder), labelled)
        scores = cross_validate(given)
    else:
        found, _ = read_senses(trained)
        encoder, given = found.encoder, encode_keywords(found.vectors, labelled)
        if foreign := [word for word in given if word not in found.classifiers]:
            raise InputError(
                f"{trained} has no classifier of {', '.join(foreign)}; train it on such sentences"
            )
        predicted = {word: found.classifiers[word].of(vectors) for word, (vectors, _) in given.items()}
        scores = {word: score(truth, [predicted[word]]) for word, (_, truth) in given.items()}
    if plot is not None:
        draw(given, plot)
    agreed = {word: agreement([each for each in labelled if each.keyword == word]) for word in scores}
    if json:
        keywords = {word: {**asdict(each), "agreement": agreed[word]} for word, each in scores.items()}
        print_json(SCHEMA, encoder=encoder, cross_validated=trained is None, keywords=keywords)
        return
    rows = []
    for word, each in scores.items():
        counts = Counter(given[word][1])
        recalls = ", ".join(f"{name} {share:.2f} of {counts[name]}" for name, share in each.recalls.items())
        spread = f" ± {each.spread:.3f}" if each.spread else ""
        same = "{share:.2f}, kappa {kappa:.2f}".format(**both) if (both := agreed[word]) else ""
        accuracy = f"{each.accuracy:.3f}{spread}"
        rows.append((word, each.sentences, accuracy, f"{each.most_frequent:.2f}", recalls, same))
    headings = "keyword", "sentences", "accuracy", "most frequent", "found of each sense", "readings agree"
    print_table(headings, rows)

"""Commands, pipelines and parsers that print, answer, parse or end as they should not.

Each is a module with one flaw: what the right source has, and what stands there in its place, by the flaw.
"""

from __future__ import annotations

COMMAND = '''
import json
from typing import Annotated

import typer
from peirce.errors import InputError

COMMAND_EXAMPLES = {"NAME": [["Ada"], ["Ada", "--json"]]}


def greet(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who is greeted.")],
    times: Annotated[int, typer.Option(min=1, help="How often.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Greet somebody."""
    if name.startswith("nothing"):
        raise InputError(f"there is nobody called {name}; give a name")
    if as_json:
        typer.echo(json.dumps({"schema": "greet/1", "greetings": [f"hello {name}"] * times}))
        return
    for _ in range(times):
        typer.echo(f"hello {name}")
'''
_BRANCH = "    if as_json:"
_ANY = """app = typer.Typer()


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def greet("""
COMMANDS = {
    "prints_at_import": ("COMMAND_EXAMPLES =", 'print("greet 1.0")\nCOMMAND_EXAMPLES ='),
    "needs_what_is_not_there": ("import json", "import json, no_such_module"),
    "is_a_number": ("def greet(", "greet = 3\n\n\ndef other("),
    "says_nothing_of_times": ('min=1, help="How often."', "min=1"),
    "takes_any_option": ("def greet(", _ANY),
    "talks_before_its_json": (_BRANCH, f'    typer.echo("greeting ...")\n{_BRANCH}'),
    "gives_a_list": ('{"schema": "greet/1", "greetings": [f"hello {name}"] * times}', '["hello"]'),
    "gives_no_number": ('"schema": "greet/1", ', '"share": float("nan"), '),
    "fails_in_the_end": (_BRANCH, f"    if not as_json:\n        raise typer.Exit(3)\n{_BRANCH}"),
    "throws": (_BRANCH, f"    if name == 'Ada':\n        raise KeyError(name)\n{_BRANCH}"),
}

PIPELINE = '''
from peirce.model import Pipeline, Field


class Echoes(Pipeline):
    """Says how many inputs the model has, and the question."""

    question = (Field(name="text", kind="text", meaning="A text."),)
    answer = (Field(name="said", kind="text", meaning="The same."),)

    @classmethod
    def answers(cls, signature, assets, generates):
        return "echo.txt" in assets

    def __init__(self, folder, model):
        self.count = len(model.signature.inputs)

    def example(self):
        return {"text": "yes"}

    def ask(self, question, say):
        say({"said": f"{self.count} {question['text']}"})
'''
PIPELINES = {
    "needs-torch": ("from peirce.model", "import torch\nfrom peirce.model"),
    "talks": ("class Echoes", "print('echo 1.0')\n\n\nclass Echoes"),
    "answers-everything": ('return "echo.txt" in assets', "return True"),
    "has-no-meaning": ('meaning="A text."', 'meaning=""'),
    "asks-twice": ('A text."),)', "A text.\"), Field(name='text', kind='bool', meaning='Whether.'))"),
    "has-no-example": ("def example(self)", "def sample(self)"),
}

PARSER = '''
import re
from itertools import count

from peirce.errors import TaskError
from peirce_logic.detection.trees import Constituent, Token, Tree
from peirce_logic.parsers.parser import Parsed, Parser

MADE = count()


class Halves(Parser):
    """Sentences end at full stops, words at spaces, and each sentence is a first word and the others."""

    name = "NAME"

    def __init__(self, model=None):
        if model is not None:
            raise TaskError(f"the parser has no model {model!r}; leave it out")
        super().__init__(model)

    def parse(self, text):
        return Parsed(text, tuple(map(self.tree, self.sentences(text))))

    def sentences(self, text):
        words = [Token(found[0], found.start(), found.end()) for found in re.finditer(r"\\S+", text)]
        ends = [i + 1 for i, word in enumerate(words) if word.text.endswith(".")]
        return [words[a:b] for a, b in zip([0, *ends], [*ends, len(words)]) if a < b]

    def tree(self, tokens):
        n = len(tokens)
        rest = [Constituent("REST", 1, n, 1)] if n > 2 else []
        words = [Constituent("X", i, i + 1, 2 if rest and i else 1) for i in range(n)]
        return Tree(tokens, [Constituent("S", 0, n, 0), *words[:1], *rest, *words[1:]])
'''
PARSERS = {
    "loses-its-places": ("found.start(), found.end())", "found.start() + 1, found.end() + 1)"),
    "crosses": ("*words[:1], *rest", '*[Constituent("WRONG", 0, n - 1, 1)] * (n > 2), *rest'),
    "tidies": (
        "Parsed(text, tuple(map(self.tree, self",
        "Parsed(' '.join(text.split()), tuple(map(self.tree, self",
    ),
    "counts": ('Constituent("S",', 'Constituent(f"S{next(MADE)}",'),
    "takes-any-model": ("if model is not None:", "if False:"),
    "raises": ("raise TaskError(", "raise KeyError("),
}


KINDS = {
    "commands": (COMMAND, "greet", COMMANDS),
    "pipelines": (PIPELINE, "Echoes", PIPELINES),
    "parsers": (PARSER, "Halves", PARSERS),
}
"""By kind, the right source, what it announces, and the flaws."""


def source(right: str, name: str, flaws: dict[str, tuple[str, str]]) -> str:
    """The module of a flaw, or the right one under any other name."""
    old, new = flaws.get(name, ("", ""))
    assert old in right
    return (right.replace(old, new, 1) if old else right).replace('"NAME"', f'"{name}"', 1)

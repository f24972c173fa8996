"""Pipelines that say what nobody can ask, answer every model, or need torch.

Each is the source of a module with the class `Echoes`, as a server without torch imports it.
"""

from __future__ import annotations

RIGHT = '''
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

FLAWS = {
    "needs-torch": ("from peirce.model", "import torch\nfrom peirce.model"),
    "talks": ("class Echoes", "print('echo 1.0')\n\n\nclass Echoes"),
    "answers-everything": ('return "echo.txt" in assets', "return True"),
    "answers-with-a-file": ('return "echo.txt" in assets', "return [each for each in assets if each]"),
    "has-no-meaning": ('meaning="A text."', 'meaning=""'),
    "asks-twice": ('A text."),)', "A text.\"), Field(name='text', kind='bool', meaning='Whether.'))"),
    "says-a-list": ('kind="text", meaning="The same."', 'kind="list", meaning="The same."'),
    "has-no-example": ("def example(self)", "def sample(self)"),
    "is-no-pipeline": ("class Echoes(Pipeline)", "class Echoes"),
}
"""What the right source has, and what stands there in its place, by the flaw."""


def source(name: str) -> str:
    """The module of a name: one of those above, or the right one."""
    right, wrong = FLAWS.get(name, ("", ""))
    assert right in RIGHT
    return RIGHT.replace(right, wrong, 1) if right else RIGHT

"""Generated text whose masked words can be guessed: who does what to whom follows from the document's topic."""

from __future__ import annotations

import random

_TOPICS = {
    "farm": (("farmer", "shepherd", "miller"), ("feeds", "counts", "leads"), ("cows", "sheep", "geese")),
    "ship": (("captain", "sailor", "cook"), ("mends", "hoists", "stows"), ("sails", "ropes", "barrels")),
    "court": (("judge", "clerk", "lawyer"), ("reads", "signs", "files"), ("letters", "claims", "deeds")),
    "forge": (("smith", "helper", "guest"), ("heats", "strikes", "cools"), ("irons", "blades", "chains")),
}


def documents(count: int, seed: int = 0, sentences: int = 6) -> list[list[str]]:
    """Documents of one topic each, as their sentences."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        people, deeds, things = _TOPICS[draw.choice(sorted(_TOPICS))]
        made.append(
            [
                f"The {draw.choice(people)} {draw.choice(deeds)} the {draw.choice(things)} today."
                for _ in range(sentences)
            ]
        )
    return made


def blocks(made: list[list[str]]) -> str:
    """Documents as a text file has them: a sentence a line, a blank line between documents."""
    return "\n\n".join("\n".join(document) for document in made) + "\n"


RECIPE = """
format = 1
spec = "folnet-base"
batch = 16
vocabulary = 140

[model]
name = "tiny"
regularisation.dropout = 0.0
regularisation.init_std = 0.1
[model.dims]
layers = 1
unary = 32
binary = 8
heads = 2
head_size = 8
[model.positions.0]
clip = 8

[task]
objective = "sop"
length = 24
batch_size = 8

[train]
steps = 160
lr = 2e-2
warmup_ratio = 0.1
schedule = "poly"
device = "cpu"
threads = 1
evaluate_every = 80
monitor = "mlm_loss"
"""
"""A small model that learns them in a few seconds."""

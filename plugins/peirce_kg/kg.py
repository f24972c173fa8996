"""`peirce kg`: what is done with knowledge graphs and queries. Each command is a function of a module of its own."""

from __future__ import annotations

from peirce.commands import group, moved

from peirce_kg.embedding.commands import embed
from peirce_kg.engine.commands import answer
from peirce_kg.exchange.commands import convert
from peirce_kg.graphs.commands import info
from peirce_kg.queries.commands import draw, show, types
from peirce_kg.sampling.commands import sample

app = group("Look at knowledge graphs and at first-order queries over them.")
for command in (show, draw, types, info, answer, sample, embed, convert):
    app.command()(command)
moved(app, "attention", "peirce kg attention", "peirce look MODEL QUERY -o FILE --beside MODEL")

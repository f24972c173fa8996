"""`peirce kg`: what is done with knowledge graphs and queries. Each command is a function of a module of its own."""

from __future__ import annotations

from peirce.commands import group, moved

from peirce_kg.embedding.commands import embed
from peirce_queries.engine.commands import answer
from peirce_queries.exchange.commands import convert
from peirce_queries.graphs.commands import info
from peirce_queries.languages.commands import draw, show, types
from peirce_queries.sampling.commands import sample

app = group("Look at knowledge graphs and at first-order queries over them.")
for command in (show, draw, types, info, answer, sample, embed, convert):
    app.command()(command)
moved(app, "attention", "peirce kg attention", "peirce look MODEL QUERY -o FILE --beside MODEL")

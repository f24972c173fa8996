"""`peirce kg`: what is done with knowledge graphs and queries. Each command is a function of a module of its own."""

from __future__ import annotations

import typer

from peirce_kg.attention import commands as attention_command
from peirce_kg.embedding import commands as embedding_command
from peirce_kg.engine import commands as engine_commands
from peirce_kg.graphs import commands as graph_commands
from peirce_kg.queries import commands as query_commands
from peirce_kg.sampling import commands as sampling_commands

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True
)


@app.callback()
def kg() -> None:
    """Look at knowledge graphs and at first-order queries over them."""


app.command()(query_commands.show)
app.command()(query_commands.draw)
app.command()(query_commands.types)
app.command()(graph_commands.info)
app.command()(engine_commands.answer)
app.command()(sampling_commands.sample)
app.command()(embedding_command.embed)
app.command()(attention_command.attention)

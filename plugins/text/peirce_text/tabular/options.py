"""Options that `peirce predict` and `peirce explain` both have."""

from __future__ import annotations

from typing import Annotated

import typer

Text = Annotated[
    str | None, typer.Option("--text", metavar="NAME", help="The column of the texts, or of the words.")
]
Second = Annotated[
    str | None, typer.Option("--second", metavar="NAME", help="The column of the second texts.")
]
Label = Annotated[
    str | None, typer.Option("--label", metavar="NAME", help="The column of right classes or tags.")
]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, help="Rows computed at once.")]
Device = Annotated[str | None, typer.Option("--device", help="Where a saved model computes, such as cuda:0.")]

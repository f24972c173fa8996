"""`peirce push`: a saved model to Hugging Face's hub, by `huggingface_hub`'s own uploader."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, print_json, print_table
from peirce.errors import TaskError
from peirce.model import CARD, PROVENANCE, saved_files

SCHEMA = "peirce.push/1"


def push(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a saved model.")],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The repository on the hub, such as owner/model.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would go up; needs no network.")
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    json: Json = False,
) -> None:
    """Upload a saved model to Hugging Face's hub: its files, checked against their digests, and its card.

    What else lies in its folder stays here. The hub's own settings, such as HF_TOKEN, hold.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except ValueError as error:
        raise TaskError(
            f"{name!r} does not name a repository of the hub, such as owner/model: {error}"
        ) from error
    with saved_files(model) as files:
        paths = {each: files.path(each) for each in files.sizes()}
        paths |= {each: model / each for each in (PROVENANCE, CARD) if (model / each).is_file()}
        sizes = {each: path.stat().st_size for each, path in paths.items()}
        url = None
        if not dry_run:
            api = HfApi(library_name="peirce")
            added = [CommitOperationAdd(each, str(path)) for each, path in paths.items()]
            try:
                api.create_repo(name, private=private or None, exist_ok=True)
                url = api.create_commit(
                    name, added, commit_message=f"Upload {model.resolve().name}"
                ).commit_url
            except Exception as error:  # whatever the library, its settings and its network raise
                cause = str(error).partition("\n")[0].rstrip(".")
                raise TaskError(
                    f"{model} cannot be uploaded to {name}: {cause}; log in with `hf auth login`, and see what would "
                    "go up with --dry-run"
                ) from error
    if json:
        print_json(SCHEMA, model=str(model), repository=name, url=url, files=sizes)
        return
    rows = [(each, f"{size:,}") for each, size in sizes.items()]
    print_table(("file", "bytes"), [*rows, ("all", f"{sum(sizes.values()):,}")], f"{model} to {name}")
    typer.echo("nothing was uploaded: --dry-run" if url is None else url)

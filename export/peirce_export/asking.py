"""A whole question to an exported file, by a pipeline that a plug-in brings: `peirce run FILE --ask FIELD=VALUE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from peirce.compose import Session
from peirce.errors import InputError, ModelFileError, unknown
from peirce.files import unicode_text
from peirce.model import PROVENANCE, WEIGHTS, Field, Pipeline, saved_files
from peirce.registry import pipelines_for

from peirce_export.metadata import step_of

_READ: Mapping[str, Callable[[str], Any]] = {
    "text": str,
    "int64": int,
    "float": float,
    "bool": lambda text: {"true": True, "false": False}[text],
}


def asked(file: Path, session: Session, given: Sequence[str]) -> list[Mapping[str, Any]]:
    """The answers to a question.

    Args:
        file: an exported file, in the folder of its saved model.
        session: that runs it.
        given: the question, `FIELD=VALUE` each; a field that is a list stands once for each of its values.

    Returns:
        One, or the pieces of one that comes in pieces.

    Raises:
        ModelFileError: no saved model lies beside the file, or none of the pipelines fits it.
        InputError: the question has fields that no pipeline of this model has, or lacks one.
    """
    folder = file.parent
    if not (folder / PROVENANCE).is_file():
        raise ModelFileError(
            f"{folder} holds no saved model, whose tokenizer and settings a question needs; export into its folder"
        )
    with saved_files(folder, without=(WEIGHTS,)) as files:
        assets = files.assets
    kinds = pipelines_for(session.signature, assets, step_of(file).is_file())
    if not kinds:
        if pipelines_for(session.signature, assets, True):
            raise ModelFileError(
                f"{file} was exported without the step that writes an answer token by token; export it again with "
                "--generate"
            )
        raise ModelFileError(
            f"nothing that is installed turns questions into inputs of {file}; give arrays with --inputs"
        )
    names = [pair.partition("=")[0] for pair in given]
    fits = [kind for kind in kinds.values() if set(names) <= {each.name for each in kind.question}]
    if not fits:
        known = {each.name for kind in kinds.values() for each in kind.question}
        wrong = next((name for name in names if name not in known), names[0])
        raise InputError(f"--ask: {unknown('field', wrong, sorted(known))}")
    said: list[Mapping[str, Any]] = []
    question = _question(fits[0], given)
    fits[0](folder, session).ask(question, said.append)
    return said


def _question(kind: type[Pipeline], given: Sequence[str]) -> dict[str, Any]:
    fields = {each.name: each for each in kind.question}
    found: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InputError(f"--ask {pair}: give a field and its value, such as --ask text='It rains.'")
        value = _value(fields[name], unicode_text(text, f"--ask {name}"))
        if fields[name].many:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise InputError(f"--ask {name} is given twice, and is no list")
        else:
            found[name] = value
    missing = [each.name for each in fields.values() if each.required and each.name not in found]
    if missing:
        raise InputError(f"the question lacks {', '.join(missing)}; add --ask {missing[0]}=...")
    return found


def _value(field: Field, text: str) -> Any:
    try:
        return _READ[field.kind](text)
    except (ValueError, KeyError):
        raise InputError(f"--ask {field.name}: {text!r} is no {field.kind}") from None

"""Whole questions to an exported file, through the pipeline of a plug-in: `peirce run FILE --ask FIELD=VALUE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from peirce.errors import InputError, ModelFileError, unknown
from peirce.model import PROVENANCE, WEIGHTS, saved_files
from peirce_export.metadata import step_of
from peirce_export.pipelines import Field, inputs_without_a_field, pipelines_for
from peirce_export.session import Session

_READ: Mapping[str, Callable[[str], Any]] = {
    "text": str,
    "int64": int,
    "float": float,
    "bool": lambda text: {"true": True, "false": False}[text],
}


def answer_question(file: Path, session: Session, given: Sequence[str]) -> Mapping[str, Any]:
    """The answer to a question, the last piece of one that comes in pieces.

    Raises:
        ModelFileError: no saved model lies beside the file, or none of the pipelines fits it.
        InputError: the question has fields that no pipeline of this model has, or lacks one.
    """
    for pair in given:
        if "=" not in pair:
            raise InputError(f"--ask {pair}: give a field and its value, such as --ask text='It rains.'")
    folder = file.parent
    if not (folder / PROVENANCE).is_file():
        raise ModelFileError(
            f"{file}: no saved model lies beside it, whose tokenizer and settings a question needs; export into its "
            "folder"
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
        if unasked := inputs_without_a_field(session.signature, assets, True):
            raise ModelFileError(
                f"{file} needs {', '.join(unasked)}, for which a question has no field; give arrays with --inputs"
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
    fields = {each.name: each for each in fits[0].question}
    values: dict[str, list[Any]] = {}
    for pair in given:
        name, _, text = pair.partition("=")
        values.setdefault(name, []).append(_value(fields[name], text))
    answers: list[Mapping[str, Any]] = []
    fits[0](folder, session).ask(build_question(fits[0].question, values), answers.append)
    return answers[-1]


def build_question(fields: Sequence[Field], given: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """A question as a pipeline takes it.

    Args:
        fields: what the pipeline asks for.
        given: the values of each, by name.

    Raises:
        InputError: one is missing, or has no value or too many.
    """
    missing = [each for each in fields if each.required and each.name not in given]
    if missing:
        names = ", ".join(each.name for each in missing)
        raise InputError(f"the question lacks {names}; give {missing[0].name}. {missing[0].meaning}".strip())
    found: dict[str, Any] = {}
    for each in fields:
        values = given.get(each.name)
        if values is not None and not each.many and len(values) != 1:
            have = (
                f"{len(values):,} values; give one, and ask once for each" if values else "no value; give one"
            )
            raise InputError(f"input {each.name!r} has {have}")
        if values is not None:
            found[each.name] = list(values) if each.many else values[0]
    return found


def _value(field: Field, text: str) -> Any:
    try:
        return _READ[field.kind](text)
    except (ValueError, KeyError):
        raise InputError(f"--ask {field.name}: {text!r} is not of the kind {field.kind}") from None

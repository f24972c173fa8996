"""Files of sentences, a JSON object a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from peirce.errors import InputError
from peirce.files import parse_json, read_text

T = TypeVar("T")


def read_json_lines(file: Path, read: Callable[[Any], T], form: str) -> list[T]:
    """What each line of a file holds.

    Args:
        file: JSON lines; empty ones are left out.
        read: what an object stands for; it may raise `ValueError`, `LookupError`, `TypeError` or `AttributeError`.
        form: how a line looks, for errors.

    Raises:
        InputError: the file cannot be read, it has no lines, or a line is not of the form.
    """
    try:
        lines = read_text(file).splitlines()
    except (OSError, ValueError) as error:
        raise InputError(
            f"sentences {file} cannot be read: {error}; it holds a JSON object a line"
        ) from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                found.append(read(parse_json(line)))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(f"{file}, line {number}, is not of the form ({error}); write {form}") from error
    if not found:
        raise InputError(f"{file} holds no sentences; write a line for each, {form}")
    return found

"""What the docstrings of parts and options say, for listings, schemas and the documentation."""

from __future__ import annotations

import inspect
import re


def arguments(cls: type) -> dict[str, str]:
    """What the `Args:` section of a class's own docstring says, by argument, each on one line."""
    text = inspect.cleandoc(cls.__doc__ or "")
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)*)", text, re.MULTILINE)
    found = re.finditer(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section[1] if section else "", re.MULTILINE)
    return {match[1]: " ".join(match[2].split()) for match in found}


def first_line(cls: type) -> str:
    """The first line of a class's own docstring; empty without one, where `inspect` would give a base class's."""
    return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]

"""Keeps formulas in docstrings from being read as links: in `u[h](x)`, `[h](x)` has the form of one."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_FORMULA = re.compile(r"(?<=\w)\[([^\]\n]*)\](?=\()")


class Formulas(Extension):
    """Escapes the brackets of formulas outside of code."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """As griffe calls it for each object."""
        if obj.docstring is not None:
            pieces = obj.docstring.value.split("`")
            pieces[::2] = [_FORMULA.sub(r"\\[\1\\]", piece) for piece in pieces[::2]]
            obj.docstring.value = "`".join(pieces)

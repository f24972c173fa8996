"""Pictures that matplotlib draws, as files: the same bytes for the same picture, and text that stays text."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peirce.extras import check_picture
from peirce.files import write_whole

from peirce_kg.queries.layout import legible


def write_picture(path: Path, figure: Callable[[], Any], title: str = "") -> None:
    """Write a picture whole or not at all; the file's ending says its format.

    Args:
        path: a file that ends in one of `peirce.extras.PICTURES`.
        figure: makes the matplotlib figure; called once it is known that it can be written.
        title: what the file's metadata say of it.

    Raises:
        TaskError: as `check_picture`.
    """
    check_picture(path, extra="kg")
    from matplotlib import rc_context

    form, picture = path.suffix.lower()[1:], io.BytesIO()
    # Text stays text, so that it can be searched; without a date, one figure gives one file.
    with rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure().savefig(picture, format=form, dpi=150, metadata={"Title": legible(title), **dates})
    write_whole(path, picture.getvalue())

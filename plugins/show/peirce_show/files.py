"""Pictures as files: SVG, one HTML page without network, and PNG without a program of the system."""

from __future__ import annotations

from pathlib import Path

from peirce.errors import TaskError
from peirce.files import write_whole
from peirce_show.svg import THEME

FORMATS = (".svg", ".html", ".png")


def check_format(path: Path, formats: tuple[str, ...] = FORMATS) -> None:
    """Refuse a file that no picture can be written to, before anything is computed for it.

    Args:
        path: where the picture would go.
        formats: the suffixes that the picture can have.

    Raises:
        TaskError: the suffix is another, or the folder does not exist.
    """
    if path.suffix.lower() not in formats:
        raise TaskError(f"{path} has no suffix of a picture; let it end in {', '.join(formats)}")
    if not path.parent.is_dir():
        raise TaskError(f"folder {path.parent} does not exist; create it, or draw elsewhere")


def save(path: Path, svg: str, html: str | None = None) -> None:
    """Write a picture in the format of the file's suffix; `html` is its page, where it has one.

    Raises:
        WriteError: the disk takes no more.
    """
    suffix = path.suffix.lower()
    text = svg if suffix == ".svg" else html
    assert suffix == ".png" or text is not None, "check_format allows no other suffix"
    content = png(svg) if suffix == ".png" else (text or "").encode()
    write_whole(path, content)


def png(svg: str, zoom: float = 2.0) -> bytes:
    """A picture as PNG on white paper, with the same bytes on every machine: the font is matplotlib's.

    Args:
        svg: the picture, without text in other fonts.
        zoom: pixels for each of the SVG's; twice as many make 280 dots an inch of a paper.
    """
    import matplotlib
    import resvg_py

    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return resvg_py.svg_to_bytes(
        svg_string=svg,
        background=THEME["paper"][0],
        zoom=zoom,
        skip_system_fonts=True,
        font_files=[str(fonts / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")],
        font_family="DejaVu Sans",
        sans_serif_family="DejaVu Sans",
    )

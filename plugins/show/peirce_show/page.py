"""Pictures as files: SVG, one HTML page without network, and PNG without a program of the system."""

from __future__ import annotations

import json
from pathlib import Path

from peirce.errors import TaskError
from peirce.files import finite, write_whole

from peirce_show.svg import FONT, THEME, Markup, element

FORMATS = (".svg", ".html", ".png")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"
_STYLE = f"""
:root {{ color-scheme: light dark; {" ".join(f"--{role}: light-dark({a}, {b});" for role, (a, b) in THEME.items())} }}
body {{ margin: 0 auto; padding: 1.5rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 {FONT}; }}
h1 {{ font-size: 1.4rem; margin: 0 0 1rem; }}
svg {{ max-width: 100%; height: auto; }}
button, select, input {{ font: inherit; color: inherit; accent-color: var(--unary); }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ text-align: left; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid var(--line); }}
"""


def page(title: str, *content: Markup, style: str = "", script: str = "", data: object = None) -> str:
    """One HTML page that needs no network, and is forbidden to ask for any.

    Args:
        title: its title and first heading.
        content: what follows the heading.
        style: rules beside the page's own, which name the theme's colours `var(--unary)` and so on.
        script: JavaScript, run when the page is there.
        data: what the script reads, as `JSON.parse(document.getElementById("data").textContent)`.
    """
    held = json.dumps(finite(data), ensure_ascii=False).replace("<", "\\u003c")
    head = element(
        "head",
        Markup('<meta charset="utf-8"/>'),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(_STYLE + style)),
    )
    main = element("main", element("h1", title), *content)
    scripts = []
    if data is not None:
        scripts.append(element("script", Markup(held), type="application/json", id="data"))
    if script:
        scripts.append(element("script", Markup(script)))
    return "<!doctype html>\n" + element("html", head, element("body", main, *scripts), lang="en") + "\n"


def check_target(path: Path, feature: str, formats: tuple[str, ...] = FORMATS) -> None:
    """Refuse a file that no picture can be written to, before anything is computed for it.

    Args:
        path: where the picture would go.
        feature: what draws it, as `peirce.extras.require` names it.
        formats: the endings that there may be.

    Raises:
        TaskError: it ends otherwise, its folder does not exist, or a PNG needs what is not installed.
    """
    if path.suffix.lower() not in formats:
        raise TaskError(f"{path} names no format of pictures; let it end in {', '.join(formats)}")
    if not path.parent.is_dir():
        raise TaskError(f"folder {path.parent} does not exist; create it, or draw elsewhere")


def save(path: Path, svg: str, html: str | None = None) -> None:
    """Write a picture in the format of the file's ending; `html` is the page, where the picture has one.

    Raises:
        WriteError: the disk takes no more.
    """
    suffix = path.suffix.lower()
    text = svg if suffix == ".svg" else html
    assert suffix == ".png" or text is not None, "check_target allows no other ending"
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

"""SVG as text: elements with what they hold escaped, a theme for light and dark, and how wide words are.

A colour is a role of `THEME`. It stands in the attribute, where papers and converters find the light one, and a style
sheet in the picture replaces it where a reader prefers dark.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from html import escape
from itertools import accumulate

from peirce.errors import escape_controls

THEME = {
    "paper": ("#ffffff", "#14171a"),
    "panel": ("#f3f5f7", "#1f242a"),
    "ink": ("#1b1f24", "#e8eaed"),
    "muted": ("#57606a", "#9da7b1"),
    "line": ("#8c959f", "#6e7781"),
    "unary": ("#0b5cad", "#79b8f7"),
    "unary-soft": ("#dcebfa", "#173350"),
    "binary": ("#a04a06", "#f2a65a"),
    "binary-soft": ("#fdebd8", "#43290d"),
    "place": ("#17734a", "#63cf9a"),
    "place-soft": ("#dff3e7", "#12382a"),
    "head": ("#6b3fa0", "#c3a3f3"),
    "head-soft": ("#eee6f8", "#312347"),
    "added": ("#1a7f37", "#56d364"),
    "gone": ("#c0262d", "#ff8078"),
    "changed": ("#8a5d00", "#e3b341"),
}
"""By role the light colour and the dark one. `unary`, `binary`, `place` and `head` are what parts work on; `-soft` is
what their boxes are filled with. What has a degree, such as an attention weight, is one role with `fill_opacity`."""
SMALL = 6.0
"""The size of the smallest letters, in points of a paper."""
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"

_WIDTHS = {
    0.29: "'ijlIJ ,./:;\\|",
    0.39: "f-()[]t!r·",
    0.53: '"*_`sz?c',
    0.60: "LFkvxyPTYaoe",
    0.64: "ESbdghnpqu$0123456789{}",
    0.70: "KAVBRXZCUHN",
    0.80: "DG&OQw",
    1.00: "#+<=>^~M%mW@×",
}
"""Of DejaVu Sans, which is wider than what browsers take for it: what fits so fits everywhere."""
_WIDTH = {letter: width for width, letters in _WIDTHS.items() for letter in letters}


class Markup(str):
    """Text that is markup already, and goes into an element as it is."""


def element(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element, such as `element("rect", x=1, y=2.5, fill="unary-soft", stroke="unary")`.

    Args:
        name: the element's name.
        content: what it holds: `Markup` as it is, anything else as text, None not at all.
        attributes: `_` stands for `-`, and one at the end is dropped, as in `class_`; None leaves an attribute out. A
            `fill` or `stroke` that is a role of `THEME` is that colour.
    """
    written: dict[str, object] = {}
    roles = []
    for key, value in attributes.items():
        if key in ("fill", "stroke") and value in THEME:
            roles.append(f"{key[0]}-{value}")
            value = THEME[str(value)][0]
        if value is not None:
            written[key.rstrip("_").replace("_", "-")] = value
    if roles:
        written["class"] = " ".join(filter(None, (str(written.get("class", "")), *roles)))
    head = "".join(f' {key}="{escape(_plain(value))}"' for key, value in written.items())
    inner = "".join(
        each if isinstance(each, Markup) else escape(escape_controls(each), quote=False)
        for each in content
        if each is not None
    )
    return Markup(f"<{name}{head}>{inner}</{name}>" if content else f"<{name}{head}/>")


def _plain(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape_controls(value)


def join_markup(parts: Iterable[str]) -> Markup:
    """Several pieces of markup, one after the other."""
    return Markup("".join(parts))


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is at most, in the unit of its size."""
    return sum(_WIDTH.get(letter, 0.84) for letter in text) * size * (1.12 if bold else 1)


def text_of(
    text: str,
    x: float,
    y: float,
    *,
    size: float = SMALL,
    fill: str = "ink",
    bold: bool = False,
    anchor: str | None = None,
    room: float | None = None,
    **more: object,
) -> Markup:
    """A text at a place, in a colour of the theme, and cut to the room that there is for it."""
    text = text if room is None else truncate(text, size, room, bold=bold)
    weight = "bold" if bold else None
    look = {"font_size": size, "fill": fill, "font_weight": weight, "text_anchor": anchor}
    return element("text", text, x=x, y=y, **look, **more)


def truncate(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """The text, cut with an ellipsis if it is wider than `room`."""
    widths = list(accumulate(text_width(letter, size, bold=bold) for letter in text))
    if not widths or widths[-1] <= room:
        return text
    return f"{text[: bisect_right(widths, room - text_width('…', size, bold=bold))].rstrip()}…"


def picture(
    *content: object,
    width: float,
    height: float,
    title: str,
    description: str,
    name: str,
    role: str = "img",
) -> Markup:
    """A whole SVG picture, with what screen readers say of it and its colours for dark mode.

    Args:
        content: its elements.
        width, height: its size in points of a paper, of which a column has about 245; it is shown twice as large.
        title: what it is, in a few words.
        description: what there is to see, in sentences.
        name: an id that no other picture of the same page has.
        role: `group` for one with buttons, which readers could not reach in an image.
    """
    drawn = join_markup(map(str, content))
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        element("style", Markup(f"@media (prefers-color-scheme: dark){{{dark_rules(drawn)}}}")),
        drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_plain(float(width))} {_plain(float(height))}",
        width=_plain(2.0 * width),
        height=_plain(2.0 * height),
        role=role,
        aria_labelledby=f"{name}-title {name}-desc",
        font_family=FONT,
    )


def dark_rules(markup: str) -> str:
    """The rules that give the colours which some markup uses their dark ones."""
    used = {name for names in re.findall('class="([a-z -]*)"', markup) for name in names.split()}
    colours = {
        f"{of[0]}-{role}": f"{of}:{dark}" for role, (_, dark) in THEME.items() for of in ("fill", "stroke")
    }
    return "".join(f".{name}{{{colours[name]}}}" for name in sorted(used & colours.keys()))

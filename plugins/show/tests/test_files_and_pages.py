"""What pictures and pages are written with: escaping, colours for light and dark, files of each format."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from peirce.errors import TaskError
from peirce_show.files import check_format, png, save
from peirce_show.pages import page
from peirce_show.svg import THEME, element, picture, text_of, text_width, truncate


def test_elements_escape_what_they_hold() -> None:
    assert element("text", "a<b & \x1b", x=1.50, font_size=None, class_='"q"') == (
        '<text x="1.5" class="&quot;q&quot;">a&lt;b &amp; \\u001b</text>'
    )
    inner = element("tspan", "x", fill="unary")
    assert element("text", inner, None, "<") == f"<text>{inner}&lt;</text>"


def test_colours_are_roles_in_light_and_dark() -> None:
    drawn = picture(
        text_of("u", 1, 9, fill="unary"), width=20, height=10, title="t", description="d", name="n"
    )
    light, dark = THEME["unary"]
    assert f'fill="{light}"' in drawn
    assert f".f-unary{{fill:{dark}}}" in drawn
    assert THEME["binary"][1] not in drawn


def test_a_text_is_cut_to_its_room() -> None:
    assert truncate("short", 6, 100) == "short"
    shown = truncate("a text that is far too long", 6, 40)
    assert shown.endswith("…")
    assert text_width(shown, 6) <= 40


def test_a_page_holds_data_that_cannot_end_its_script() -> None:
    html = page("a<b", script="1;", data={"text": "</script>", "none": float("nan")})
    assert "<title>a&lt;b</title>" in html
    assert '{"text": "\\u003c/script>", "none": null}' in html
    assert html.count("</script>") == 2
    assert "wasm" not in html
    assert "'wasm-unsafe-eval' blob:; connect-src blob:" in unescape(page("a", files={"model": "AA=="}))


def test_files_of_each_format(tmp_path: Path) -> None:
    drawn = picture(text_of("u", 1, 9), width=20, height=10, title="t", description="d", name="n")
    save(tmp_path / "a.svg", drawn)
    assert (tmp_path / "a.svg").read_text() == drawn
    save(tmp_path / "a.html", drawn, page("t"))
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert png(drawn) == png(drawn)
    with pytest.raises(TaskError, match=r"let it end in \.svg, \.html, \.png"):
        check_format(tmp_path / "a.pdf")

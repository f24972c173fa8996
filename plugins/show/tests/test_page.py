"""What pictures and pages are written with: escaping, colours for light and dark, files of each format."""

from __future__ import annotations

from pathlib import Path

import pytest
from peirce.errors import TaskError
from peirce_show.page import check_target, page, png, save
from peirce_show.svg import THEME, cut, element, picture, text_of, text_width


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
    assert cut("short", 6, 100) == "short"
    shown = cut("a text that is far too long", 6, 40)
    assert shown.endswith("…")
    assert text_width(shown, 6) <= 40


def test_a_page_holds_data_that_cannot_end_its_script() -> None:
    made = page("a<b", style="", script="1;", data={"text": "</script>", "none": float("nan")})
    assert "<title>a&lt;b</title>" in made
    assert '{"text": "\\u003c/script>", "none": null}' in made
    assert made.count("</script>") == 2


def test_files_of_each_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = picture(text_of("u", 1, 9), width=20, height=10, title="t", description="d", name="n")
    save(tmp_path / "a.svg", drawn)
    assert (tmp_path / "a.svg").read_text() == drawn
    save(tmp_path / "a.html", drawn, page("t"))
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert png(drawn) == png(drawn)
    monkeypatch.setattr("peirce.extras.find_spec", lambda name: None)
    with pytest.raises(TaskError, match=r"pip install 'peirce\[pictures\]'` or write .svg"):
        check_target(tmp_path / "a.png", "a picture")

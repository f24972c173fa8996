"""Asks the page that answers, from the disk and without any network, and holds its numbers to those of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import asking
import numpy as np
from playwright.sync_api import Browser, Page

QUESTIONS = (
    (asking.FACTS, asking.PAIR),
    ("x TPP y; y NTPPI z\nz EQ w, y DC v", ("w", "v")),
    ("p NTPP q, q PO r, p TPP s, s NTPP r", ("r", "p")),
)
TOLERANCE = 1e-4
SCORES = """() => [...document.querySelectorAll('#scores tr:has(data)')].map(
  (row) => [row.cells[0].textContent, Number(row.querySelector('data').value)])"""


def asked(
    browser: Browser, build: Path, width: int, scheme: Literal["light", "dark"], contrast: str
) -> Iterator[str]:
    """What is wrong with the page at one width, in one scheme of colours; `contrast` is a script that lists it."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page, said, beyond = context.new_page(), list[str](), list[str]()
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: beyond.append(request.url))
    page.goto((build / "site" / asking.PAGE).resolve().as_uri())
    page.locator("#found").wait_for()
    for facts, pair in QUESTIONS:
        page.fill("#facts", facts)
        page.press("#facts", "Enter")
        for name, value in zip(("one", "other"), pair, strict=True):
            page.select_option(f"#{name}", value)
        yield from _different(page, facts, pair, build)
    page.locator("#pairs button").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    if (now := (page.input_value("#one"), page.input_value("#other"))) != ("p", "q"):
        yield f"the second cell asks for {now}, not for p and q"
    page.add_script_tag(path=build / "node_modules" / "axe-core" / "axe.min.js")
    yield from page.evaluate(contrast)
    if (wide := page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
        yield f"scrolls sideways by {wide} px"
    page.fill("#facts", "p NTTP q")
    page.press("#facts", "Enter")
    if "NTTP is no relation" not in page.inner_text("#wrong"):
        yield f"a wrong relation is told so: {page.inner_text('#wrong')!r}"
    yield from (f"console: {text}" for text in said)
    yield from (f"asks {url}" for url in beyond if not url.startswith(("file:", "blob:", "data:")))
    context.close()


def _different(page: Page, facts: str, pair: tuple[str, str], build: Path) -> Iterator[str]:
    """Where the scores, or the weights of attention of the last head, are not those of ONNX Runtime."""
    scores, nodes, outputs = asking.computed(build, facts, pair)
    shown = dict(page.evaluate(SCORES))
    if shown.keys() != scores.keys() or any(abs(shown[name] - scores[name]) > TOLERANCE for name in scores):
        yield f"{facts}, {pair}: the page says {shown}, ONNX Runtime {scores}"
    for of in ("trans kernel", "join weights"):
        page.select_option("#operator", of)
        page.select_option("#head", "2")
        weights = page.eval_on_selector_all("#weights data", "all => all.map((each) => Number(each.value))")
        wanted = outputs[f"attention_{page.input_value('#round')}_{of.replace(' ', '_')}"][0, :, :, 1]
        if np.abs(np.reshape(weights, (nodes, nodes)) - wanted).max() > TOLERANCE:
            yield f"{facts}: the page attends by {weights}, ONNX Runtime by {wanted.tolist()}"

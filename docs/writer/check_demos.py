"""Asks the pages that answer, from the disk and without any network, and holds their numbers to ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import demos
import numpy as np
from playwright.sync_api import Browser, Page

PROBLEMS = (
    (demos.FACTS, demos.PAIR),
    ("x TPP y; y NTPPI z\nz EQ w, y DC v", ("w", "v")),
    ("p NTPP q, q PO r, p TPP s, s NTPP r", ("r", "p")),
)
QUERIES = (
    demos.QUERY,
    '(isa(e1,organism) & causes(e1,f)) | !(treats("antibiotic", f) | isa(f,e2))',
    "measures(e1,f1)&part_of('cell',e1)",
)
TOLERANCE = 1e-4
LARGEST = 8_000_000
"""The bytes of a page, most of which are ONNX Runtime: what a laptop reads and compiles in a second or two."""
SCORES = """() => [...document.querySelectorAll('#scores tr:has(data)')].map(
  (row) => [row.cells[0].textContent, Number(row.querySelector('data').value)])"""


def demo_problems(
    browser: Browser, build: Path, width: int, scheme: Literal["light", "dark"], contrast: str
) -> Iterator[str]:
    """What is wrong with the pages at one width, in one scheme of colours; `contrast` is a script that lists it."""
    for path, ask in ((demos.FACTS_PAGE, _facts), (demos.QUERY_PAGE, _queries)):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        for text in _page_problems(context.new_page(), build, path, ask, contrast):
            yield f"{path.parent.as_posix()}: {text}"
        context.close()


def _page_problems(
    page: Page, build: Path, path: Path, ask: Callable[[Page, Path], Iterator[str]], contrast: str
) -> Iterator[str]:
    if (size := (build / "site" / path).stat().st_size) > LARGEST:
        yield f"has {size:,} bytes"
    errors, requests = list[str](), list[str]()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((build / "site" / path).resolve().as_uri())
    page.locator("#found").wait_for()
    if page.locator('main a[href="../../../index.html"]').count() != 1:
        yield "has no way back"
    yield from ask(page, build)
    page.add_script_tag(path=build / "node_modules" / "axe-core" / "axe.min.js")
    yield from page.evaluate(contrast)
    if (wide := page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
        yield f"scrolls sideways by {wide} px"
    yield from (f"console: {text}" for text in errors)
    yield from (f"asks {url}" for url in requests if not url.startswith(("file:", "blob:", "data:")))


def _facts(page: Page, build: Path) -> Iterator[str]:
    for facts, pair in PROBLEMS:
        page.fill("#facts", facts)
        page.press("#facts", "Enter")
        for name, value in zip(("one", "other"), pair, strict=True):
            page.select_option(f"#{name}", value)
        scores, nodes, outputs = demos.relation_scores(build, facts, pair)
        yield from _score_problems(page, f"{facts}, {pair}", scores)
        for of in ("trans kernel", "join weights"):
            yield from _attention_problems(page, facts, of, outputs, nodes)
    page.locator("#pairs button").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    if (now := (page.input_value("#one"), page.input_value("#other"))) != ("p", "q"):
        yield f"the second cell asks for {now}, not for p and q"
    yield from _refusal_problems(page, "#facts", "p NTTP q", "NTTP is no relation")


def _queries(page: Page, build: Path) -> Iterator[str]:
    for query in (*QUERIES, page.eval_on_selector("#examples", "all => all.lastChild.value")):
        if query in QUERIES:
            page.fill("#query", query)
            page.press("#query", "Enter")
        else:
            page.select_option("#examples", query)
        page.wait_for_function(
            "query => new URLSearchParams(location.hash.slice(1)).get('query') === query", arg=query
        )
        scores, outputs = demos.entity_scores(build, query)
        yield from _score_problems(page, query, scores)
        yield from _attention_problems(page, query, "attention weights", outputs, outputs["unary"].shape[1])
    yield from _refusal_problems(page, "#query", "treat(antibiotic,f)", "near it are treats")


def _score_problems(page: Page, question: str, scores: Mapping[str, float]) -> Iterator[str]:
    """Where the scores are not those of ONNX Runtime."""
    shown = dict(page.evaluate(SCORES))
    if shown.keys() != scores.keys() or any(abs(shown[name] - scores[name]) > TOLERANCE for name in scores):
        yield f"{question}: the page says {shown}, ONNX Runtime {scores}"


def _attention_problems(
    page: Page, question: str, of: str, outputs: Mapping[str, Any], count: int
) -> Iterator[str]:
    """Where the weights of attention of the second head are not those of ONNX Runtime."""
    page.select_option("#operator", of)
    page.select_option("#head", "2")
    weights = page.eval_on_selector_all("#weights data", "all => all.map((each) => Number(each.value))")
    wanted = outputs[f"attention_{page.input_value('#round')}_{of.replace(' ', '_')}"][0, :, :, 1]
    if np.abs(np.reshape(weights, (count, count)) - wanted).max() > TOLERANCE:
        yield f"{question}: the page attends by {weights}, ONNX Runtime by {wanted.tolist()}"


def _refusal_problems(page: Page, field: str, text: str, why: str) -> Iterator[str]:
    page.fill(field, text)
    page.press(field, "Enter")
    if why not in (message := page.inner_text("#wrong")):
        yield f"{text!r} is answered by {message!r}"

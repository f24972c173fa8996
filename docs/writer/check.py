"""Opens every page of the built site in Chromium: `python docs/writer/check.py FOLDER [PAGE ...]`.

FOLDER gets a screenshot of each page; with PAGEs, such as `guide/` or `home`, only those that begin so are opened.

At 1280 and at 390 pixels each page must open without an error in its console and without a sideways scroll; its links
must lead somewhere, its formulas be set, its pictures have alternative text, its commands break at no hyphen, and its
contrasts satisfy axe. A search for words that readers type must find the page that answers. The pages with models give
the numbers of ONNX Runtime.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from urllib.parse import urldefrag, urljoin

from check_demos import demo_problems
from playwright.sync_api import Browser, Page, Request, sync_playwright

BUILD = Path(__file__).resolve().parents[2] / "build"
SITE, AXE = BUILD / "site", BUILD / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
WIDTHS = (1280, 390)
PATIENCE = 300_000
"""Milliseconds after which a page does not open."""
TALLEST = 20_000
"""How tall a page may be, in pixels at 1280."""
EMPTY = '{"config": {"lang": ["en"], "separator": " ", "pipeline": [], "fields": {}}, "docs": []}'
"""An index of nothing, which pages read faster than the whole one that searches are tried with."""
SEARCHES = {
    "rotary": "reference/positions/rope/",
    "alibi": "reference/positions/alibi/",
    "moe": "reference/operators/experts/",
    "install": "",
    "class weights": "reference/tasks/classify/",
    "csv": "guide/own-data/",
    "without torch": "export/serving/",
    "train on my own data": "guide/own-data/",
}
"""What readers search for, and what must be among the first results."""
FACTS = """() => ({
  scroll: document.documentElement.scrollWidth - innerWidth,
  height: document.documentElement.scrollHeight,
  unset: [...document.querySelectorAll('.arithmatex')].filter((e) => !e.querySelector('.katex'))
    .map((e) => e.textContent),
  wrong: [...document.querySelectorAll('.katex-error')].map((e) => e.textContent),
  silent: [...document.querySelectorAll('img:not([alt]), img[alt=""]')].map((e) => e.src)
    .filter((src) => !src.endsWith('mark.svg')),
  broken: [...document.images].filter((e) => e.loading !== 'lazy' && e.naturalWidth === 0).map((e) => e.src),
  wide: [...document.querySelectorAll('article *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1
    && !e.closest('.md-typeset__scrollwrap, pre, .arithmatex, .katex'))
    .map((e) => e.outerHTML.slice(0, 120)).slice(0, 2),
  split: [...document.querySelectorAll('article code')].flatMap((code) => {
    const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), found = [], range = document.createRange();
    while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/\\S*-\\S+/g)) {
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (word[0].length <= 30 && new Set([...range.getClientRects()].map((e) => e.top)).size > 1) found.push(word[0]);
    }
    return found;
  }),
  links: [...document.querySelectorAll('a[href]')].map((e) => e.href),
  ids: [...document.querySelectorAll('[id], a[name]')].map((e) => e.id || e.name),
})"""
CONTRAST = """() => axe.run({runOnly: ['color-contrast', 'image-alt', 'link-name', 'document-title', 'html-has-lang']})
  .then((found) => found.violations.map((v) => `${v.id}, ${v.nodes.length} times: ` + v.nodes.slice(0, 3)
    .map((n) => `${n.target} ${n.any[0]?.data?.fgColor ?? ''} on ${n.any[0]?.data?.bgColor ?? ''}`).join('; ')))"""


def main(folder: Path, only: tuple[str, ...]) -> int:
    """Check the pages; the exit code."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    handler = partial(_Quiet, directory=str(SITE))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/"
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=PATIENCE)
        pages = [
            path
            for path in _paths()
            if not only or f"{path}".startswith(only) or (path == "" and "home" in only)
        ]
        problems = 0
        demos = (
            f"a page that answers, at {width}, {scheme}: {text}"
            for width, scheme in zip(WIDTHS, ("light", "dark"), strict=True)
            for text in demo_problems(browser, BUILD, width, scheme, CONTRAST)
        )
        for each in chain(demos, _pages(browser, base, folder, pages), _searches(browser.new_page(), base)):
            problems += 1
            print(each, flush=True)
        browser.close()
    server.shutdown()
    print(f"{problems} problems on {len(pages)} pages; screenshots in {folder}")
    return bool(problems)


def _paths() -> list[str]:
    pages = (path.parent.relative_to(SITE).as_posix() for path in SITE.rglob("index.html"))
    return sorted("" if page == "." else f"{page}/" for page in pages)


def _pages(browser: Browser, base: str, folder: Path, paths: Sequence[str]) -> Iterator[str]:
    ids: dict[str, set[str]] = {}
    links: dict[str, set[str]] = {}
    for width in WIDTHS:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.route("**/search_index.json", lambda route: route.fulfill(body=EMPTY))
        errors: list[str] = []
        page.on(
            "console",
            lambda message, errors=errors: errors.append(message.text) if message.type == "error" else None,
        )
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        page.on("requestfailed", lambda request, errors=errors: _note_failure(request, errors))
        for path in paths:
            errors.clear()
            page.goto(base + path, wait_until="load")
            facts = page.evaluate(FACTS)
            where = f"{path or 'home'} at {width}"
            name = (path.strip("/") or "home").replace("/", "-")
            page.screenshot(path=folder / f"{name}-{width}.jpg", type="jpeg", quality=50, full_page=True)
            yield from (f"{where}: console: {text}" for text in errors)
            yield from (f"{where}: formula not set: {text}" for text in facts["unset"] + facts["wrong"])
            yield from (f"{where}: picture without alternative text: {src}" for src in facts["silent"])
            yield from (f"{where}: picture that does not open: {src}" for src in facts["broken"])
            yield from (f"{where}: reaches past the edge: {html}" for html in facts["wide"])
            yield from (f"{where}: breaks at a hyphen: {word}" for word in facts["split"])
            if facts["scroll"] > 0:
                yield f"{where}: scrolls sideways by {facts['scroll']} px"
            if width == WIDTHS[0]:
                ids[path], links[path] = set(facts["ids"]), set(facts["links"])
                if facts["height"] > TALLEST:
                    yield f"{where}: {facts['height']} px tall"
                page.add_script_tag(path=AXE)
                page.add_style_tag(content="* { transition: none !important }")
                for scheme in ("default", "slate"):
                    page.evaluate("(to) => document.body.setAttribute('data-md-color-scheme', to)", scheme)
                    yield from (f"{where}, {scheme}: {text}" for text in page.evaluate(CONTRAST))
        page.close()
    known = set(_paths())
    for path, targets in links.items():
        for target in sorted(targets):
            to, anchor = urldefrag(urljoin(base + path, target))
            if to.startswith(base):
                inside = to.removeprefix(base)
                if inside not in known and not (SITE / inside).is_file():
                    yield f"{path}: broken link to {inside}"
                elif anchor and inside in ids and anchor not in ids[inside]:
                    yield f"{path}: no {anchor} in {inside}"


def _note_failure(request: Request, errors: list[str]) -> None:
    """Note a request without an answer, but for those that the next page cut off."""
    if request.failure != "net::ERR_ABORTED":
        errors.append(f"no answer: {request.url}")


def _searches(page: Page, base: str) -> Iterator[str]:
    page.goto(base)
    first = ".md-search-result__item > .md-search-result__link"
    for words, answer in SEARCHES.items():
        page.fill("input.md-search__input", "")
        page.click("input.md-search__input")
        page.type("input.md-search__input", words)
        page.locator(first).first.wait_for(timeout=PATIENCE)  # the index is read with the first search
        page.wait_for_timeout(1500)
        results = page.eval_on_selector_all(first, "all => all.slice(0, 6).map((e) => e.href.split('?')[0])")
        if base + answer not in {result.split("#")[0] for result in results}:
            yield f"search for {words!r} finds {', '.join(results) or 'nothing'}, not {answer or 'home'}"


class _Quiet(SimpleHTTPRequestHandler):
    """Serves the site without a line for each request."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), tuple(sys.argv[2:])))

"""The frame of every page: head, colours for light and dark, the data of its script, and what it may not ask for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from peirce.files import replace_non_finite
from peirce_show.svg import THEME, Markup, element

_HERE = Path(__file__).parent
_CODE = "'unsafe-inline'"
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {code}; connect-src {connect}; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_COLOURS = " ".join(f"--{role}: light-dark({light}, {dark});" for role, (light, dark) in THEME.items())


def page(
    title: str,
    *content: Markup,
    style: str = "",
    script: str = "",
    data: object = None,
    files: Mapping[str, str] | None = None,
) -> str:
    """One HTML page, which is forbidden to ask for anything beyond itself.

    Args:
        title: its title and first heading.
        content: what follows the heading.
        style: rules beside those of `page.css`; they name the theme's colours `var(--unary)` and so on.
        script: JavaScript, a module that runs when the page is there. With `data` it has `$`, `make` and `fill` of
            `page.js`.
        data: what the script reads as `data`.
        files: text by the id of the element that holds it, such as programs in base64. A page with files may run
            WebAssembly, and load what its script makes of them.
    """
    policy = _POLICY.format(code=_CODE, connect="'none'")
    if files:
        policy = _POLICY.format(code=f"{_CODE} 'wasm-unsafe-eval' blob:", connect="blob:")
    head = element(
        "head",
        Markup('<meta charset="utf-8"/>'),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Markup(f":root {{ {_COLOURS} }}\n{_read('page.css')}{style}")),
    )
    scripts = []
    if data is not None:
        text = json.dumps(replace_non_finite(data), ensure_ascii=False).replace("<", "\\u003c")
        scripts.append(element("script", Markup(text), type="application/json", id="data"))
        script = _read("page.js") + script
    for name, text in (files or {}).items():
        scripts.append(element("script", Markup(text), type="text/plain", id=name))
    if script:
        scripts.append(element("script", Markup(script), type="module"))
    main = element("main", element("h1", title), *content)
    return "<!doctype html>\n" + element("html", head, element("body", main, *scripts), lang="en") + "\n"


def read_all(folders: Iterable[Path], suffix: str) -> str:
    """The text of all files of a suffix, such as `.css`: folder by folder, each in the order of names."""
    files = (each for folder in folders for each in sorted(folder.glob(f"*{suffix}")))
    return "".join(each.read_text(encoding="utf-8") for each in files)


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")

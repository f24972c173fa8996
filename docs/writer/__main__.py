"""Writes what the site consists of: `python docs/writer`, and then `mkdocs build -f build/mkdocs.yml`.

`build/docs` gets the pages of this folder and of each distribution (`places`), those that are made of what is
registered (`reference`, `api`), those of ready specs and experiments (`gallery`), that of what others reported
(`strangers`), the notebooks, KaTeX of an installed npm package, and the pages on which models answer (`demos`), so that
no page needs a network. `build/mkdocs.yml` is the
site's configuration: an entry of the navigation that ends in `/` became the pages of that folder.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

import demos
import gallery
import places
import reference
import strangers
from notebooks import PAGES as OF_PAGES
from places import ROOT

BUILD = ROOT / "build"
KATEX = BUILD / "node_modules" / "katex" / "dist"


def main() -> None:
    """Write the pages and the configuration; exit with a message where KaTeX is missing."""
    if not KATEX.is_dir():
        sys.exit(f"no KaTeX in {KATEX.relative_to(ROOT)}: npm install --prefix build katex onnxruntime-web")
    target = BUILD / "docs"
    shutil.rmtree(target, ignore_errors=True)
    collected = {path: file.read_bytes() for path, file in places.places().items()} | places.pages()
    pages = generated()
    for path, content in (collected | pages).items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    katex = target / "assets" / "katex"
    shutil.copytree(KATEX / "fonts", katex / "fonts", ignore=shutil.ignore_patterns("*.ttf", "*.woff"))
    for file in (KATEX / "katex.min.css", KATEX / "katex.min.js", KATEX / "contrib" / "auto-render.min.js"):
        shutil.copy(file, katex)
    demos.write(target, BUILD)
    config = configuration((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), pages)
    (BUILD / "mkdocs.yml").write_text(config, encoding="utf-8")


def generated() -> dict[str, str | bytes]:
    """Every page and picture that is made, by its path in the site."""
    from peirce.registry import default_registry

    registry = default_registry()
    return {**gallery.pages(registry), **reference.pages(registry), **strangers.pages(), **notebooks()}


def notebooks() -> dict[str, str | bytes]:
    """Notebooks with output as pages: text as it is, code and what it printed as blocks, pictures as files."""
    found: dict[str, str | bytes] = {}
    for path in sorted(places.NOTEBOOKS.glob("*.ipynb")):
        if path.stem in OF_PAGES:
            continue
        lines, pictures = [], 0
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                lines.append(places.on_site(source, path, f"notebooks/{path.stem}.md"))
                continue
            lines.append(f"```python\n{source}\n```")
            for output in cell["outputs"]:
                data = output.get("data", {})
                if "image/png" in data:
                    pictures += 1
                    name = f"{path.stem}-{pictures}.png"
                    found[f"notebooks/{name}"] = b64decode("".join(data["image/png"]))
                    lines.append(f"![{cell['metadata'].get('alt', 'What the cell draws')}]({name})")
                elif text := "".join(output.get("text", data.get("text/plain", ()))).strip("\n"):
                    lines.append(f"``` {{ .text .output }}\n{text}\n```")
        lines.insert(
            1,
            f"*This page is the notebook [{path.name}]({path.name}), and its output is that of a run.*",
        )
        found[f"notebooks/{path.stem}.md"] = "\n\n".join(lines) + "\n"
    return found


def configuration(template: str, pages: Mapping[str, str | bytes]) -> str:
    """The site's configuration: an entry `- Title: folder/` of the navigation becomes a list of that folder's pages."""

    def pages_of(match: re.Match[str]) -> str:
        indent, title, folder = match.groups()
        inside = [path for path in pages if path.endswith(".md") and Path(path).parent.as_posix() == folder]
        entries = "".join(f"{indent}    - {_title(str(pages[path]))}: {path}\n" for path in inside)
        return f"{indent}- {title}:\n{entries}"

    return re.sub(r"^( *)- ([^:\n]+): ([\w/-]+)/\n", pages_of, template, flags=re.MULTILINE)


def _title(page: str) -> str:
    """The heading of a page up to a colon or comma, as the navigation shows it."""
    match = re.search(r"^# (.+?)(?: \{.*\})?$", page, re.MULTILINE)
    assert match is not None
    return json.dumps(re.split(": |, ", match[1])[0].replace("\\", "").replace("`", ""))


if __name__ == "__main__":
    main()

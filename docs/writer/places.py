"""Where the repository's pages stand on the site, and their links there.

`docs/` is the root of the site. A distribution's folder, such as `plugins/kg`, has the same path there: its README.md
is the folder's `index.md`, and what its `docs/` holds lies beside that. Notebooks lie in `notebooks/`. Pages link each
other by the paths that they have in the repository; a page that is made, such as `reference/parts.md`, is linked as
`docs/reference/parts.md`.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NOTEBOOKS = ROOT / "examples" / "notebooks"
_LINK = re.compile(
    r"(?P<code>^```.*?^```$|`(?:[^`\n]|\n(?!\n))*`)|\]\((?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)",
    re.MULTILINE | re.DOTALL,
)


@cache
def places() -> dict[str, Path]:
    """The files of the site that are in the repository, by their paths on the site."""
    found = _files(DOCS, "") | {f"notebooks/{path.name}": path for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    for project in sorted((*ROOT.glob("*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml"))):
        place = project.parent.relative_to(ROOT).as_posix()
        found |= {f"{place}/index.md": project.parent / "README.md"} | _files(
            project.parent / "docs", f"{place}/"
        )
    return found


def pages() -> dict[str, str]:
    """The text of each page that is in the repository, with the site's links, by its path on the site."""
    return {
        place: on_site(file.read_text(encoding="utf-8"), file, place)
        for place, file in places().items()
        if file.suffix == ".md"
    }


def on_site(text: str, file: Path, place: str) -> str:
    """The text of a file of the repository, in which relative links lead from `place` to places on the site."""
    known = {path.relative_to(ROOT).as_posix(): at for at, path in places().items()}
    folder = file.parent.relative_to(ROOT).as_posix()

    def link(match: re.Match[str]) -> str:
        if match["code"] or ":" in match["path"]:
            return match[0]
        target = posixpath.normpath(posixpath.join(folder, match["path"]))
        target = known.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(target, posixpath.dirname(place) or '.')}{match['anchor'] or ''})"

    return _LINK.sub(link, text)


def _files(folder: Path, place: str) -> dict[str, Path]:
    """The files in a folder, by `place` and the path below the folder; the writer's own left out."""
    below = {
        path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()
    }
    return {f"{place}{name}": path for name, path in below.items() if not name.startswith("writer/")}


__all__ = ["DOCS", "NOTEBOOKS", "ROOT", "on_site", "pages", "places"]

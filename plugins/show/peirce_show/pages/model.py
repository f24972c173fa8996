"""An exported model as one HTML page: it computes in the reader's browser, and needs no server and no network.

Each kind of model has a form and a script of its own, which its distribution brings. `model.js` is the same for all:
it opens the model, runs it, and draws scores and attention.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from peirce.errors import InputError
from peirce.files import write_whole
from peirce_export import Session
from peirce_show.pages.frame import page, read_all
from peirce_show.svg import Markup

VERSION = "1.30"
"""The release of onnxruntime-web that pages were tried with."""
_RUNTIME_FILES = {
    "api": "ort.wasm.min.mjs",
    "glue": "ort-wasm-simd-threaded.mjs",
    "wasm": "ort-wasm-simd-threaded.wasm",
}
"""The files of the runtime, by their names in the page."""
_ATTENTION = re.compile(r"attention_(\d+)_(\w+)")


def write_page(
    path: Path,
    session: Session,
    folder: Path,
    data: Mapping[str, Any],
    *,
    title: str,
    layer: str,
    runtime: Path,
) -> None:
    """Write the page of a model.

    Args:
        path: the page, a file that ends in .html.
        session: the exported model; its outputs `attention_...` are shown as heat maps.
        folder: what this kind of page has beyond others: page.html, and scripts and styles, in the order of their
            names.
        data: what its script knows; `scores` is the output that it shows.
        title: the page's heading.
        layer: what the numbers of the outputs of attention count.
        runtime: the folder `dist` of the npm package onnxruntime-web, of which the page gets its copy.

    Raises:
        InputError: the runtime is missing, the path does not end in .html, or the model is not in float32.
    """
    if path.suffix.lower() != ".html":
        raise InputError(f"{path} does not end in .html; a page does")
    for name in _RUNTIME_FILES.values():
        if not (runtime / name).is_file():
            raise InputError(
                f"{runtime} has no {name}, which computes in a browser; `npm install onnxruntime-web@{VERSION}` brings "
                "it, and --runtime names another folder"
            )
    if (dtype := session.dtype(data["scores"])) != np.float32:
        raise InputError(
            f"{session.path} is in {dtype}, and a page computes in float32; export the model in float32"
        )
    signature = session.signature
    matches = {each.name: _ATTENTION.fullmatch(each.name) for each in signature.outputs}
    known = {
        "inputs": [
            {"name": each.name, "dims": each.dims, "dtype": each.dtype, "default": each.default}
            for each in signature.inputs
        ],
        "attention": [
            {"name": name, "round": int(match[1]), "of": match[2].replace("_", " ")}
            for name, match in matches.items()
            if match
        ],
        **data,
    }
    here = Path(__file__).parent
    attention = Template((here / "attention.html").read_text(encoding="utf-8")).substitute(layer=layer)
    html = page(
        title,
        Markup((folder / "page.html").read_text(encoding="utf-8")),
        Markup(attention),
        style=(here / "model.css").read_text(encoding="utf-8") + read_all([folder], ".css"),
        script=(here / "model.js").read_text(encoding="utf-8") + read_all([folder], ".js"),
        data=known,
        files={
            **{place: _packed(runtime / name) for place, name in _RUNTIME_FILES.items()},
            "model": _packed(session.path),
        },
    )
    write_whole(path, html)


def _packed(file: Path) -> str:
    """The bytes of a file, gzipped, in base64; equal bytes give equal text."""
    return b64encode(gzip.compress(file.read_bytes(), mtime=0)).decode()

"""An exported model as one HTML page: it computes in the reader's browser, and needs no server and no network.

Each page has a form and a script of its own. The frame, the style and `page.js` are the same in all: they open the
model, run it, and draw scores and attention.
"""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from peirce.compose import Session
from peirce.errors import InputError
from peirce.files import write_whole

VERSION = "1.30"
"""The release of onnxruntime-web that pages were tried with."""
_RUNTIME = {
    "api": "ort.wasm.min.mjs",
    "glue": "ort-wasm-simd-threaded.mjs",
    "wasm": "ort-wasm-simd-threaded.wasm",
}
"""The files of the runtime, by their names in the page."""
_ATTENTION = re.compile(r"attention_(\d+)_(\w+)")


def write_page(
    path: Path, session: Session, own: Path, data: Mapping[str, Any], *, title: str, layer: str, runtime: Path
) -> None:
    """Write the page of a model.

    Args:
        path: the page, a file that ends in .html.
        session: the exported model; its outputs `attention_...` are shown as heat maps.
        own: the folder of what this page has beyond others: page.html, and scripts and styles, in the order of their
            names.
        data: what its script knows; `scores` is the output that it shows.
        title: the page's heading.
        layer: what the numbers of the outputs of attention count.
        runtime: the folder `dist` of the npm package onnxruntime-web, of which the page gets its copy.

    Raises:
        InputError: the runtime is not there, the path is no page's, or the model is not in float32.
    """
    if path.suffix.lower() != ".html":
        raise InputError(f"{path} is no page; let it end in .html")
    for name in _RUNTIME.values():
        if not (runtime / name).is_file():
            raise InputError(
                f"{runtime} has no {name}, which computes in a browser; `npm install onnxruntime-web@{VERSION}` brings "
                "it, and --runtime names another folder"
            )
    if (dtype := session.dtype(data["scores"])) != np.float32:
        raise InputError(f"{session.path} is in {dtype}; a page computes in float32, so export it so")
    signature = session.signature
    known = {
        "inputs": [
            {"name": each.name, "dims": each.dims, "dtype": each.dtype, "default": each.default}
            for each in signature.inputs
        ],
        "attention": [
            {"name": each.name, "round": int(said[1]), "of": said[2].replace("_", " ")}
            for each in signature.outputs
            if (said := _ATTENTION.fullmatch(each.name))
        ],
        **data,
    }
    here = Path(__file__).parent
    whole = Template((here / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        layer=layer,
        body=(own / "page.html").read_text(encoding="utf-8"),
        data=json.dumps(known, ensure_ascii=False).replace("<", "\\u003c"),
        model=_packed(session.path),
        **{
            kind: "".join(
                each.read_text(encoding="utf-8")
                for folder in (here, own)
                for each in sorted(folder.glob(f"*.{kind}"))
            )
            for kind in ("css", "js")
        },
        **{place: _packed(runtime / name) for place, name in _RUNTIME.items()},
    )
    write_whole(path, whole)


def _packed(file: Path) -> str:
    """The bytes of a file, gzipped, in base64; the same ones give the same text."""
    return b64encode(gzip.compress(file.read_bytes(), mtime=0)).decode()

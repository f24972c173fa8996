"""The card of a saved model: a README.md that people read, and whose front matter Hugging Face's hub reads.

The card is not part of the model: no digest covers it, models without one load, and one that a person wrote stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from peirce.files import read_text, write_whole
from peirce.parts import Signature, TensorSpec

CARD = "README.md"
_MARKER = "<!-- peirce writes this file anew with each save; without this line it stays as it is. -->"


def write_card(
    directory: Path, name: str, signature: Signature, provenance: Mapping[str, Any], parameters: int
) -> None:
    """Write the card of a model beside it, unless a person's own card is there.

    Args:
        directory: where the model was saved.
        name: the model's.
        signature: its inputs and outputs.
        provenance: where its parts come from, as `provenance.json` has it.
        parameters: how many it has.

    Raises:
        OSError: the file cannot be written.
    """
    path = directory / CARD
    if path.exists() and _MARKER not in read_text(path):
        return
    parts = provenance["parts"]
    tags = [
        "peirce",
        *dict.fromkeys(part.partition(".")[2] for part in parts if not part.startswith("tasks.")),
    ]
    lines = [
        "---", "library_name: peirce", "tags:", *(f"- {json.dumps(tag)}" for tag in tags), "---", "", _MARKER, "",
        f"# {name}", "",
        f"A model of {parameters:,} parameters, composed with [Peirce](https://pypi.org/project/peirce) "
        f"{provenance['peirce']}. `spec.toml` says of which parts.", "",
        "```python", "import peirce", "", 'model = peirce.load("this-folder")', "```", "",
        "| tensor | | dtype | dims |", "|---|---|---|---|",
        *_rows("input", signature.inputs), *_rows("output", signature.outputs), "",
        "| part | from |", "|---|---|",
        *(f"| `{part}` | {origin['distribution'] or origin['plugin']} {origin['version'] or ''} |"
          for part, origin in parts.items()),
        "", "Trained on: say here which data, with what results, what it is good for and what not, and its licence.",
    ]  # fmt: skip
    write_whole(path, "\n".join(lines) + "\n")


def _rows(what: str, tensors: Iterable[TensorSpec]) -> Iterable[str]:
    return (f"| `{t.name}` | {what} | {t.dtype} | [{', '.join(map(str, t.dims))}] |" for t in tensors)

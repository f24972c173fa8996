"""The digest that an ONNX file carries, over every byte of it and of the files that it belongs with.

It is the last property of the file, and the digest of all bytes before that property. So no bit of the file can change
without notice; and a tool that writes the file anew, which ONNX allows, leaves a digest that cannot be checked. The
property before it lists the digests of the files of weights, and of the graph of a step.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path

from peirce.errors import ModelFileError
from peirce.files import digest_of, parse_json
from peirce.model import SKIP

from peirce_export.metadata import PREFIX, step_of
from peirce_export.onnx.frame import Frame, read_frame

DIGEST, OTHERS = f"{PREFIX}digest", f"{PREFIX}digests"
_METADATA, _KEY, _VALUE = 0x72, 0x0A, 0x12
"""The tags of a property of an ONNX model, of its name and of its text."""


class RewrittenError(ModelFileError):
    """A file that some tool has written again since its export, so that its digest cannot be checked."""


def sign(path: Path, steps: Sequence[Path] = ()) -> None:
    """Give a file its digest.

    Args:
        path: the file, its weights beside it; it has no digest yet.
        steps: the graphs that add to what this one reads, signed.
    """
    others = [path.with_name(name) for name in read_frame(path).external]
    digests = {other.name: digest_of(other) for other in (*others, *steps)}
    with path.open("ab") as file:
        file.write(_property(OTHERS, json.dumps(digests)))
    found = digest_of(path)
    with path.open("ab") as file:
        file.write(_property(DIGEST, found))


def check(path: Path) -> str | None:
    """Hold a file against the digest that it carries.

    Returns:
        The digest; None where the file carries none, as those of Peirce 0.1 and of others.

    Raises:
        RewrittenError: another tool has written it anew.
        ModelFileError: the file, or one that it belongs with, is not what was exported.
    """
    frame = read_frame(path)
    stated, others = (frame.properties.get(name) for name in (DIGEST, OTHERS))
    if stated is None and others is None:
        if frame.properties.get(f"{PREFIX}format") not in (None, "1"):
            raise ModelFileError(
                f"{path} has lost its digest: it was cut short, or another tool wrote it. Copy or export it again; if "
                f"a tool that you trust changed it, open it with {SKIP}"
            )
        return None
    last = _property(DIGEST, stated or "")
    body = path.stat().st_size - len(last)
    with path.open("rb") as file:
        file.seek(max(0, body))
        if stated is None or others is None or file.read() != last:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                moved = stated is not None and others is not None and content.find(last) >= 0
            if moved:
                raise RewrittenError(
                    f"{path} was written again after its export: its digest is not its last property, and cannot be "
                    f"checked. Export it again; if a tool that you trust changed it, open it with {SKIP}"
                )
            raise ModelFileError(f"{path} is damaged, as its digest itself is. Copy or export it again")
        if digest_of(file, body) != stated:
            raise ModelFileError(
                f"{path} is not what was exported: its content has another digest than it says. Copy or export it "
                f"again; if it was changed on purpose, open it with {SKIP}"
            )
    for other, digest in _others(path, frame, others).items():
        if other.is_file() and digest_of(other) != digest:
            raise ModelFileError(
                f"{other} is not what was exported with {path}: its content has another digest. Copy both or export "
                f"them again; if it was changed on purpose, open it with {SKIP}"
            )
    return stated


def _others(path: Path, frame: Frame, text: str) -> Mapping[Path, str]:
    """The digests of the files that belong with a file, wherever it has been moved with them."""
    try:
        digests = parse_json(text)
    except ValueError:
        digests = None
    if not isinstance(digests, dict) or not all(isinstance(digest, str) for digest in digests.values()):
        # Whoever changed it has computed the file's digest anew.
        raise ModelFileError(f"{path} has no list of files that belong with it; export it again")
    return {
        path.with_name(name) if name in frame.external else step_of(path): digest
        for name, digest in digests.items()
    }


def _property(name: str, text: str) -> bytes:
    """A property as it stands in the file of a model."""
    entry = _field(_KEY, name.encode()) + _field(_VALUE, text.encode())
    return _field(_METADATA, entry)


def _field(tag: int, content: bytes) -> bytes:
    length, digits = len(content), bytearray()
    while length > 0x7F:
        digits.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([tag, *digits, length]) + content

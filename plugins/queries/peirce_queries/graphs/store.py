"""Indexes in a folder of plain arrays. Large ones are mapped into memory and not copied; processes share their pages.

`index.json` lists the arrays with their shapes and digests, and has a digest of itself, so that no file can be changed,
cut or put in another's place without notice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib.format import open_memmap, read_array_header_1_0, read_magic
from numpy.typing import NDArray

from peirce.errors import TaskError
from peirce.files import UnreadableError, checks_digests, digest_of, open_file, read_json
from peirce_queries.graphs.index import Index

DESCRIPTION = "index.json"
_SCHEMA, _WITHOUT_DIGESTS = "peirce.kg.index/2", "peirce.kg.index/1"
_TRIPLES, _DIGEST = "triples", "digest"
COPIED = 2**26
"""Bytes of all arrays up to which each process has a copy, which no change of a file reaches; 64 MB a worker."""


def write_index(
    folder: Path, indexes: Sequence[Index], added: Sequence[NDArray[np.int32]], about: Mapping[str, Any]
) -> None:
    """Write indexes into an empty folder.

    Args:
        folder: it is there.
        indexes: of each split, as `Index.cumulative` made them.
        added: the triples that each split adds: int32 [n, 3].
        about: what else is known of the graph, for JSON.
    """
    arrays = Index.to_arrays(indexes)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    ends = [0, *accumulate(map(len, added))]
    triples = open_memmap(folder / f"{_TRIPLES}.npy", "w+", np.int32, (ends[-1], 3))
    for (start, stop), rows in zip(pairwise(ends), added, strict=True):
        triples[start:stop] = rows
    triples.flush()
    shapes = {name: array.shape for name, array in {**arrays, _TRIPLES: triples}.items()}
    sizes = {"entities": indexes[0].entities, "relations": indexes[0].relations, "arrays": shapes}
    digests = {name: digest_of(folder / f"{name}.npy") for name in shapes}
    content = {"schema": _SCHEMA, **sizes, "sha256": digests, **about}
    signed = json.dumps({**content, _DIGEST: digest_of(content)}, ensure_ascii=False)
    (folder / DESCRIPTION).write_text(signed + "\n", encoding="utf-8")


def open_index(
    folder: Path, digests: bool | None = None
) -> tuple[tuple[Index, ...], NDArray[np.int32], dict[str, Any]]:
    """What `write_index` wrote: the indexes, the triples of all splits one after another, and what else is known.

    Args:
        folder: where.
        digests: whether each file is read and checked against its digest; if None, unless `PEIRCE_NO_DIGESTS` is set.

    Raises:
        TaskError: a file is missing, is no regular file, is of another form, or is not what was written.
    """
    try:
        about = read_json(folder / DESCRIPTION)
        checked = checks_digests(digests)
        if about["schema"] == _WITHOUT_DIGESTS and checked:
            raise ValueError(
                "it has no digests, since an older version wrote it (`peirce --no-digests` opens it)"
            )
        if about["schema"] not in (_SCHEMA, _WITHOUT_DIGESTS):
            raise ValueError(f"its schema is {about['schema']!r}; this version reads {_SCHEMA!r}")
        if checked and about.pop(_DIGEST) != digest_of(about):
            raise ValueError(f"{DESCRIPTION} is not what was written: its digest does not match")
        with ExitStack() as handles:
            files = {name: handles.enter_context(_open(folder, name)) for name in about["arrays"]}
            copied = sum(file.seek(0, 2) for file in files.values()) <= COPIED
            arrays = {}
            for name, file in files.items():
                if checked and digest_of(file) != about["sha256"][name]:
                    raise ValueError(f"{name}.npy is not what was written: its digest does not match")
                arrays[name] = _array(name, file, about["arrays"][name], copied)
        return Index.of_arrays(arrays, about["entities"], about["relations"]), arrays[_TRIPLES], about
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise damage_error(folder, error) from error


def damage_error(folder: Path, error: Exception) -> TaskError:
    """The error of a folder that cannot be opened."""
    why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
    if isinstance(error, UnreadableError) and error.filename:
        why = f"{Path(error.filename).name}: {why}"
    return TaskError(
        f"{folder} cannot be opened as an index: {why}; write it again with `peirce kg convert --to index`"
    )


def _open(folder: Path, name: str) -> IO[bytes]:
    if Path(name).name != name:
        raise ValueError(f"its array {name!r} lies outside it")
    return open_file(folder / f"{name}.npy")


def _array(name: str, file: IO[bytes], shape: Sequence[int], copied: bool) -> NDArray[Any]:
    """The array of an open file, copied or mapped; one without numbers cannot be mapped."""
    size, _ = file.seek(0, 2), file.seek(0)
    if read_magic(file) != (1, 0):
        raise ValueError(f"{name}.npy is of another format")
    found, fortran, dtype = read_array_header_1_0(file)
    count, start = math.prod(found), file.tell()
    if [*found] != [*shape] or dtype.kind not in "iu" or fortran or start + count * dtype.itemsize != size:
        raise ValueError(f"{name}.npy is {dtype} {[*found]} in {size:,} bytes, not integers {[*shape]}")
    if copied or not count:
        return np.frombuffer(file.read(), dtype, count).reshape(found)
    return np.asarray(np.memmap(file, dtype, "r", start, found))

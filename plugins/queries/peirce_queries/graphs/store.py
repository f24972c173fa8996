"""Indexes in a folder of plain arrays, which are mapped into memory and not read: any size opens at once.

Processes that open the same folder share its pages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from peirce.errors import TaskError
from peirce.files import read_json
from peirce_queries.graphs.index import Index

DESCRIPTION = "index.json"
_SCHEMA = "peirce.kg.index/1"
_TRIPLES = "triples"


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
    content = json.dumps({"schema": _SCHEMA, **sizes, **about}, ensure_ascii=False)
    (folder / DESCRIPTION).write_text(content + "\n", encoding="utf-8")


def open_index(folder: Path) -> tuple[tuple[Index, ...], NDArray[np.int32], dict[str, Any]]:
    """What `write_index` wrote: the indexes, the triples of all splits one after another, and what else is known.

    Raises:
        TaskError: a file is missing, cut or of another form. What the arrays hold is not looked at.
    """
    try:
        about = read_json(folder / DESCRIPTION)
        if about["schema"] != _SCHEMA:
            raise ValueError(f"its schema is {about['schema']!r}; this version reads {_SCHEMA!r}")
        arrays = {name: _map(folder / f"{name}.npy", shape) for name, shape in about["arrays"].items()}
        indexes = Index.of_arrays(arrays, about["entities"], about["relations"])
        return indexes, arrays[_TRIPLES], about
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damage_error(folder, error) from error


def damage_error(folder: Path, error: Exception) -> TaskError:
    """The error of a folder that cannot be opened."""
    why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
    return TaskError(
        f"{folder} cannot be opened as an index: {why}; write it again with `peirce kg convert --to index`"
    )


def _map(path: Path, shape: Sequence[int]) -> NDArray[Any]:
    """A file's array without reading it; a part of a group's counts may be empty, which cannot be mapped."""
    array = np.load(path, mmap_mode="r" if np.prod(shape) else None, allow_pickle=False)
    if list(array.shape) != list(shape) or array.dtype.kind not in "iu":
        raise ValueError(f"{path.name} is {array.dtype} {list(array.shape)}, not integers {list(shape)}")
    return np.asarray(array)

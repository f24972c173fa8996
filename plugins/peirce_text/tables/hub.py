"""Rows of data sets of the library `datasets`, in place of published files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peirce.errors import TaskError
from peirce.extras import require

from peirce_text.tables.reading import Row

SPLIT_NAMES = {"train": "train", "validation": "valid", "valid": "valid", "dev": "valid", "test": "test"}
"""What the splits of published files and data sets are called, and what they are called here."""


def read_dataset(name: str) -> Mapping[str, Iterator[Row]]:
    """The rows of each split of a data set, classes by their names.

    Args:
        name: a data set of the hub, `OWNER/NAME` or `OWNER/NAME:CONFIGURATION`; or a folder that `datasets` saved or
            can load.

    Raises:
        TaskError: it cannot be loaded.
    """
    loaded = open_dataset(name, ", with its configuration after a colon if it has several")
    return {split: _rows(f"data set {name}, {split}", table) for split, table in loaded.items()}


def open_dataset(name: str, hint: str = "") -> Any:
    """The splits of a data set as the library gives them.

    Args:
        name: as for `read_dataset`.
        hint: what errors add to "a name of the hub".

    Raises:
        TaskError: it cannot be loaded.
    """
    with loading(name, hint=hint) as datasets:
        place, _, configuration = (name, "", "") if Path(name).is_dir() else name.partition(":")
        if (Path(place) / "dataset_dict.json").is_file():
            return datasets.load_from_disk(place)
        return datasets.load_dataset(place, configuration or None)


@contextmanager
def loading(name: str, of: str = "", hint: str = "") -> Iterator[Any]:
    """Within it the library `datasets`, which is given, may fail in any way.

    Args:
        name: the data set that is loaded.
        of: of what it is one.
        hint: what errors add to "a name of the hub".

    Raises:
        TaskError: it failed.
    """
    require(f"the data set {name!r}", "datasets", extra="text")
    import datasets

    try:
        yield datasets
    except Exception as error:  # whatever the library, its file formats and its network raise
        cause = str(error).partition("\n")[0]
        raise TaskError(
            f"data set {name!r}{of and f' of {of}'} cannot be loaded: {cause}; give a name of the hub{hint}, a folder "
            "that `datasets` saved, or the published files with task.folder"
        ) from error


def read_splits(name: str, needed: Collection[str]) -> dict[str, Iterator[Row]]:
    """The same of the splits for training, choosing and testing alone, by our names of them.

    Args:
        name: as for `read_dataset`.
        needed: the splits that must be there, such as `train`.

    Raises:
        TaskError: it cannot be loaded, or lacks a split.
    """
    found = {SPLIT_NAMES[split]: rows for split, rows in read_dataset(name).items() if split in SPLIT_NAMES}
    if missing := [split for split in needed if split not in found]:
        raise TaskError(f"data set {name!r} has no {' and no '.join(missing)} split")
    return found


def _rows(where: str, table: Any) -> Iterator[Row]:
    classes = {name: getattr(feature, "names", None) for name, feature in table.features.items()}
    for number, values in enumerate(table, 1):
        yield Row(
            where,
            number,
            {
                # -1 stands for no class, in SNLI and in test sets.
                name: names[value]
                if (names := classes[name]) and isinstance(value, int) and value >= 0
                else value
                for name, value in values.items()
            },
        )

"""Knowledge graphs: integer ids, three cumulative splits, and one sorted index per direction.

A split is cumulative, as in TEGA's Appendix G: `train` holds the training triples, `valid` also the validation triples,
`test` all of them.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from peirce.errors import TaskError, unknown

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
"""The splits, each containing the one before it."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_PYKEEN = {"umls": "UMLS", "kinship": "Kinships", "kinships": "Kinships", "nations": "Nations"}


@frozen(eq=False)
class Index:
    """The triples of one cumulative split, sorted once by head and once by tail.

    Args:
        entities: how many entities there are.
        relations: how many relations there are.
        forward: int64 [n], sorted: (relation, head, tail) in mixed radix.
        backward: int64 [n], sorted: (relation, tail, head) in mixed radix.
    """

    entities: int
    relations: int
    forward: Ints
    backward: Ints

    @classmethod
    def of(cls, triples: NDArray[np.int32], entities: int, relations: int) -> Index:
        """Index distinct triples. `triples`: int32 [n, 3] of head, relation, tail."""
        head, relation, tail = (triples[:, column].astype(np.int64) for column in range(3))
        forward = (relation * entities + head) * entities + tail
        backward = (relation * entities + tail) * entities + head
        forward.sort()
        backward.sort()
        return cls(entities, relations, forward, backward)

    def __len__(self) -> int:
        return len(self.forward)

    def contains(self, relation: Ints, head: Ints, tail: Ints) -> Bools:
        """Whether each triple is in the graph; the arguments have one shape."""
        key = (relation * self.entities + head) * self.entities + tail
        if not len(self.forward):
            return np.zeros(key.shape, dtype=bool)
        place = np.minimum(np.searchsorted(self.forward, key), len(self.forward) - 1)
        return self.forward[place] == key

    def ranges(self, relation: Ints, entity: Ints, *, heads: bool) -> tuple[Ints, Ints]:
        """Where the triples of each relation and entity start and stop in `forward` (`heads`: the entity is the head)
        or in `backward` (it is the tail)."""
        keys = self.forward if heads else self.backward
        low = (relation * self.entities + entity) * self.entities
        return np.searchsorted(keys, low), np.searchsorted(keys, low + self.entities)

    def others(self, places: Ints, *, heads: bool) -> Ints:
        """The entities at the other end of the triples at `places` of the array that `ranges` speaks of."""
        return (self.forward if heads else self.backward)[places] % self.entities

    def of_relation(self, relation: Ints) -> tuple[Ints, Ints]:
        """Where the triples of each relation start and stop in `forward`."""
        size = self.entities * self.entities
        return np.searchsorted(self.forward, relation * size), np.searchsorted(
            self.forward, (relation + 1) * size
        )

    def triples(self, places: Ints | slice = slice(None)) -> tuple[Ints, Ints, Ints]:
        """Head, relation and tail of the triples at `places` of `forward`."""
        rest, tail = np.divmod(self.forward[places], self.entities)
        relation, head = np.divmod(rest, self.entities)
        return head, relation, tail


@frozen(eq=False)
class Graph:
    """A knowledge graph with names.

    Args:
        name: what reports call it.
        entity_names: the entities in the order of their ids.
        relation_names: the relations in the order of their ids.
        added: int32 [n, 3] of head, relation, tail per split: the distinct triples that the split adds.
        duplicates: per split, how many triples were dropped because the split or an earlier one has them.
    """

    name: str
    entity_names: tuple[str, ...] = field(repr=False)
    relation_names: tuple[str, ...] = field(repr=False)
    added: Mapping[Split, NDArray[np.int32]] = field(repr=False)
    duplicates: Mapping[Split, int] = field(factory=lambda: dict.fromkeys(SPLITS, 0))
    _indexes: dict[str, Index] = field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.entity_names or not self.relation_names:
            raise TaskError(f"the graph {self.name!r} has no triples")
        if len(self.relation_names) * len(self.entity_names) ** 2 >= 2**62:
            raise TaskError(
                f"the graph {self.name!r} has {len(self.entity_names)} entities and {len(self.relation_names)} "
                "relations; a triple's key does not fit 62 bits"
            )

    @property
    def entities(self) -> int:
        """How many entities there are."""
        return len(self.entity_names)

    @property
    def relations(self) -> int:
        """How many relations there are."""
        return len(self.relation_names)

    def index(self, split: Split) -> Index:
        """The cumulative index of a split; made when first asked for."""
        if split not in self._indexes:
            parts = [self.added[s] for s in SPLITS[: SPLITS.index(split) + 1]]
            self._indexes[split] = Index.of(np.concatenate(parts), self.entities, self.relations)
        return self._indexes[split]

    @cached_property
    def _ids(self) -> tuple[dict[str, int], dict[str, int]]:
        return (
            {name: i for i, name in enumerate(self.entity_names)},
            {name: i for i, name in enumerate(self.relation_names)},
        )

    def entity(self, name: str) -> int:
        """The id of an entity: by name, or, where no entity is called so, by number.

        Raises:
            TaskError: there is none; the nearest names are listed.
        """
        return _lookup("entity", name, self._ids[0], self.entities)

    def relation(self, name: str) -> int:
        """The id of a relation: by name, or, where no relation is called so, by number.

        Raises:
            TaskError: there is none; the nearest names are listed.
        """
        return _lookup("relation", name, self._ids[1], self.relations)

    def summary(self) -> str:
        """One line for people: sizes, and what was dropped or is only in later splits."""
        counts = ", ".join(f"{len(self.added[split]):,} {split}" for split in SPLITS)
        line = f"{self.name}: {self.entities:,} entities, {self.relations:,} relations, triples: {counts}"
        dropped = sum(self.duplicates.values())
        late = self.entities - len(np.unique(self.added["train"][:, [0, 2]]))
        line += f"; {dropped:,} duplicates dropped" if dropped else ""
        return line + (f"; {late:,} entities not in train" if late else "")

    def to_bytes(self) -> bytes:
        """The triples as a compressed npz file, without the names, the same bytes every time."""
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer, train=self.added["train"], valid=self.added["valid"], test=self.added["test"]
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(
        cls, data: bytes, name: str, entity_names: Iterable[str], relation_names: Iterable[str]
    ) -> Graph:
        """The inverse of `to_bytes`.

        Raises:
            TaskError: the bytes are damaged or belong to another vocabulary.
        """
        entities, relations = tuple(entity_names), tuple(relation_names)
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                added = {split: np.asarray(arrays[split], dtype=np.int32).reshape(-1, 3) for split in SPLITS}
        except (OSError, ValueError, KeyError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TaskError(f"the triples of {name!r} cannot be read: {error}") from error
        except Exception as error:  # zipfile.BadZipFile and what damaged headers raise
            raise TaskError(f"the triples of {name!r} are damaged: {error}") from error
        everything = np.concatenate(list(added.values()))
        bounds = np.array([len(entities), len(relations), len(entities)])
        if len(everything) and ((everything < 0).any() or (everything >= bounds).any()):
            raise TaskError(f"the triples of {name!r} do not belong to this vocabulary; save the model again")
        return cls(name, entities, relations, added)


def load_graph(source: str) -> Graph:
    """Read a graph from a folder of train, valid and test .tsv or .tsv.gz files, or from pykeen by data set name.

    Each line of a file is `head<TAB>relation<TAB>tail` in UTF-8. Ids are given in the order of the sorted names.
    UMLS, Kinships and Nations come with pykeen; others it downloads.

    Raises:
        TaskError: there is no such folder or data set, or a line is malformed; it is named by file and number.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return from_names(folder.name or source, {split: _read(_file(folder, split)) for split in SPLITS})
    if "/" in source or "\\" in source:
        raise TaskError(
            f"no folder {source!r}; give a folder with train.tsv, valid.tsv, test.tsv or a data set of pykeen"
        )
    return _from_pykeen(source)


def from_names(name: str, triples: Mapping[Split, Iterable[tuple[str, str, str]]]) -> Graph:
    """A graph from triples of names (head, relation, tail) per split."""
    listed = {split: list(triples.get(split, ())) for split in SPLITS}
    entities = sorted({e for rows in listed.values() for h, _, t in rows for e in (h, t)})
    relations = sorted({r for rows in listed.values() for _, r, _ in rows})
    entity_ids = {e: i for i, e in enumerate(entities)}
    relation_ids = {r: i for i, r in enumerate(relations)}
    numbered = {
        split: np.array(
            [(entity_ids[h], relation_ids[r], entity_ids[t]) for h, r, t in rows], np.int32
        ).reshape(-1, 3)
        for split, rows in listed.items()
    }
    return from_ids(name, entities, relations, numbered)


def from_ids(
    name: str, entities: Iterable[str], relations: Iterable[str], triples: Mapping[Split, NDArray[np.int32]]
) -> Graph:
    """A graph from numbered triples, int32 [n, 3] of head, relation, tail per split; duplicates are dropped."""
    entity_names, relation_names = tuple(entities), tuple(relations)
    seen = np.empty(0, np.int64)
    added: dict[Split, NDArray[np.int32]] = {}
    duplicates: dict[Split, int] = {}
    for split in SPLITS:
        head, relation, tail = triples[split].astype(np.int64).T
        keys = (relation * len(entity_names) + head) * len(entity_names) + tail
        _, first = np.unique(np.concatenate([seen, keys]), return_index=True)
        # np.unique gives first occurrences, so what lies past `seen` is new; its order is kept
        new = np.sort(first[first >= len(seen)]) - len(seen)
        added[split] = triples[split][new]
        duplicates[split] = len(keys) - len(new)
        seen = np.concatenate([seen, keys[new]])
    return Graph(name, entity_names, relation_names, added, duplicates)


def _lookup(kind: str, name: str, ids: Mapping[str, int], count: int) -> int:
    if name in ids:
        return ids[name]
    if name.isascii() and name.isdigit():
        if int(name) < count:
            return int(name)
        raise TaskError(f"no {kind} is called {name!r}, and its ids end at {count - 1}")
    raise TaskError(_nearest(kind, name, ids))


def _nearest(kind: str, name: str, ids: Mapping[str, int]) -> str:
    """Like `unknown`, but a graph may have too many names to compare or to list them all."""
    names = list(ids)
    if len(names) > 2000:
        probe = set(_grams(name))
        names = sorted(names, key=lambda other: -len(probe.intersection(_grams(other))))[:2000]
    message = unknown(kind, name, names)
    head, separator, known = message.partition("Known: ")
    listed = known.split(", ")
    if not separator or len(listed) <= 10:
        return message
    return f"{head}Nearest of {len(ids):,}: {', '.join(listed[:10])}"


def _grams(name: str) -> list[str]:
    return [name[i : i + 3] for i in range(max(len(name) - 2, 1))]


def _file(folder: Path, split: str) -> Path:
    for ending in (".tsv", ".tsv.gz"):
        path = folder / f"{split}{ending}"
        if path.is_file():
            return path
    raise TaskError(f"{folder} has neither {split}.tsv nor {split}.tsv.gz")


def _read(path: Path) -> Iterator[tuple[str, str, str]]:
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                line = raw.decode("utf-8").rstrip("\r\n")
                parts = line.split("\t")
                if len(parts) != 3 or not all(part.strip() for part in parts):
                    raise TaskError(
                        f"{path}, line {number}: expected head, relation and tail separated by tabs, "
                        f"found {line[:200]!r}"
                    )
                yield parts[0], parts[1], parts[2]
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}, line {number}: not UTF-8: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise TaskError(f"{path}: cannot be read after line {number}: {error}") from error


def _from_pykeen(source: str) -> Graph:
    try:
        from pykeen.datasets import dataset_resolver
    except ImportError as error:
        raise TaskError(
            f"reading {source!r} needs pykeen: pip install 'peirce[kg]', or give a folder"
        ) from error
    known = {name.lower(): name for name in dataset_resolver.lookup_dict}
    key = _PYKEEN.get(source.lower(), source).lower()
    if key not in known:
        raise TaskError(
            unknown("graph", source, dict.fromkeys([*_PYKEEN, *known]))
            + "; a folder with train.tsv, ... works too"
        )
    try:
        data = dataset_resolver.lookup(known[key])()
        factories = {"train": data.training, "valid": data.validation, "test": data.testing}
    except (OSError, ValueError) as error:
        raise TaskError(f"pykeen cannot provide the graph {source!r}: {error}") from error
    triples: dict[Split, NDArray[np.int32]] = {}
    for split in SPLITS:
        factory = factories[split]
        if factory is None:
            raise TaskError(f"pykeen's graph {source!r} has no {split} split; give a folder with one")
        triples[split] = factory.mapped_triples.numpy().astype(np.int32)
    entity_ids, relation_ids = data.entity_to_id, data.relation_to_id
    entities = sorted(entity_ids, key=entity_ids.__getitem__)
    relations = sorted(relation_ids, key=relation_ids.__getitem__)
    return from_ids(source.lower(), entities, relations, triples)

"""Knowledge graphs: names, integer ids, and triples in three cumulative splits.

A split is cumulative, as in TEGA's Appendix G: `train` holds the training triples, `valid` also the validation triples,
`test` all of them. The triples lie in the index alone.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from peirce.errors import TaskError, nearest, unknown
from peirce.files import read_npz
from peirce_queries.graphs.files import ENDINGS, Triple, read_file, read_folder, read_pykeen
from peirce_queries.graphs.index import SPLITS, Bools, Index, Ints, Split
from peirce_queries.graphs.ntriples import literal_name
from peirce_queries.graphs.store import DESCRIPTION, damage_error, open_index, write_index

__all__ = ["SPLITS", "Bools", "Graph", "Index", "Ints", "Split", "from_ids", "from_names", "load_graph"]


@frozen(eq=False)
class Graph:
    """A knowledge graph with names.

    Args:
        name: what reports call it.
        entity_names, relation_names: the entities and relations in the order of their ids.
        indexes: the cumulative index of every split; they share their arrays.
        duplicates: per split, how many triples were dropped because the split or an earlier one has them.
        folder: the folder of an index that it was opened from, if it was.
        stored: the triples of all splits in such a folder: int32 [n, 3].
    """

    name: str
    entity_names: tuple[str, ...] = field(repr=False)
    relation_names: tuple[str, ...] = field(repr=False)
    indexes: Mapping[Split, Index] = field(repr=False)
    duplicates: Mapping[Split, int] = field(factory=lambda: dict.fromkeys(SPLITS, 0))
    folder: Path | None = field(default=None, kw_only=True)
    stored: NDArray[np.int32] | None = field(default=None, repr=False, kw_only=True)

    @property
    def entities(self) -> int:
        """How many entities there are."""
        return len(self.entity_names)

    @property
    def relations(self) -> int:
        """How many relations there are."""
        return len(self.relation_names)

    def index(self, split: Split) -> Index:
        """The cumulative index of a split."""
        return self.indexes[split]

    @property
    def added(self) -> dict[Split, NDArray[np.int32]]:
        """The triples that each split adds, int32 [n, 3] of head, relation, tail; made of the index each time."""
        if self.stored is not None:
            return dict(
                zip(SPLITS, np.split(self.stored, [len(self.index(s)) for s in SPLITS[:-1]]), strict=True)
            )
        first = self.indexes[SPLITS[0]]
        added = {SPLITS[0]: first.rows(np.arange(len(first)))}
        for before, split in pairwise(SPLITS):
            skipped, still = self.indexes[before].skipped, self.indexes[split].skipped
            added[split] = self.indexes[SPLITS[-1]].rows(np.setdiff1d(skipped, still, assume_unique=True))
        return added

    @cached_property
    def _ids(self) -> tuple[dict[str, int], dict[str, int]]:
        entities, relations = (
            {n: i for i, n in enumerate(ns)} for ns in (self.entity_names, self.relation_names)
        )
        return entities, relations

    def entity(self, name: str) -> int:
        """The id of an entity by its name, or by another way to write the literal that it is, such as `"Ann"@EN`.

        Raises:
            TaskError: there is none; the nearest names are listed.
        """
        return _lookup("entity", name, self._ids[0])

    def relation(self, name: str) -> int:
        """The id of a relation, as `entity` gives that of an entity."""
        return _lookup("relation", name, self._ids[1])

    @cached_property
    def first_seen(self) -> Mapping[Split, int]:
        """How many entities have their first triple in each split."""
        seen, counts = np.zeros(self.entities, dtype=bool), dict[Split, int]()
        for split, triples in self.added.items():
            seen[triples[:, [0, 2]]] = True
            counts[split] = int(seen.sum()) - sum(counts.values())
        return counts

    def summary(self) -> str:
        """One line for people: sizes, and what was dropped or is only in later splits."""
        counts = ", ".join(f"{len(triples):,} {split}" for split, triples in self.added.items())
        line = f"{self.name}: {self.entities:,} entities, {self.relations:,} relations, triples: {counts}"
        dropped = sum(self.duplicates.values())
        late = self.entities - self.first_seen["train"]
        line += f"; {dropped:,} duplicates dropped" if dropped else ""
        return line + (f"; {late:,} entities not in train" if late else "")

    def to_bytes(self) -> bytes:
        """The triples as a compressed npz file, without the names, the same bytes every time."""
        buffer, added = io.BytesIO(), cast(dict[str, Any], self.added)
        np.savez_compressed(buffer, **added)
        return buffer.getvalue()

    def write(self, folder: Path) -> None:
        """Write the index into an empty folder, which `load_graph` opens without sorting it anew."""
        names: dict[str, Any] = {"entity_names": self.entity_names, "relation_names": self.relation_names}
        about = names | {"name": self.name, "duplicates": {**self.duplicates}}
        write_index(folder, tuple(self.indexes.values()), tuple(self.added.values()), about)

    @classmethod
    def open_folder(cls, folder: Path, digests: bool | None = None) -> Graph:
        """The graph that `write` wrote; for `digests` and what a damaged folder raises see `open_index`."""
        indexes, triples, about = open_index(folder, digests)
        try:
            entities, relations = (tuple(map(str, about[f"{kind}_names"])) for kind in ("entity", "relation"))
            duplicates = {split: int(about["duplicates"][split]) for split in SPLITS}
            for names, kind in ((entities, "entities"), (relations, "relations")):
                if len(names) != about[kind]:
                    raise ValueError(f"it names {len(names)} {kind} where there are {about[kind]}")
            by_split = dict(zip(SPLITS, indexes, strict=True))
            return cls(
                str(about["name"]), entities, relations, by_split, duplicates, folder=folder, stored=triples
            )
        except (KeyError, TypeError, ValueError) as error:
            raise damage_error(folder, error) from error

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
            arrays = read_npz(data, _check_triples)
            added = {split: np.asarray(arrays[split], dtype=np.int32).reshape(-1, 3) for split in SPLITS}
        except (OSError, ValueError, KeyError) as error:
            raise TaskError(f"the triples of {name!r} are damaged and cannot be read: {error}") from error
        everything = np.concatenate(list(added.values()))
        bounds = np.array([len(entities), len(relations), len(entities)])
        if len(everything) and ((everything < 0).any() or (everything >= bounds).any()):
            raise TaskError(f"the triples of {name!r} do not belong to this vocabulary; save the model again")
        return from_ids(name, entities, relations, added)


def _check_triples(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
    """Refuse an array whose header does not fit triples, before its values are read."""
    if name not in SPLITS or dtype.kind not in "iu" or shape[1:] != (3,):
        raise ValueError(f"array {name!r} is {dtype} {list(shape)}, which are not triples")


def with_inverses(graph: Graph) -> Graph:
    """The graph with a relation more for each, its inverse, as the data sets of BetaE have: r + R is that of r."""
    relations = (*graph.relation_names, *(f"{name}^-1" for name in graph.relation_names))
    added = {}
    for split, triples in graph.added.items():
        added[split] = np.concatenate(
            [triples, triples[:, ::-1] + np.array([0, graph.relations, 0], np.int32)]
        )
    return from_ids(f"{graph.name}-inverses", graph.entity_names, relations, added)


def load_graph(source: str) -> Graph:
    """Read a graph from a folder, from an N-Triples file, or from pykeen by data set name; or open an index.

    A folder holds train, valid and test, each as .tsv, .txt or .nt, plain or with .gz. A line of a .tsv or .txt file is
    `head<TAB>relation<TAB>tail` in UTF-8, and spaces around names are dropped. One file by itself is all of it the
    train split. Ids are given in the order of the sorted names. UMLS, Kinships and Nations come with pykeen; others it
    downloads.

    Raises:
        TaskError: there is no such folder, file or data set, or a line is malformed; it is named by file and number.
    """
    path = Path(source).expanduser()
    if (path / DESCRIPTION).is_file():
        return Graph.open_folder(path.resolve())
    if path.is_dir():
        return from_names(path.resolve().name, read_folder(path))
    if path.is_file():
        name = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
        return from_names(name, {"train": read_file(path)})
    if "/" in source or "\\" in source or source.endswith(ENDINGS):
        raise TaskError(
            f"no folder or file {source!r}; give a folder with train.tsv, valid.tsv, test.tsv, one .tsv, .txt or "
            ".nt file, or a data set of pykeen"
        )
    return from_ids(source.lower(), *read_pykeen(source))


def from_names(name: str, triples: Mapping[Split, Iterable[Triple]]) -> Graph:
    """A graph from triples of names (head, relation, tail) per split; what is given may be an iterator."""
    entities, relations = dict[str, int](), dict[str, int]()
    numbered: dict[Split, NDArray[np.int32]] = {}
    for split in SPLITS:
        ids = array("i")
        for head, relation, tail in triples.get(split, ()):
            ids.append(entities.setdefault(head, len(entities)))
            ids.append(relations.setdefault(relation, len(relations)))
            ids.append(entities.setdefault(tail, len(entities)))
        numbered[split] = np.asarray(ids, np.int32).reshape(-1, 3)
    new_entity, new_relation = _alphabetical(entities), _alphabetical(relations)
    for split, rows in numbered.items():
        head, relation, tail = rows.T
        numbered[split] = np.stack([new_entity[head], new_relation[relation], new_entity[tail]], axis=1)
    return from_ids(name, sorted(entities), sorted(relations), numbered)


def from_ids(
    name: str, entities: Iterable[str], relations: Iterable[str], triples: Mapping[Split, NDArray[np.int32]]
) -> Graph:
    """A graph from numbered triples, int32 [n, 3] of head, relation, tail per split; duplicates are dropped."""
    entity_names, relation_names = tuple(entities), tuple(relations)
    if not entity_names or not relation_names:
        raise TaskError(f"the graph {name!r} has no triples")
    sizes = [len(triples[split]) for split in SPLITS]
    columns = np.concatenate([triples[split] for split in SPLITS]).T
    number = np.repeat(np.arange(len(SPLITS), dtype=np.uint8), sizes)
    head, relation, tail = columns
    indexes = Index.cumulative(head, relation, tail, number, len(entity_names), len(relation_names))
    kept = np.diff([0, *map(len, indexes)]).tolist()
    dropped = {split: n - count for split, n, count in zip(SPLITS, sizes, kept, strict=True)}
    return Graph(name, entity_names, relation_names, dict(zip(SPLITS, indexes, strict=True)), dropped)


def _alphabetical(ids: Mapping[str, int]) -> NDArray[np.int32]:
    """What each id becomes when ids follow the sorted names."""
    new = np.empty(len(ids), np.int32)
    new[[ids[name] for name in sorted(ids)]] = np.arange(len(ids), dtype=np.int32)
    return new


def _lookup(kind: str, name: str, ids: Mapping[str, int]) -> int:
    if (found := ids.get(name, ids.get(literal_name(name)))) is not None:
        return found
    # a graph may have too many names to compare or to list them all
    names = list(ids)
    if len(names) > 2000:
        names.sort(key=lambda other: -len(_trigrams(name) & _trigrams(other)))
    message = unknown(kind, name, nearest(name, names[:2000])[:10])
    raise TaskError(message if len(ids) <= 10 else message.replace(" Known: ", f" Nearest of {len(ids):,}: "))


def _trigrams(text: str) -> set[str]:
    return {text[i : i + 3] for i in range(max(len(text) - 2, 1))}

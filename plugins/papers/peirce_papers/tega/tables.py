"""What the tables of the paper need: their rows, cells and scales, read from `tables.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from attrs import evolve, field, frozen
from cattrs import Converter

from peirce.errors import TaskError
from peirce_kg import (
    FILTERINGS,
    KNOWLEDGE,
    PUBLISHED,
    STRATA,
    TYPE_GROUPS,
    Filtering,
    Knowledge,
    Predictor,
    TypeGroup,
)
from peirce_queries import QueryType, hard_types, load_types, select

PREFIX = "tega/"
"""What the names of these experiments begin with."""
PARAMETERS = "million parameters"
COSTS = ("thousand parameters", "ms of CPU a query")
"""The last columns of tables that say what models cost."""
GRAPH = ("relations", "entities", "training", "validation", "testing", "all edges")
"""The columns of tables in which nothing is ranked."""


@frozen
class Evaluation:
    """How a trained model is evaluated.

    Args:
        types: a group of query types.
        reverse: whether queries are written from their end.
        hard: whether it is on hard queries of the types of "+H", in place of a group.
    """

    types: str = "all"
    reverse: bool = False
    hard: bool = False

    @property
    def key(self) -> str:
        """What results call it, whatever tables it is in."""
        return "hard" if self.hard else self.types + ("-reversed" if self.reverse else "")


@frozen
class TegaRow:
    """One model of a table.

    Args:
        label: what the table calls it.
        spec: its ready spec; empty where the table is of graphs.
        settings: what differs from the scale's, by dotted key.
        scaled: what differs at one scale alone, by its name.
        without: keys of the scale's settings that its architecture has no place for.
        vectors: the link predictor whose vectors it begins with, if any.
        imported: what makes the model that is measured as it is, a command that is given the folder; empty of those
            that are trained.
        paper: what the paper printed, by its graph, in the order of the table's cells.
    """

    label: str
    spec: str = ""
    settings: Mapping[str, Any] = field(factory=dict)
    scaled: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    without: tuple[str, ...] = ()
    vectors: Predictor | None = None
    imported: str = ""
    paper: Mapping[str, tuple[float, ...]] = field(factory=dict)


_FILTERED: Mapping[Filtering, str] = {
    "before": "",
    "graph": ", test alone filtered",
    "graphs": ", all graphs filtered",
}


def stored_filtering(filtering: Filtering, knowledge: Knowledge) -> Filtering:
    """The filtering under which results are stored: for entailed answers `before` is `graph`."""
    return "graph" if (filtering, knowledge) == ("before", "entailed") else filtering


@frozen
class Column:
    """One column: the mean, over some types, of the MRR on some answers, in one evaluation, under one filtering."""

    evaluation: str
    types: TypeGroup
    knowledge: Knowledge
    filtering: Filtering = PUBLISHED

    @classmethod
    def parse(cls, text: str) -> Column:
        """Read `seen/inferred`, or `after:all/entailed`."""
        evaluation, _, rest = text.rpartition(":")
        types, _, knowledge = rest.partition("/")
        if types not in TYPE_GROUPS or knowledge not in (*KNOWLEDGE, *STRATA):
            raise TaskError(f"{text!r} is not a cell of a table, such as seen/inferred")
        return cls(evaluation, types, knowledge)

    def __str__(self) -> str:
        evaluation = f"{self.evaluation}: " if self.evaluation else ""
        return f"{evaluation}{self.types} types, {self.knowledge}{_FILTERED[self.filtering]}"


Measure = Literal["mrr", "parameters", "graph"]
"""What a table holds: how well models rank answers, how many parameters they have, or how large graphs are."""


@frozen
class TegaTable:
    """A table.

    Args:
        name: such as `table7`.
        title: what it shows.
        rows: its models.
        measure: what it holds.
        cells: its columns, where models are ranked, as the paper has them; those of other filterings follow.
        types: the group of query types that the models are trained on, as far as they are seen, and evaluated on.
        evaluations: by the names that the cells use; one of all types without a name where there is none.
        costs: whether the columns `COSTS` follow.
    """

    name: str
    title: str
    rows: tuple[TegaRow, ...]
    measure: Measure = "mrr"
    cells: tuple[Column, ...] = ()
    types: str = "all"
    evaluations: Mapping[str, Evaluation] = field(factory=dict)
    costs: bool = False

    @property
    def measured_columns(self) -> tuple[Column, ...]:
        """Its columns under every filtering, the published one first, no figure twice; of strata that one alone."""
        found: dict[Column, Column] = {}
        for filtering in FILTERINGS:
            for cell in self.cells:
                if cell.knowledge in STRATA and filtering != PUBLISHED:
                    continue
                kept = evolve(cell, filtering=stored_filtering(filtering, cell.knowledge))
                found.setdefault(kept, evolve(cell, filtering=filtering))
        return tuple(found.values())

    def split(self) -> TegaTable:
        """The table with columns for the inferred answers that miss 1, 2, ... links, and for hard ones."""
        strata = [evolve(c, knowledge=k) for c in self.cells if c.knowledge == "inferred" for k in STRATA]
        return evolve(self, cells=tuple(dict.fromkeys([*self.cells, *strata])))

    @property
    def columns(self) -> tuple[str, ...]:
        """The heads of its columns."""
        ranked = (*map(str, self.measured_columns), *(COSTS if self.costs else ()))
        return {"mrr": ranked, "parameters": (PARAMETERS,), "graph": GRAPH}[self.measure]

    @property
    def graphs(self) -> tuple[str, ...]:
        """The graphs that the paper has figures of."""
        return tuple(dict.fromkeys(graph for row in self.rows for graph in row.paper))

    @property
    def all_evaluations(self) -> Mapping[str, Evaluation]:
        """The evaluations by name."""
        return self.evaluations or {"": Evaluation(types=self.types)}


@frozen
class Scale:
    """A size of everything.

    Args:
        name: such as `small`.
        about: what it means, in a line.
        settings: of models, task and training, by dotted key.
    """

    name: str
    about: str
    settings: Mapping[str, Any]


@frozen
class Definitions:
    """All tables.

    Args:
        tables: by name.
        scales: by name.
        groups: names that stand for lists of query types, beside those of every types file.
    """

    tables: Mapping[str, TegaTable]
    scales: Mapping[str, Scale]
    groups: Mapping[str, tuple[str, ...]]

    def types(self, group: str) -> tuple[str, ...]:
        """What a task's option of types is given for a group."""
        return self.groups.get(group, (group,))

    def kinds(self, evaluation: Evaluation) -> tuple[QueryType, ...]:
        """The query types of an evaluation."""
        if evaluation.hard:
            return tuple(hard_types().values())
        return select(self.types(evaluation.types), load_types())


@cache
def definitions() -> Definitions:
    """The tables that come with Peirce."""
    data = tomllib.loads((files(__package__) / "tables.toml").read_text(encoding="utf-8"))
    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(Column, lambda text, _: Column.parse(text))
    groups = {name: tuple(types) for name, types in data["groups"].items()}
    tables = {
        name: converter.structure({"name": name, **table}, TegaTable)
        for name, table in data["tables"].items()
    }
    scales = {
        name: converter.structure({"name": name, **scale}, Scale) for name, scale in data["scales"].items()
    }
    return Definitions(tables, scales, groups)

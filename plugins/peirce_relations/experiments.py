"""`peirce experiments run relations/NAME`: networks over relations, trained on short paths and tested on longer ones.

The networks have one size and are trained alike, several seeds each. Those whose rounds share their weights are also
tested with other numbers of rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import evolve, field, frozen
from peirce.experiments import (
    Arm,
    Cell,
    FigureTable,
    NetworkRow,
    Networks,
    Scale,
    TableExperiment,
    accuracies,
    identity,
)
from peirce.files import write_whole

from peirce_relations.calculi.algebra import calculus
from peirce_relations.calculi.problems import Paths, block
from peirce_relations.graphs import Problem

if TYPE_CHECKING:
    from peirce.model import Model

    from peirce_relations.task import RelationsData

MANY = 200
"""Problems that are made for a number of edges in a path and of paths, where none are published."""
TEXT = "BERT on edges as text"
_GRAPH = {
    "model.dims": {
        "layers": 4,
        "unary": 32,
        "binary": 32,
        "heads": 4,
        "head_size": 8,
        "feedforward_unary": 64,
        "feedforward_binary": 64,
    },
    "model.regularisation.dropout": 0.0,
    "model.regularisation.init_std": 0.1,
}
MORE = (-2, -1, 0, 2, 4)
"""Rounds more than in training that networks are tested with whose rounds share their weights."""
TRAIN = "train.jsonl"
SCALES = {
    "small": Scale(
        about="4 rounds of 32, 2,000 steps of 64 problems",
        settings={"train.steps": 2000, "train.lr": 3e-3},
    ),
    "paper": Scale(
        about="8 rounds of 200, 50 passes of 400 problems, as the Edge Transformer was published",
        settings={
            "model.dims.layers": 8,
            "model.dims.binary": 200,
            "model.dims.unary": 200,
            "model.dims.head_size": 50,
            "model.dims.feedforward_unary": 800,
            "model.dims.feedforward_binary": 800,
            "task.batch_size": 400,
            "train.epochs": 50,
            "train.lr": 1e-3,
        },
    ),
}
_RELATIONAL = ("model.dims.binary", "model.dims.feedforward_unary", "model.dims.feedforward_binary")
"""What a network without relations does not have."""
_WIDTH = "model.dims.feedforward_binary"


def _graph(name: str, spec: str, **options: Any) -> Arm:
    changes = {**_GRAPH, "model.options.share": True}
    return Arm(name=name, spec=spec, changes=changes, width=_WIDTH, **options)


ARMS = (
    Arm(name="FOLNet (jmc.atp)", spec="relational-folnet", changes=_GRAPH),
    _graph("trans", "relational-trans"),
    _graph("trans and edge attention", "relational-trans-edges"),
    _graph("Edge Transformer", "edge-transformer"),
    _graph("triangle", "triangle"),
    evolve(_graph("RAT", "rat"), width="model.dims.feedforward_unary"),
    Arm(
        name=TEXT,
        spec="bert-base",
        changes={
            "model.dims": {"layers": 4, "unary": 32, "heads": 4, "feedforward": 64},
            "model.input.token_types": 0,
            "model.positions": [{"use": "shaw", "clip": 4}],
            "model.regularisation.dropout": 0.0,
            "model.regularisation.init_std": 0.1,
        },
        width="model.dims.feedforward",
    ),
)


@frozen(kw_only=True)
class GraphRow(NetworkRow):
    """How a run does on the problems of one number of edges in a path, and of paths.

    Args:
        k: the edges of a path.
        b: how many paths there are.
        more: the rounds that answered, less those of the training.
        problems: how many there are.
    """

    k: int = field(converter=int)
    b: int = field(converter=int)
    more: int = field(converter=int)
    problems: int = field(converter=int)

    count = "problems"
    groups = ("k",)


class RelationNetworks(Networks[GraphRow]):
    """The networks on a folder of problems, such as CLUTRR's."""

    row = GraphRow
    learns = "relations"
    arms: ClassVar[Mapping[str, Arm]] = {arm.name: arm for arm in ARMS}
    constant = "commonest answer"
    aside: ClassVar[Mapping[str, Any]] = {"data": "", "test": ""}
    title: ClassVar[str] = "CLUTRR's graphs"
    many: ClassVar[int] = 0
    """The edges of a path for which accuracy by the number of paths is shown; 0 for none."""

    def places(self) -> Mapping[str, Any]:
        """The problems."""
        return {"task.data": self.request.data}

    @cached_property
    def text(self) -> Any:
        """The task with the same problems as texts."""
        return self.made({**self.settings[1], "form": "text"})[""]

    def changed(self, label: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The network that reads texts has no relations, and the words of its own task."""
        if label != TEXT:
            return super().changed(label, given)
        found = super().changed(label, self.text.overrides(self.prepared.of(self.text)))
        return {key: value for key, value in found.items() if key not in _RELATIONAL}

    def cells(self) -> Iterator[Cell]:
        """The trainings; one of the networks reads texts."""
        for cell in super().cells():
            told = self.told("", self.text)
            run = identity(cell.spec, told, cell.training, cell.seed)
            yield evolve(cell, task=self.text, run=run) if cell.label == TEXT else cell

    def counted(self, model: Model, data: RelationsData) -> Iterator[dict[str, Any]]:
        """The test problems of each number of steps and paths; where rounds share their weights, by rounds."""
        from peirce.compose import build

        problems = data.of("test")
        sizes = np.array([(each.steps, each.paths) for each in problems])
        shares = model.spec.options.get("share", False)
        for more in MORE if shares else (0,):
            spec = model.spec.replace({"model.dims.layers": model.spec.dims["layers"] + more})
            asked = build(spec, registry=self.registry)
            asked.load_state_dict(model.state_dict())
            right = (self.task if data.relations.kinds == 1 else self.text).right(asked, data, "test")
            for k, b in np.unique(sizes, axis=0):
                own = (sizes == (k, b)).all(1)
                counts = {"problems": int(own.sum()), "right": int(right[own].sum())}
                yield {"split": "test", "k": int(k), "b": int(b), "more": more, **counts}

    def wanted(self, row: GraphRow) -> bool:
        """Whether a result is one of a single path with the rounds of the training."""
        return row.more == 0 and row.b == 1

    def baseline(self, data: RelationsData) -> dict[str, tuple[dict[str, object], float]]:
        """Always giving the training problems' commonest answer, by steps of a single path."""
        return self._commonest(data, "k", b=1)

    def _commonest(
        self, data: RelationsData, by: str, **only: int
    ) -> dict[str, tuple[dict[str, object], float]]:
        guess = Counter(each.answer for each in data.of("train")).most_common(1)[0][0]
        found: dict[int, list[bool]] = {}
        for each in data.of("test"):
            sizes = {"k": each.steps, "b": each.paths}
            if all(sizes[name] == value for name, value in only.items()):
                found.setdefault(sizes[by], []).append(each.answer == guess)
        where: dict[str, object] = {**only, "more": 0}
        return {
            str(value): ({by: value, **where}, float(np.mean(own))) for value, own in sorted(found.items())
        }

    def tables(self, rows: Sequence[GraphRow]) -> Sequence[FigureTable]:
        """Accuracy by edges of a path, by paths, and by rounds."""
        return (self.table(rows), *([self.by_paths(rows)] if self.many else []), self.by_rounds(rows))

    def table(self, rows: Sequence[GraphRow]) -> FigureTable:
        """Accuracy by network and edges of a path."""
        trained = sorted({str(each.steps) for each in self.data.of("train")})
        return self.accuracies(
            rows,
            f"{self.title}, one path",
            self.about,
            across="edges of the path",
            shaded=(trained, "trained on"),
        )

    @property
    def about(self) -> str:
        """How many problems are learnt, and of which sizes."""
        train = self.data.of("train")
        return f"{len(train):,} problems of {_said(train, 'steps')} edges in a path, {_said(train, 'paths')} paths."

    def by_paths(self, rows: Sequence[GraphRow]) -> FigureTable:
        """Accuracy by network and number of paths."""
        columns = self._commonest(self.data, "b", k=self.many)
        trained = sorted({str(each.paths) for each in self.data.of("train")})
        told = {"name": "paths", "across": "paths", "shaded": (trained, "trained on")}
        return self.accuracies(
            rows, f"{self.title}, paths of {self.many} edges", self.about, columns=columns, **told
        )

    def by_rounds(self, rows: Sequence[GraphRow]) -> FigureTable:
        """Accuracy on the longest single path, by rounds more or less than trained with."""
        longest = max(row.k for row in rows if row.b == 1)
        shared = [row for row in rows if any(r.more and r.run == row.run for r in rows)]

        def accuracy(label: str, column: str) -> tuple[float, ...]:
            return accuracies(shared, arm=label, k=longest, b=1, more=int(column))

        return self.beside(
            shared,
            [f"{more:+d}" if more else "0" for more in MORE],
            accuracy,
            {},
            name="rounds",
            title=f"{self.title}, a path of {longest} edges, by rounds more than trained with",
            about=self.about,
            facts=[f"Accuracy in %, {self.over_seeds}."],
            unit="accuracy (%)",
        )


class MadeNetworks(RelationNetworks):
    """The networks on problems that are made, in the folder of the results; published test problems are taken first."""

    algebra: ClassVar[str]
    train: ClassVar[tuple[int, tuple[int, ...], tuple[int, ...]]] = (20_000, (2, 3), (1, 2, 3))
    """How many problems are made for training, of which numbers of edges in a path, and of paths."""
    sizes: ClassVar[Sequence[tuple[int, int]]]
    """The edges of a path and the paths of the test problems, where none of them are published."""

    def places(self) -> Mapping[str, Any]:
        """A folder of problems, which is made where it is not there."""
        folder = self.request.directory / f"problems-{self.algebra}"
        if not (folder / TRAIN).exists():
            self._make(folder)
        return {"task.data": str(folder)}

    def _make(self, folder: Path) -> None:
        """Write the problems, those for training last."""

        def lines(
            name: str, steps: tuple[int, ...], branches: tuple[int, ...], count: int, seed: int
        ) -> None:
            paths = Paths(calculus(self.algebra), max(steps))
            made = block(paths, {"steps": steps, "branches": branches}, seed, 0, count)
            write_whole(folder / name, "".join(map(Problem.line, made)))

        folder.mkdir(parents=True, exist_ok=True)
        published = {path.name.split(".")[0]: path for path in Path(self.request.data).glob("*.jsonl*")}
        for name, path in published.items():
            if name.startswith(f"{self.algebra}_"):
                write_whole(folder / f"test_{path.name}", path.read_bytes())
        for k, b in self.sizes:
            if f"{self.algebra}_k{k}_b{b}" not in published:
                lines(f"test_{self.algebra}_k{k}_b{b}.jsonl", (k,), (b,), MANY, 1)
        count, steps, branches = self.train
        lines(TRAIN, steps, branches, count, 0)


class Rcc8Networks(MadeNetworks):
    """The networks on RCC-8."""

    algebra, title, many = "rcc8", "RCC-8", 3
    sizes: ClassVar[Sequence[tuple[int, int]]] = (
        *((k, 1) for k in range(2, 11)),
        *((3, b) for b in range(2, 9)),
    )


class IntervalNetworks(Rcc8Networks):
    """The networks on Allen's intervals."""

    algebra, title = "interval", "Allen's intervals"


def _said(problems: Sequence[Problem], what: str) -> str:
    found = sorted({str(getattr(each, what)) for each in problems})
    return " or ".join(filter(None, [", ".join(found[:-1]), found[-1]]))


def _experiment(matrix: type[RelationNetworks], name: str, title: str) -> TableExperiment:
    return TableExperiment(
        name=f"relations/{name}",
        title=title,
        rows=tuple(arm.name for arm in ARMS),
        columns=tuple(map(str, range(2, 11))),
        folder=f"runs/{name}",
        matrix=matrix,
        sizes=SCALES,
    )


EXPERIMENTS = (
    _experiment(RelationNetworks, "clutrr", "Kinship by graphs of more facts than were trained on"),
    _experiment(Rcc8Networks, "rcc8", "RCC-8: longer and more paths than were trained on"),
    _experiment(
        IntervalNetworks, "intervals", "Allen's intervals: longer and more paths than were trained on"
    ),
)

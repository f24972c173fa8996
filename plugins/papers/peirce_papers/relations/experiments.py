"""`peirce experiments run relations/NAME`: networks over relations, trained on short paths and tested on longer ones.

The networks have one size and are trained alike, several seeds each. Those whose rounds share their weights are also
tested with other numbers of rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import evolve, field, frozen

from peirce.files import write_whole
from peirce.registry import load_spec
from peirce_relations.calculi.baselines import majority, path_only
from peirce_relations.calculi.sources import BLOCK, block, source
from peirce_relations.graphs import Problem
from peirce_training.experiments import (
    Arm,
    Cell,
    Figure,
    FigureTable,
    NetworkRow,
    Networks,
    Scale,
    TableExperiment,
    accuracies,
    identity,
)

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce_relations.task import RelationsData

MANY = 200
"""Problems that are made for a number of edges in a path and of paths, where none are published."""
TEXT = "BERT on edges as text"
_DIMS = {
    "layers": 4,
    "unary": 32,
    "binary": 32,
    "heads": 4,
    "head_size": 8,
    "feedforward_unary": 64,
    "feedforward_binary": 64,
}
MORE = (-1, 0, 1, 2, 4)
"""Rounds more than in training that networks are tested with whose rounds share their weights."""
TRAIN, LEVEL = "train.jsonl", 3
SCALES = {
    "small": Scale(
        about="4 rounds of 32, 1,000 steps of 64 problems",
        settings={
            "train.steps": 1000,
            "train.lr": 3e-3,
            "model.regularisation.dropout": 0.1,
            "model.regularisation.init_std": 0.1,
        },
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
            "model.regularisation.dropout": 0.2,
        },
    ),
}
_RELATIONAL = ("model.dims.binary", "model.dims.feedforward_unary", "model.dims.feedforward_binary")
"""What a network without relations does not have."""


def _graph(name: str, spec: str, layers: int = 4) -> Arm:
    changes = {"model.dims": {**_DIMS, "layers": layers}, "model.options.share": True}
    return Arm(name=name, spec=spec, changes=changes, width="model.dims.feedforward_binary")


def _text(name: str, spec: str, heads: int, **more: Any) -> Arm:
    """A transformer that reads edges as a text."""
    changes = {
        "model.dims": {"layers": 4, "unary": 32, "heads": heads, "feedforward": 64},
        "model.input.token_types": 0,
        "model.positions": [{"use": "shaw", "clip": 4}],
    }
    return Arm(name=name, spec=spec, changes=changes, width="model.dims.feedforward", **more)


def _dual(name: str, **options: Any) -> Arm:
    """Two heads of attention and two of relational attention, each of 6 channels, which leaves some for the rest."""
    layer = [{"use": "attention"}, {"use": "relational_attention", "count": 8, **options}]
    own = {"model.operators.layer": layer, "model.options": {}, "model.dims.head_size": 6}
    return _text(name, "dual-attention", 2, own=own)


TEXTS = (
    _text(TEXT, "bert-base", 4),
    _dual("dual attention on edges as text"),
    _dual("relational cross-attention on edges as text", cross=True),
)
"""Those that see no graph."""
ARMS = (
    Arm(name="FOLNet (jmc.atp)", spec="relational-folnet", changes={"model.dims": _DIMS}),
    _graph("trans", "relational-trans"),
    _graph("trans and edge attention", "relational-trans-edges"),
    _graph("Edge Transformer", "edge-transformer"),
    _graph("chain, 3 rounds", "relational-chain", 3),
    _graph("FOLNet, 2 to 5 rounds", "relational-rounds", 5),
    Arm(
        name="compose, 2 to 5 rounds",
        spec="relational-compose",
        changes={},
        own={"train.lr": 2e-2, "model.regularisation.dropout": 0.4},
    ),
    _graph("triangle", "triangle"),
    _graph("RAT, relations updated", "rat-updated"),
    *TEXTS,
)

LONGER = tuple(evolve(ARMS[i], name=f"{ARMS[i].name}, 3 times the steps", longer=3.0) for i in (0, 5, 6))
"""What some reach in about the time of the slowest network; only on demand."""
SHARP = Arm(
    name="compose, begun sharp",
    spec="relational-compose",
    changes={
        "model.dims.layers": 4,
        "model.dims.binary": 32,
        "model.options.vary": 0,
        "model.operators": {"layer": [], "state": [{"use": "compose", "facets": 4, "spread": 3.0}]},
        "model.positions.0.spread": 2.0,
        "model.heads.0.facets": 4,
    },
    own={"train.lr": 3e-2, "model.regularisation.dropout": 0.0},
)
"""For long ways through exact relations; only on demand."""


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
    arms: ClassVar[Mapping[str, Arm]] = {arm.name: arm for arm in (*ARMS, *LONGER, SHARP)}
    constant = "commonest answer"
    aside: ClassVar[Mapping[str, Any]] = {"data": "", "test": ""}
    title: ClassVar[str] = "CLUTRR's graphs"
    shown: ClassVar[int] = 1
    """How many paths the problems have whose accuracy is shown by edges of a path."""
    many: ClassVar[int] = 0
    """The edges of a path for which accuracy by the number of paths is shown; 0 for none."""

    def places(self) -> Mapping[str, Any]:
        """The problems."""
        return {"task.data": self.request.data}

    @cached_property
    def text(self) -> Any:
        """The task with the same problems as texts."""
        return self.make_tasks({**self.settings[1], "form": "text"})[""]

    def spec_changes(self, label: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """A network that reads texts has no relations, and the words of its own task."""
        if not self.reads_text(label):
            spec = load_spec(self.arms[label].spec)
            return super().spec_changes(label, self.task.overrides_for(spec, self.prepared.get(self.task)))
        found = super().spec_changes(label, self.text.overrides(self.prepared.get(self.text)))
        return {key: value for key, value in found.items() if key not in _RELATIONAL}

    def cells(self) -> Iterator[Cell]:
        """The trainings; some of the networks read texts."""
        for cell in super().cells():
            settings = self.task_identity("", self.text)
            run = identity(cell.spec, settings, cell.training, cell.seed)
            yield evolve(cell, task=self.text, run=run) if self.reads_text(cell.label) else cell

    def reads_text(self, label: str) -> bool:
        """Whether a network reads the edges as a text."""
        return any(arm.name == label for arm in TEXTS)

    def count_right(self, model: Model, data: RelationsData) -> Iterator[dict[str, Any]]:
        """The test problems of each number of steps and paths; the longest also with more rounds, where these share."""
        from peirce.compose import build

        task = self.task if data.relations.kinds == 1 else self.text
        longest = max(each.steps for each in data.of("test") if each.paths == self.shown)
        for more in MORE if model.spec.options.get("share") else (0,):
            few = [each for each in data.of("test") if (each.steps, each.paths) == (longest, self.shown)]
            some = evolve(data, splits={"test": few}) if more else data
            spec = model.spec.replace({"model.dims.layers": model.spec.dims["layers"] + more})
            rebuilt = build(spec, registry=self.registry)
            rebuilt.load_state_dict(model.state_dict())
            right = task.right(rebuilt, some, "test")
            sizes = np.array([(each.steps, each.paths) for each in some.of("test")])
            for k, b in np.unique(sizes, axis=0):
                here = (sizes == (k, b)).all(1)
                counts = {"problems": int(here.sum()), "right": int(right[here].sum())}
                yield {"split": "test", "k": int(k), "b": int(b), "more": more, **counts}

    def is_wanted(self, row: GraphRow) -> bool:
        """Whether a result is one that the first table shows."""
        return row.more == 0 and row.b == self.shown

    def baseline(self, data: RelationsData) -> dict[str, tuple[dict[str, object], float]]:
        """Always giving the training problems' commonest answer, by edges of the path."""
        return self._commonest(data, "k", b=self.shown)

    def _commonest(
        self, data: RelationsData, by: str, **only: int
    ) -> dict[str, tuple[dict[str, object], float]]:
        problems = data.of("test")
        guesses = majority(data.of("train"), problems)
        found: dict[int, list[bool]] = {}
        for each, guess in zip(problems, guesses, strict=True):
            sizes = {"k": each.steps, "b": each.paths}
            if all(sizes[name] == value for name, value in only.items()):
                found.setdefault(sizes[by], []).append(each.answer == guess)
        where: dict[str, object] = {**only, "more": 0}
        return {
            str(value): ({by: value, **where}, float(np.mean(hits))) for value, hits in sorted(found.items())
        }

    def tables(self, rows: Sequence[GraphRow]) -> Sequence[FigureTable]:
        """Accuracy by edges of a path, by paths, and by rounds."""
        return (self.table(rows), *([self.by_paths(rows)] if self.many else []), self.by_rounds(rows))

    def table(self, rows: Sequence[GraphRow]) -> FigureTable:
        """Accuracy by network and edges of a path."""
        trained = sorted({str(each.steps) for each in self.data.of("train")})
        return self.accuracies(
            rows,
            self.title,
            self.about,
            across="edges of the path",
            shaded=(trained, "trained on"),
        )

    @property
    def about(self) -> str:
        """How many problems are learnt, and of which sizes."""
        train = self.data.of("train")
        return f"{len(train):,} problems of {_describe(train, 'steps')} edges in a path."

    def by_paths(self, rows: Sequence[GraphRow]) -> FigureTable:
        """Accuracy by network and number of paths."""
        columns = self._commonest(self.data, "b", k=self.many)
        trained = sorted({str(each.paths) for each in self.data.of("train")})
        options = {"name": "paths", "across": "paths", "shaded": (trained, "trained on")}
        return self.accuracies(
            rows, f"{self.title}, paths of {self.many} edges", self.about, columns=columns, **options
        )

    def by_rounds(self, rows: Sequence[GraphRow]) -> FigureTable:
        """Accuracy on the longest single path, by rounds more or less than trained with."""
        longest = max(row.k for row in rows if row.b == self.shown)
        shared = [row for row in rows if any(r.more and r.run == row.run for r in rows)]

        def accuracy(label: str, column: str) -> tuple[float, ...]:
            return accuracies(shared, arm=label, k=longest, b=self.shown, more=int(column))

        return self.comparison_table(
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

    kinds: ClassVar[tuple[str, ...]]
    """What makes the problems, evenly; where there are several, their number stands for that of paths."""
    train: ClassVar[tuple[int, tuple[int, ...], tuple[int, ...]]] = (20_000, (2, 3), (1, 2, 3))
    """How many problems are made for training, of which numbers of edges in a path, and of paths."""
    sizes: ClassVar[Sequence[tuple[int, int]]]
    """The edges of a path and the paths of the test problems, where none of them are published."""

    def places(self) -> Mapping[str, Any]:
        """A folder of problems, which is made where it is not there."""
        folder = self.request.directory / f"problems-{self.kinds[0].replace(':', '-')}"
        if not (folder / TRAIN).exists():
            self._make(folder)
        return {"task.data": str(folder)}

    def _make(self, folder: Path) -> None:
        """Write the problems, those for training last."""
        folder.mkdir(parents=True, exist_ok=True)
        published = {path.name.split(".")[0]: path for path in Path(self.request.data).glob("*.jsonl*")}
        for name, path in published.items():
            if name.startswith(f"{self.kinds[0]}_"):
                write_whole(folder / f"test_{path.name}", path.read_bytes())
        for k, b in self.sizes:
            name = f"{self.kinds[0]}_k{k}_b{b}".replace(":", "-")
            if name not in published:
                write_whole(folder / f"test_{name}.jsonl", _lines(self._make_problems((k,), (b,), MANY, 1)))
        count, steps, branches = self.train
        problems_of = source(self.kinds[0])
        taught = (
            evolve(each, also=tuple(problems_of.decided_pairs(each)))
            for each in self._make_problems(steps, branches, count, 0)
        )
        write_whole(folder / TRAIN, _lines(taught))

    def _make_problems(
        self, steps: tuple[int, ...], branches: tuple[int, ...], count: int, seed: int
    ) -> Iterator[Problem]:
        if len(self.kinds) == 1:
            yield from _problems(self.kinds[0], steps, branches, count, seed)
            return
        for number in branches:
            for problem in _problems(self.kinds[number - 1], steps, (1,), count // len(branches), seed):
                yield evolve(problem, paths=number)


class Rcc8Networks(MadeNetworks):
    """The networks on RCC-8."""

    kinds, title, many = ("rcc8",), "RCC-8", 3
    sizes: ClassVar[Sequence[tuple[int, int]]] = (
        *((k, 1) for k in range(2, 11)),
        *((3, b) for b in range(2, 9)),
    )


class IntervalNetworks(Rcc8Networks):
    """The networks on Allen's intervals."""

    kinds, title = ("interval",), "Allen's intervals"


class RandomNetworks(MadeNetworks):
    """The networks on a relation algebra whose table is drawn, and is not associative."""

    kinds, title, many = ("random:8:0",), "A random algebra", 3
    sizes: ClassVar[Sequence[tuple[int, int]]] = (*((k, 1) for k in range(2, 11)), (3, 2), (3, 3))


class OffPathNetworks(MadeNetworks):
    """The networks where facts off the path decide; the level of a problem stands for its number of paths."""

    kinds, title, shown = ("offpath:1", "offpath:2", "offpath:3"), "Off the path", LEVEL
    train: ClassVar[tuple[int, tuple[int, ...], tuple[int, ...]]] = (20_000, (2, 3), (1, 2, 3))
    sizes: ClassVar[Sequence[tuple[int, int]]] = tuple((k, level) for k in range(2, 7) for level in (1, 2, 3))

    def table(self, rows: Sequence[GraphRow]) -> FigureTable:
        """Accuracy at the third level, beside what is reached by the facts on paths alone."""
        data = self.data
        some = [each for each in data.of("test") if each.paths == LEVEL]
        train = [each for each in data.of("train") if each.paths == LEVEL]
        known, found = path_only(source(self.kinds[-1]), train, some), self.baseline(data)
        figures = {
            k: [
                each.answer == answer
                for each, answer in zip(some, known, strict=True)
                if str(each.steps) == k
            ]
            for k in found
        }
        label = "facts on paths alone"
        row = [Figure(row=label, column=k, values=(100 * float(np.mean(figures[k])),)) for k in found]
        table = super().table(rows)
        return evolve(table, figures={**table.figures, label: row}, constant=(*table.constant, label))


def _lines(problems: Iterable[Problem]) -> str:
    return "".join(map(Problem.line, problems))


def _problems(
    name: str, steps: tuple[int, ...], branches: tuple[int, ...], count: int, seed: int
) -> Iterator[Problem]:
    kind, sizes = source(name, max(steps)), {"steps": steps, "branches": branches}
    for number in range(-(-count // BLOCK)):
        yield from block(kind, sizes, seed, number, min(BLOCK, count - number * BLOCK))


def _describe(problems: Sequence[Problem], what: str) -> str:
    found = sorted({str(getattr(each, what)) for each in problems})
    return " or ".join(filter(None, [", ".join(found[:-1]), found[-1]]))


def _experiment(matrix: type[RelationNetworks], name: str, title: str) -> TableExperiment:
    return TableExperiment(
        name=f"relations/{name}",
        title=title,
        rows=tuple(arm.name for arm in ARMS),
        more=tuple(arm.name for arm in (*LONGER, SHARP)),
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
    _experiment(RandomNetworks, "random", "A drawn relation algebra: longer paths than were trained on"),
    _experiment(
        OffPathNetworks, "offpath", "Answers by facts off the path: longer paths than were trained on"
    ),
)

"""What the tasks on texts share: the relations of their texts, and the levels of them that a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen, validators
from rich.console import Console

from peirce.errors import TaskError
from peirce.model import Model
from peirce_logic.detection.algorithm import Relation
from peirce_logic.detector import Detector


@frozen(kw_only=True, slots=False)  # so that it stands beside another class of options
class RelationOptions:
    """How the relations of texts are found.

    Args:
        depth: the levels of `logical_ids`, as many as the model's augmenter `logical` has; 0 for a model without it.
        parser: what finds constituents for them, as `peirce logic detect` takes it.
        lexicon: a file of logical keywords; the English ones when empty.
        cache: a file that keeps the relations that are found; none when empty.
        processes: how many parse at once.
        senses: a file of classifiers of senses; the tree around a keyword says when empty.
    """

    depth: int = field(default=0, validator=validators.ge(0))
    parser: str = "spacy"
    lexicon: str = ""
    cache: str = ""
    processes: int = field(default=1, validator=validators.ge(1))
    senses: str = ""

    @property
    def parsed(self) -> bool:
        """Whether relations are found."""
        return self.depth > 0


def relations_of(options: RelationOptions, texts: Iterable[str]) -> Mapping[str, tuple[Relation, ...]]:
    """The relations of each text; of none where the model reads none, which needs no parser.

    Args:
        options: a task's.
        texts: they may repeat.
    """
    lexicon, cache, senses = (file or None for file in (options.lexicon, options.cache, options.senses))
    settings = (options.parser, lexicon, cache, options.processes, senses)
    return Detector(*settings).relations(texts, Console(stderr=True)) if options.parsed else {}


def check_levels(model: Model, depth: int) -> None:
    """Refuse a model whose augmenter `logical` reads another number of levels than the task gives."""
    dims = {spec.name: spec.dims for spec in model.signature.inputs}.get("logical_ids")
    if dims is not None and dims[1] != depth:
        raise TaskError(
            f"the augmenter 'logical' of {model.spec.name!r} reads {dims[1]} levels, and task.depth is {depth}; set "
            f"task.depth = {dims[1]}"
        )

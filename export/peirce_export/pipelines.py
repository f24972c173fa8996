"""The contract of pipelines, which turn whole questions into inputs of a model, and its outputs into answers.

A server puts a pipeline in front of an exported model. This module needs no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from attrs import evolve, frozen

from peirce.parts import Signature, TensorSpec
from peirce.registry import Registry, fitting_classes
from peirce_export.hooks import PIPELINES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peirce.model import Generated

Kind = Literal["text", "int64", "float", "bool"]


@frozen(kw_only=True)
class Field:
    """One named value of a question or an answer.

    Args:
        name: its name at the server.
        kind: the type of its value; a `float` is a float32.
        many: whether it is a list.
        required: whether a question must give it.
        meaning: one sentence for the reader.
    """

    name: str
    kind: Kind
    many: bool = False
    required: bool = True
    meaning: str = ""


class Runner(Protocol):
    """What runs the model of a pipeline: a `peirce.Session`, or a server that looks like one."""

    @property
    def signature(self) -> Signature:
        """The inputs and outputs."""

    @property
    def providers(self) -> tuple[str, ...]:
        """What computes."""

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """The outputs by name."""

    def generate(self, inputs: Mapping[str, Any], **settings: Any) -> tuple[Generated, ...]:
        """A text for each prompt."""


Say = Callable[[Mapping[str, Any]], None]
"""Called with an answer, or with one after the other where they come in pieces."""


class Pipeline(ABC):
    """Answers whole questions with a model: a text goes in, and names, scores or a text come out, without torch.

    Attributes:
        question: what is asked, by name.
        answer: what comes out, by name.
        streams: whether a question has many answers, one after the other, each with more than the one before.
    """

    question: ClassVar[tuple[Field, ...]]
    answer: ClassVar[tuple[Field, ...]]
    streams: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def answers(cls, signature: Signature, assets: Collection[str], generates: bool) -> bool:
        """Whether the pipeline fits a model.

        Args:
            signature: the model's.
            assets: the names of the files that the model keeps in `assets/`.
            generates: whether the file was exported to generate.
        """

    @abstractmethod
    def __init__(self, folder: Path, model: Runner) -> None:
        """Read the files that the pipeline needs.

        Args:
            folder: of a saved model; its weights may be missing.
            model: runs the model.

        Raises:
            ModelFileError: a file is missing or damaged.
        """

    def labels(self) -> Mapping[str, Sequence[str]]:
        """By output, the names of the things that it scores, in the order of its last dim; by default none."""
        return {}

    @abstractmethod
    def example(self) -> Mapping[str, Any]:
        """A question that can be answered; a server warms up with it."""

    @abstractmethod
    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Answer one question.

        Args:
            question: the values of the given fields; a list for a field with `many`.
            say: called with the answer.

        Raises:
            PeirceError: the question cannot be answered; the message names what is wrong with it.
        """


def pipelines_for(
    signature: Signature, assets: Collection[str], generates: bool, registry: Registry | None = None
) -> dict[str, type[Pipeline]]:
    """The pipelines that fit a model, by name; one that another fitting pipeline extends is left out.

    A pipeline that fails is reported and left out.

    Args:
        signature, assets, generates: of the model, as `Pipeline.answers` takes them.
        registry: where to look; what is installed and active if None.
    """
    return fitting_classes(
        PIPELINES, Pipeline, lambda each: each.answers(signature, assets, generates), registry
    )


def inputs_without_a_field(signature: Signature, assets: Collection[str], generates: bool) -> list[str]:
    """The required inputs that keep pipelines from a model, since a question has no field for them."""

    def fits(required: Collection[TensorSpec]) -> bool:
        inputs = [
            each if each in required else evolve(each, required=False, default=each.default or 0)
            for each in signature.inputs
        ]
        return bool(pipelines_for(Signature(inputs, signature.outputs), assets, generates))

    return [each.name for each in signature.inputs if each.required and fits(()) and not fits((each,))]

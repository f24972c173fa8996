"""A part as checks see it, one file for each kind: tensors in, tensors out, and a way to make it afresh.

`Subject` is the contract; every method of it is abstract or final.
"""

from __future__ import annotations

from peirce.testing.subjects.architectures import ArchitectureSubject
from peirce.testing.subjects.base import Outputs, Subject
from peirce.testing.subjects.exporters import ExporterSubject
from peirce.testing.subjects.finding import subjects_of
from peirce.testing.subjects.heads import HeadSubject
from peirce.testing.subjects.operators import (
    OperatorSubject,
    RecurrentOperatorSubject,
    StateOperatorSubject,
    prepare,
)
from peirce.testing.subjects.positions import PositionSubject
from peirce.testing.subjects.tasks import TaskSubject
from peirce.testing.subjects.tokens import TokenSubject

__all__ = [
    "ArchitectureSubject",
    "ExporterSubject",
    "HeadSubject",
    "OperatorSubject",
    "Outputs",
    "PositionSubject",
    "RecurrentOperatorSubject",
    "StateOperatorSubject",
    "Subject",
    "TaskSubject",
    "TokenSubject",
    "prepare",
    "subjects_of",
]

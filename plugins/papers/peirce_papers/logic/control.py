"""The control: a model that is told of some other argument's structure, in training and in tests."""

from __future__ import annotations

from attrs import evolve

from peirce_logic.choices.task import ChoiceData, MultipleChoice, with_ids


class OtherIds(MultipleChoice):
    """`multiple_choice` whose rows have the ids of other questions, cut or filled to their length."""

    name = "multiple_choice, other ids"

    def prepare(self) -> ChoiceData:
        """The questions, with the ids of others of their split."""
        data = super().prepare()
        return evolve(data, splits={split: with_ids(data, split, 0).splits[split] for split in data.splits})

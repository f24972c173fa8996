"""Stories as token ids: the people as words or as tokens of their own, the question after or before the story."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from peirce_text.clutrr.stories import Story
from peirce_text.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from peirce_text.clutrr.task import ClutrrOptions

Ints = NDArray[np.int64]


class EncodedStory(NamedTuple):
    """One story as ids.

    Args:
        ids: int64 [x]; a person that has a token is the vocabulary's size plus a number, which `named` changes.
        first: how many tokens the first part has, with its special ones.
        query: where the two people stand in the question, the first piece of each.
        cut: how many tokens of the story found no room.
    """

    ids: Ints
    first: int
    query: tuple[int, int]
    cut: int


@frozen(eq=False)
class Encoder:
    """Turns stories into ids: `[CLS] story [SEP] one other [SEP]`, or the two parts the other way round.

    Args:
        tokenizer: splits text into pieces.
        options: the task's.
    """

    tokenizer: Tokenizer
    options: ClutrrOptions
    _known: dict[str, list[int]] = field(factory=dict, init=False, repr=False)

    @property
    def entities(self) -> int:
        """How many tokens there are for people, beside the vocabulary; 0 where names are words."""
        return 0 if self.options.people == "words" else self.options.entities

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return self.tokenizer.vocabulary + self.entities

    def encode(self, story: Story) -> EncodedStory:
        """The ids of one story."""
        text = [piece for segment in story.segments for piece in self._pieces(story, segment)]
        one, other = (self._pieces(story, place) for place in story.query)
        query = [*one, *other]
        room = max(0, self.options.length - len(query) - 3)
        cut, text = max(0, len(text) - room), text[:room]
        parts = (text, query) if self.options.first == "story" else (query, text)
        ids = [self.tokenizer.cls_id, *parts[0], self.tokenizer.sep_id, *parts[1], self.tokenizer.sep_id]
        begin = len(text) + 2 if self.options.first == "story" else 1
        return EncodedStory(np.array(ids, dtype=np.int64), len(parts[0]) + 2, (begin, begin + len(one)), cut)

    def named(self, ids: Ints, order: Ints) -> Ints:
        """The ids with the people's tokens renamed.

        Args:
            ids: int64 [b, x], as `encode` gives them.
            order: int64 [b, entities], the token of each place, a permutation in each row.
        """
        place = ids - self.tokenizer.vocabulary
        tokens = np.take_along_axis(order, np.maximum(place, 0), axis=1)
        return np.where(place >= 0, self.tokenizer.vocabulary + tokens, ids)

    def drawn(self, rows: int, random: np.random.Generator) -> Ints:
        """[rows, entities], the tokens of each story's people, for `named`."""
        order = np.tile(np.arange(self.entities), (rows, 1))
        fixed = 2 if self.options.people == "roles" else 0
        order[:, fixed:] = random.permuted(order[:, fixed:], axis=1)
        return order

    def _token(self, story: Story, person: int) -> int:
        """The token of a person before it is drawn."""
        if self.options.people != "roles":
            return person
        asked = dict.fromkeys(story.query)
        return [*asked, *(other for other in range(len(story.people)) if other not in asked)].index(person)

    def _pieces(self, story: Story, segment: str | int) -> list[int]:
        if isinstance(segment, int):
            if self.entities:
                return [self.tokenizer.vocabulary + self._token(story, segment)]
            segment = story.people[segment]
        if segment not in self._known:
            self._known[segment] = self.tokenizer.pieces(segment)
        return self._known[segment]

"""What is searched: a setting, and the values that it may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from peirce.errors import TaskError
from peirce.model import AnyTask
from peirce.spec import parse_override
from peirce_training.settings import all_settings, read_settings

if TYPE_CHECKING:
    import optuna

_FORMS = "KEY=LOW..HIGH, such as train.lr=1e-5..1e-3:log, or KEY=VALUE,VALUE, such as batch_size=16,32,64"


@frozen(kw_only=True)
class Axis:
    """One setting.

    Args:
        key: its whole name, such as `train.lr`.
        text: how it was given.
        values: the values that it may have; empty for all between two numbers.
        low, high: these numbers, which are taken too.
        log: whether each factor between them is as likely as any other of its size.
    """

    key: str
    text: str
    values: Sequence[Any] = field(default=(), converter=tuple)
    low: float = 0
    high: float = 0
    log: bool = False

    @classmethod
    def parse(cls, text: str, task: type[AnyTask]) -> Axis:
        """Read `KEY=LOW..HIGH`, with `:log` behind it or not, or `KEY=VALUE,VALUE`.

        Args:
            text: such as `train.lr=1e-5..1e-3:log`; a key without a prefix is an option of the task.
            task: the task's class.

        Raises:
            TaskError: it is none of these, or nothing has such a setting.
        """
        name, equals, given = (part.strip() for part in text.partition("="))
        if not name or not equals:
            raise TaskError(f"--over {text}: give {_FORMS}")
        low, dots, rest = given.partition("..")
        if not dots:
            listed = [value.strip() for value in given.split(",") if value.strip()]
            values = [value for each in listed for value in read_settings([f"{name}={each}"], task).values()]
            if len(set(map(repr, values))) < max(2, len(values)):
                raise TaskError(
                    f"--over {text}: there are not two different values to choose from; give {_FORMS}"
                )
            if odd := [value for value in values if not isinstance(value, str | int | float)]:
                raise TaskError(f"--over {text}: {odd[0]!r} is no number, no text and neither true nor false")
            return cls(key=_key(name, task), text=text, values=values)
        high, colon, how = rest.partition(":")
        key = _key(name, task)
        kinds = {one["name"]: one["type"] for one in all_settings(task)}
        ends = [parse_override(f"{name}={end}")[1] for end in (low, high)]
        if (
            not all(type(end) in (int, float) for end in ends)
            or not ends[0] < ends[1]
            or how not in (("log",) if colon else ("",))
            or (how and ends[0] <= 0)
        ):
            raise TaskError(
                f"--over {text}: give two numbers, the lower one first, and with :log both above zero: {_FORMS}"
            )
        if kinds.get(key, "").startswith("float"):
            ends = list(map(float, ends))
        return cls(key=key, text=text, low=ends[0], high=ends[1], log=bool(how))

    @property
    def ends(self) -> Sequence[Any]:
        """The values, or the lowest and the highest."""
        return self.values or (self.low, self.high)

    def suggest(self, trial: optuna.Trial) -> Any:
        """The value that a trial has."""
        if self.values:
            return trial.suggest_categorical(self.key, self.values)
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(self.key, self.low, self.high, log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)


def _key(name: str, task: type[AnyTask]) -> str:
    (key,) = read_settings([f"{name}=0"], task)
    return key
